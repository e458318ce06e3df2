"""Traces, from the client through the gateway and a tool's function to the database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from functions.gateway.calls.call_span import hash_account
from infra.local.processes import serve
from infra.local.tool_processes import serve_tools
from shared.accounts.keyring import Keyring
from tests.e2e.access.conftest import CLOUD, build_key_maker
from tests.e2e.test_logs import read_lines
from tests.support.fakes.otlp import FakeCollector
from tests.support.gateway_process import (
    ACCESS_SECRET,
    INLINE_MAIN,
    PRIVATE_WORD,
    RunningGateway,
    run_gateway,
)
from tests.support.log_metrics import parse_log_entry
from tests.support.mcp_wire import make_call, post
from tests.support.ports import find_free_port
from tests.support.private_requests import send_private_word

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.fakes.otlp import CollectedSpan
    from tests.support.gateway_process import FilledProject

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = f"00-{TRACE_ID}-{SPAN_ID}-01"
SEARCH = {"query": "bread", "limit": 2}
CLIENT_PROGRAM = """
import asyncio, sys
from mcp import Client
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider(resource=Resource({"service.name": "client"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

async def main():
    async with Client(sys.argv[1]) as client:
        await client.call_tool("search_kb", {"query": "bread", "limit": 2})

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def module_collector() -> Iterator[FakeCollector]:
    """The collector of this file's functions."""
    with FakeCollector() as collector:
        yield collector


@pytest.fixture
def collector(module_collector: FakeCollector) -> FakeCollector:
    """The collector, without the spans of earlier tests."""
    module_collector.bodies.clear()
    return module_collector


@pytest.fixture(scope="module")
def traced_environment(
    module_collector: FakeCollector, filled_project: FilledProject
) -> dict[str, str]:
    """The environment of functions that export their spans."""
    return {**filled_project.environment, "OTEL_EXPORTER_OTLP_ENDPOINT": module_collector.endpoint}


@pytest.fixture(scope="module")
def traced(traced_environment: dict[str, str], log: Path) -> Iterator[RunningGateway]:
    """A gateway with the tools in its own process."""
    with run_gateway(INLINE_MAIN, traced_environment, log) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def traced_functions(traced_environment: dict[str, str], log: Path) -> Iterator[RunningGateway]:
    """A gateway with two tools in processes of their own."""
    with serve_tools(["get_chunk", "search_kb"], traced_environment, log=log) as local_functions:
        port = find_free_port()
        environment = {
            **traced_environment,
            "PUBLIC_URL": f"http://127.0.0.1:{port}",
            "ACCESS_SECRETS": json.dumps([ACCESS_SECRET]),
            "LOCAL_USER": "local",
        }
        program = local_functions.make_gateway_program(environment)
        with serve(program, port=port, log=log) as gateway:
            yield RunningGateway(gateway, local_functions.servers, log)


@pytest.fixture(params=["traced", "traced_functions"])
def gateway(request: pytest.FixtureRequest) -> RunningGateway:
    """A gateway that exports its spans, in each topology."""
    running: RunningGateway = request.getfixturevalue(request.param)
    return running


def list_ancestors(span: CollectedSpan, spans: list[CollectedSpan]) -> list[str]:
    """Return the names of a span and of its ancestors, from the root."""
    by_id = {other.span_id: other for other in spans}
    names = [span.name]
    while parent := by_id.get(span.parent_id):
        span = parent
        names.insert(0, span.name)
    return names


def find(name: str, spans: list[CollectedSpan]) -> CollectedSpan:
    """Return the only span with a name."""
    [span] = [span for span in spans if span.name == name]
    return span


def test_a_call_is_one_trace_from_http_to_database(
    traced: RunningGateway, collector: FakeCollector
) -> None:
    post(traced.endpoint, make_call("search_kb", SEARCH))
    spans = collector.spans
    assert len({span.trace_id for span in spans}) == 1
    path = ["POST /mcp", "tools/call search_kb", "execute_tool search_kb", "search_kb"]
    lexicon = find("get_all lexicon", spans)
    assert list_ancestors(lexicon, spans) == [*path, "get_all lexicon"]
    assert [find(name, spans).kind for name in [*path, "get_all lexicon"]] == [
        *("SERVER", "SERVER", "INTERNAL", "SERVER", "CLIENT")
    ]
    assert not [span for span in spans if span.is_error]


def test_the_functions_of_a_call_are_in_one_trace(
    traced_functions: RunningGateway, collector: FakeCollector
) -> None:
    post(traced_functions.endpoint, make_call("get_chunk", {"chunk_id": "none"}))
    spans = collector.spans
    assert len({span.trace_id for span in spans}) == 1
    chunk = find("get chunks", spans)
    assert list_ancestors(chunk, spans) == [
        *("POST /mcp", "tools/call get_chunk", "execute_tool get_chunk", "POST", "get_chunk"),
        "get chunks",
    ]
    assert find("get_chunk", spans).service == chunk.service == "get_chunk"
    assert find("POST", spans).service == "gateway"
    assert find("POST", spans).attributes["http.response.status_code"] == 404


def test_the_trace_of_the_official_client_goes_on(
    traced: RunningGateway, collector: FakeCollector
) -> None:
    """It passes its trace in `_meta`."""
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
    command = [sys.executable, "-c", CLIENT_PROGRAM, traced.endpoint]
    subprocess.run(command, env=environment, check=True)
    spans = collector.spans
    [client] = [span for span in spans if span.service == "client" and "search_kb" in span.name]
    assert list_ancestors(find("get_all lexicon", spans), spans) == [
        *(client.name, "tools/call search_kb", "execute_tool search_kb", "search_kb"),
        "get_all lexicon",
    ]


def test_a_trace_in_meta_is_preferred_to_that_of_http(
    traced: RunningGateway, collector: FakeCollector
) -> None:
    """The span of HTTP, which is in another trace, is linked."""
    other_trace = "c" * 32
    request = make_call("search_kb", SEARCH)
    request["params"]["_meta"] = {"traceparent": SAMPLED}
    post(traced.endpoint, request, {"traceparent": f"00-{other_trace}-{'d' * 16}-01"})
    spans = collector.spans
    mcp, http = find("tools/call search_kb", spans), find("POST /mcp", spans)
    assert (mcp.trace_id, mcp.parent_id, mcp.links) == (TRACE_ID, SPAN_ID, (other_trace,))
    assert (http.trace_id, http.parent_id) == (other_trace, "d" * 16)
    assert find("get_all lexicon", spans).trace_id == TRACE_ID


def test_a_request_that_is_not_sampled_has_no_spans(
    gateway: RunningGateway, collector: FakeCollector
) -> None:
    post(gateway.endpoint, make_call("search_kb", SEARCH), {"traceparent": f"{SAMPLED[:-1]}0"})
    assert collector.spans == []


def test_the_log_line_of_a_call_has_the_ids_of_its_span(
    traced: RunningGateway, collector: FakeCollector
) -> None:
    size_before = traced.log.stat().st_size
    post(traced.endpoint, make_call("search_kb", SEARCH))
    [line] = read_lines(size_before, traced.log)
    entry = parse_log_entry(line)
    span = find("execute_tool search_kb", collector.spans)
    assert entry["trace"].endswith(f"/traces/{span.trace_id}")
    assert entry["spanId"] == span.span_id


def test_the_span_of_a_call_has_its_receipt(
    gateway: RunningGateway, collector: FakeCollector
) -> None:
    answer = post(gateway.endpoint, make_call("search_kb", SEARCH)).json()
    receipt = answer["result"]["_meta"]["carrel/receipt"]
    span = find("execute_tool search_kb", collector.spans)
    prefix = "carrel.receipt."
    assert receipt == {
        name.removeprefix(prefix): value
        for name, value in span.attributes.items()
        if name.startswith(prefix)
    }


def test_a_failed_call_has_the_code_of_its_error(
    gateway: RunningGateway, collector: FakeCollector
) -> None:
    post(gateway.endpoint, make_call("search_kb", {"query": ""}))
    spans = collector.spans
    errors = {span.name: span.attributes["error.type"] for span in spans if span.is_error}
    assert errors.pop("POST", "400") == "400"
    assert errors == {
        "tools/call search_kb": "tool_error",
        "execute_tool search_kb": "VALIDATION_ERROR",
        "search_kb": "VALIDATION_ERROR",
    }


def test_of_a_caller_only_a_hash_is_exported(
    traced_environment: dict[str, str], collector: FakeCollector, log: Path
) -> None:
    """Neither the key, nor the user's id, nor what they write."""
    project = f"spans-{uuid.uuid4().hex[:16]}"
    key = build_key_maker(project)("ada-lovelace")
    environment = {**CLOUD, "GOOGLE_CLOUD_PROJECT": project, "DEFAULT_ROLE": "owner"}
    calls = [
        make_call(
            "save_note",
            {
                "text": f"Remember the {PRIVATE_WORD}.",
                "title": PRIVATE_WORD,
                "tags": [PRIVATE_WORD],
            },
        ),
        make_call("search_kb", {"query": f"the {PRIVATE_WORD}"}),
        make_call("add_task", {"title": PRIVATE_WORD}),
        make_call("search_kb", {"query": PRIVATE_WORD, "filters": {"cluster": PRIVATE_WORD}}),
    ]
    with run_gateway(INLINE_MAIN, {**traced_environment, **environment}, log) as gateway:
        answers = [
            post(gateway.endpoint, body, {"authorization": f"Bearer {key}"}).text for body in calls
        ]
    spans = collector.spans
    account_hash = hash_account("ada-lovelace", Keyring([SecretStr(ACCESS_SECRET)]))
    hashes = {span.attributes.get("enduser.pseudo.id") for span in spans}
    assert hashes == {account_hash, None}
    saved = find("execute_tool save_note", spans)
    assert saved.attributes["carrel.receipt.documents_written"]
    assert {"get keys", "embeddings all-MiniLM-L6-v2-onnx-int8", "commit"} <= {
        span.name for span in spans if span.trace_id == saved.trace_id
    }
    assert [PRIVATE_WORD in answer for answer in answers] == [True, True, True, False]
    exported = b"".join(collector.bodies)
    _, key_id, secret = key.split("_", 2)
    private = (PRIVATE_WORD, "lovelace", key_id, secret)
    assert [text for text in private if text.encode() in exported] == []


def test_no_content_is_exported(gateway: RunningGateway, collector: FakeCollector) -> None:
    answers = send_private_word(gateway)
    exported = b"".join(collector.bodies)
    assert PRIVATE_WORD in answers
    assert b"tools/call search_kb" in exported
    assert PRIVATE_WORD.encode() not in exported.lower()


def test_a_collector_that_is_down_stops_no_call(
    traced_environment: dict[str, str], log: Path
) -> None:
    nowhere = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{find_free_port()}"}
    with run_gateway(INLINE_MAIN, {**traced_environment, **nowhere}, log) as gateway:
        answers = [post(gateway.endpoint, make_call("search_kb", SEARCH)).json() for _ in range(2)]
    assert [answer["result"]["isError"] for answer in answers] == [False, False]
