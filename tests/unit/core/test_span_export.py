"""Spans are exported to Google or to a collector, and a function runs without the exporter too."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from infra.build.discovery import ROOT
from shared.core import span_export
from shared.core.errors import InvalidInput
from shared.core.settings import Settings
from shared.core.span_export import SpanExport
from tests.support.fakes.metadata import FakeMetadata
from tests.support.fakes.otlp import FakeCollector

COLLECTOR = "https://collector.example/otlp"
EXPORTING_PROGRAM = """
import asyncio, sys
from shared.core import span_export, telemetry
from shared.core.settings import Settings

span_export.GOOGLE_ENDPOINT = sys.argv[1]
telemetry.start(Settings(), "search_kb")
with telemetry.span("work"):
    pass
asyncio.run(telemetry.flush())
"""
IMPORT_REPORTING_PROGRAM = """
import sys
from shared.core import telemetry
from shared.core.settings import Settings

if sys.argv[1:] == ["without exporter"]:
    sys.modules["shared.core.span_export"] = None
telemetry.start(Settings(), "search_kb")
with telemetry.span("work") as span:
    span.set({"carrel.number": 1})
print(telemetry.is_on(), "opentelemetry" in sys.modules)
"""


def run_program(
    program: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if "OTEL" not in name}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env=variables | environment,
        check=True,
        capture_output=True,
        text=True,
    )


def test_telemetry_gcp_exports_to_google_with_the_accounts_token(tmp_path: Path) -> None:
    with FakeMetadata() as metadata, FakeCollector() as collector:
        run_program(
            EXPORTING_PROGRAM,
            f"{collector.endpoint}/v1/traces",
            TELEMETRY="gcp",
            GOOGLE_CLOUD_PROJECT="my-carrel-123",
            GCE_METADATA_HOST=metadata.address,
            GCE_METADATA_IP=metadata.address,
            CLOUDSDK_CONFIG=str(tmp_path),
            GOOGLE_APPLICATION_CREDENTIALS="",
        )
    [span] = collector.spans
    [headers] = collector.headers
    assert (span.name, span.service) == ("work", "search_kb")
    assert span.resource["gcp.project_id"] == "my-carrel-123"
    assert headers["authorization"] == f"Bearer {metadata.access_token}"


def test_headers_for_a_collector_are_sent() -> None:
    with FakeCollector() as collector:
        run_program(
            EXPORTING_PROGRAM,
            "",
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
            OTEL_EXPORTER_OTLP_HEADERS="api-key=k-123",
        )
    [headers] = collector.headers

    assert headers["api-key"] == "k-123"
    assert len(collector.spans) == 1


async def test_a_collector_that_does_not_answer_delays_one_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = threading.Event()
    with FakeCollector() as collector:
        collector.on_spans = lambda _: answers.wait()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        export = SpanExport(Settings(), "search_kb")
        with export.span("work", {}, "INTERNAL", None):
            pass
        monkeypatch.setattr(span_export, "FLUSH_SECONDS", 0.01)
        await export.flush()
        monkeypatch.setattr(span_export, "FLUSH_SECONDS", None)  # for ever
        try:
            async with asyncio.timeout(1):
                await export.flush()
        finally:
            answers.set()


def test_telemetry_that_is_off_or_not_in_the_bundle_imports_no_library() -> None:
    assert run_program(IMPORT_REPORTING_PROGRAM).stdout == "False False\n"
    process = run_program(
        IMPORT_REPORTING_PROGRAM, "without exporter", OTEL_EXPORTER_OTLP_ENDPOINT=COLLECTOR
    )
    assert process.stdout == "False False\n"
    assert json.loads(process.stderr)["message"] == "telemetry_not_in_bundle"


@pytest.mark.parametrize(
    ("telemetry", "collector", "message"),
    [
        ("gcp", COLLECTOR, "either TELEMETRY or OTEL_EXPORTER_OTLP_ENDPOINT"),
        (None, "http://collector.example", "OTEL_EXPORTER_OTLP_ENDPOINT must begin with https"),
    ],
)
def test_there_is_one_destination_with_https(
    telemetry: str | None, collector: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        Settings(telemetry=telemetry, otel_exporter_otlp_endpoint=collector)
