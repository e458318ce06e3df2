"""A call is one OpenTelemetry trace, from the client through a tool's function to the database."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from functions.gateway.calls.pipeline import hash_account
from shared.accounts.keyring import Keyring
from tests.support.access import CLOUD_SETTINGS, build_key_maker
from tests.support.fakes.otlp import CollectedSpan, FakeCollector
from tests.support.gateway_process import (
    ACCESS_SECRET,
    INLINE_MAIN,
    PRIVATE_WORD,
    FilledProject,
    RunningGateway,
    run_gateway,
    run_local_functions,
)
from tests.support.log_metrics import parse_log_entry, read_lines
from tests.support.mcp_wire import make_call, post
from tests.support.ports import find_free_port
from tests.support.private_requests import send_private_word

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = f"00-{TRACE_ID}-{SPAN_ID}-01"
"""The header `traceparent` of a client that exports its spans."""
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
    with run_local_functions(["get_chunk", "search_kb"], traced_environment, log) as gateway:
        yield gateway


@pytest.fixture(params=["traced", "traced_functions"])
def gateway(request: pytest.FixtureRequest) -> RunningGateway:
    """A gateway that exports its spans, in each topology."""
    running: RunningGateway = request.getfixturevalue(request.param)
    return running


def list_ancestors(span: CollectedSpan, spans: list[CollectedSpan]) -> list[str]:
    """Return the names of a span and of its ancestors, from the root."""
    spans_by_id = {other.span_id: other for other in spans}
    names = [span.name]
    while parent := spans_by_id.get(span.parent_id):
        span = parent
        names.insert(0, span.name)
    return names


def find_span(name: str, spans: list[CollectedSpan]) -> CollectedSpan:
    """Return the only span with a name."""
    [span] = [span for span in spans if span.name == name]
    return span


def test_a_call_is_one_trace_from_http_to_database(
    traced: RunningGateway, collector: FakeCollector
) -> None:
    post(traced.endpoint, make_call("search_kb", SEARCH))
    spans = collector.spans
    assert len({span.trace_id for span in spans}) == 1
    kinds = {
        "POST /mcp": "SERVER",
        "tools/call search_kb": "SERVER",
        "execute_tool search_kb": "INTERNAL",
        "search_kb": "SERVER",
        "get_all lexicon": "CLIENT",
    }
    assert list_ancestors(find_span("get_all lexicon", spans), spans) == list(kinds)
    assert {name: find_span(name, spans).kind for name in kinds} == kinds
    assert not [span for span in spans if span.is_error]


def test_the_functions_of_a_call_are_in_one_trace(
    traced_functions: RunningGateway, collector: FakeCollector
) -> None:
    post(traced_functions.endpoint, make_call("get_chunk", {"chunk_id": "none"}))
    spans = collector.spans
    assert len({span.trace_id for span in spans}) == 1
    chunk = find_span("get chunks", spans)
    assert list_ancestors(chunk, spans) == [
        "POST /mcp",
        "tools/call get_chunk",
        "execute_tool get_chunk",
        "POST",
        "get_chunk",
        "get chunks",
    ]
    assert chunk.service == "get_chunk"
    assert find_span("get_chunk", spans).service == "get_chunk"
    assert find_span("POST", spans).service == "gateway"
    assert find_span("POST", spans).attributes["http.response.status_code"] == 404


def test_the_trace_of_the_official_client_continues(
    traced: RunningGateway, collector: FakeCollector
) -> None:
    """The client passes its trace in `_meta`."""
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
    command = [sys.executable, "-c", CLIENT_PROGRAM, traced.endpoint]
    subprocess.run(command, env=environment, check=True)
    spans = collector.spans
    [client] = [span for span in spans if span.service == "client" and "search_kb" in span.name]
    assert list_ancestors(find_span("get_all lexicon", spans), spans) == [
        client.name,
        "tools/call search_kb",
        "execute_tool search_kb",
        "search_kb",
        "get_all lexicon",
    ]


def test_a_trace_in_meta_is_preferred_to_that_of_http(
    traced: RunningGateway, collector: FakeCollector
) -> None:
    """The span of the call links to the trace of the HTTP request."""
    other_trace, other_span = "c" * 32, "d" * 16
    request = make_call("search_kb", SEARCH)
    request["params"]["_meta"] = {"traceparent": SAMPLED}
    post(traced.endpoint, request, {"traceparent": f"00-{other_trace}-{other_span}-01"})
    spans = collector.spans
    call = find_span("tools/call search_kb", spans)
    assert call.trace_id == TRACE_ID
    assert call.parent_id == SPAN_ID
    assert call.links == (other_trace,)
    http = find_span("POST /mcp", spans)
    assert http.trace_id == other_trace
    assert http.parent_id == other_span
    assert find_span("get_all lexicon", spans).trace_id == TRACE_ID


def test_a_request_that_is_not_sampled_has_no_spans(
    gateway: RunningGateway, collector: FakeCollector
) -> None:
    not_sampled = SAMPLED.removesuffix("01") + "00"
    post(gateway.endpoint, make_call("search_kb", SEARCH), {"traceparent": not_sampled})
    assert collector.spans == []


def test_the_log_line_of_a_call_has_the_ids_of_its_span(
    traced: RunningGateway, collector: FakeCollector
) -> None:
    size_before = traced.log.stat().st_size
    post(traced.endpoint, make_call("search_kb", SEARCH))
    [line] = read_lines(size_before, traced.log)
    entry = parse_log_entry(line)
    span = find_span("execute_tool search_kb", collector.spans)
    assert entry["trace"].endswith(f"/traces/{span.trace_id}")
    assert entry["spanId"] == span.span_id


def test_the_span_of_a_call_has_its_receipt(
    gateway: RunningGateway, collector: FakeCollector
) -> None:
    response = post(gateway.endpoint, make_call("search_kb", SEARCH))
    receipt = response.json()["result"]["_meta"]["carrel/receipt"]
    span = find_span("execute_tool search_kb", collector.spans)
    attributes = {
        name: value for name, value in span.attributes.items() if name.startswith("carrel.receipt.")
    }
    assert attributes == {f"carrel.receipt.{name}": value for name, value in receipt.items()}


def test_a_failed_call_has_the_code_of_its_error(
    gateway: RunningGateway, collector: FakeCollector
) -> None:
    post(gateway.endpoint, make_call("search_kb", {"query": ""}))
    spans = collector.spans
    errors = {span.name: span.attributes["error.type"] for span in spans if span.is_error}
    assert errors.pop("POST", "400") == "400"  # the request to a function, if tools are functions
    assert errors == {
        "tools/call search_kb": "tool_error",
        "execute_tool search_kb": "VALIDATION_ERROR",
        "search_kb": "VALIDATION_ERROR",
    }


@pytest.mark.requirement("001-O2")
def test_only_a_hash_of_the_caller_is_exported(
    traced_environment: dict[str, str], collector: FakeCollector, log: Path
) -> None:
    """Neither the key, nor the user's id, nor their texts are exported."""
    project = f"spans-{uuid.uuid4().hex[:16]}"
    key = build_key_maker(project)("ada-lovelace")
    environment = {**CLOUD_SETTINGS, "GOOGLE_CLOUD_PROJECT": project, "DEFAULT_ROLE": "owner"}
    note = {
        "text": f"Remember the {PRIVATE_WORD}.",
        "title": PRIVATE_WORD,
        "tags": [PRIVATE_WORD],
    }
    calls = [
        make_call("save_note", note),
        make_call("search_kb", {"query": f"the {PRIVATE_WORD}"}),
        make_call("add_task", {"title": PRIVATE_WORD}),
        make_call("search_kb", {"query": PRIVATE_WORD, "filters": {"cluster": PRIVATE_WORD}}),
    ]
    with run_gateway(INLINE_MAIN, {**traced_environment, **environment}, log) as gateway:
        headers: dict[str, str | None] = {"authorization": f"Bearer {key}"}
        answers = [post(gateway.endpoint, body, headers).text for body in calls]
    spans = collector.spans

    account_hash = hash_account("ada-lovelace", Keyring([SecretStr(ACCESS_SECRET)]))
    hashes = {span.attributes.get("enduser.pseudo.id") for span in spans}
    assert hashes == {account_hash, None}

    # The calls worked, and their spans were exported.
    save_note = find_span("execute_tool save_note", spans)
    assert save_note.attributes["carrel.receipt.documents_written"]
    assert {"get keys", "embeddings all-MiniLM-L6-v2-onnx-int8+use-multilingual-v3", "commit"} <= {
        span.name for span in spans if span.trace_id == save_note.trace_id
    }
    assert [PRIVATE_WORD in answer for answer in answers] == [True, True, True, False]

    exported = b"".join(collector.bodies)
    _, key_id, secret = key.split("_", 2)
    private_texts = (PRIVATE_WORD, "lovelace", key_id, secret)
    assert [text for text in private_texts if text.encode() in exported] == []


def test_no_content_is_exported(gateway: RunningGateway, collector: FakeCollector) -> None:
    answers = send_private_word(gateway)
    exported = b"".join(collector.bodies)
    assert PRIVATE_WORD in answers
    assert b"tools/call search_kb" in exported
    assert PRIVATE_WORD.encode() not in exported.lower()


def test_a_collector_that_is_down_does_not_affect_calls(
    traced_environment: dict[str, str], log: Path
) -> None:
    nowhere = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{find_free_port()}"}
    with run_gateway(INLINE_MAIN, {**traced_environment, **nowhere}, log) as gateway:
        answers = [post(gateway.endpoint, make_call("search_kb", SEARCH)).json() for _ in range(2)]
    assert [answer["result"]["isError"] for answer in answers] == [False, False]
