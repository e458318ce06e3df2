"""A request's trace is read from its headers, logged, and passed on."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from shared.core.log import TraceContext, bind_trace, log, make_traceparent_header, parse_trace

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN_ID = "00f067aa0ba902b7"
PROJECT_ID = "shelf"
TRACEPARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"


def make_headers(*fields: tuple[str, str]) -> Headers:
    """Make headers; a name may occur several times."""
    return Headers(raw=[(name.lower().encode(), value.encode("latin-1")) for name, value in fields])


@pytest.mark.parametrize(
    ("header", "sampled"),
    [
        (TRACEPARENT, True),
        (f"00-{TRACE_ID}-{SPAN_ID}-00", False),
        (f"00-{TRACE_ID}-{SPAN_ID}-03", True),
        (f"01-{TRACE_ID}-{SPAN_ID}-01-what-comes-later", True),
    ],
)
def test_traceparent_has_trace_and_span(header: str, *, sampled: bool) -> None:
    assert parse_trace(make_headers(("traceparent", header))) == TraceContext(
        TRACE_ID, SPAN_ID, sampled
    )


@pytest.mark.parametrize(
    ("header", "span_id", "sampled"),
    [
        (f"{TRACE_ID}/{int(SPAN_ID, 16)};o=1", SPAN_ID, True),
        (f"{TRACE_ID}/{int(SPAN_ID, 16)}", SPAN_ID, False),
        (f"{TRACE_ID.upper()}/1;o=0", "0000000000000001", False),
        (f"{TRACE_ID};o=1", None, True),
        (f"{TRACE_ID}/0;o=1", None, True),
        (f"{TRACE_ID}/99999999999999999999", None, False),  # more than 64 bits
        (TRACE_ID, None, False),
    ],
)
def test_googles_older_header_is_parsed(header: str, span_id: str | None, *, sampled: bool) -> None:
    trace = parse_trace(make_headers(("X-Cloud-Trace-Context", header)))
    assert trace == TraceContext(TRACE_ID, span_id, sampled)


def test_traceparent_takes_precedence() -> None:
    older_header = f"{'b' * 32}/7;o=0"
    headers = make_headers(("x-cloud-trace-context", older_header), ("traceparent", TRACEPARENT))
    assert parse_trace(headers) == TraceContext(TRACE_ID, SPAN_ID, sampled=True)


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [("traceparent", "")],
        [("traceparent", f"ff-{TRACE_ID}-{SPAN_ID}-01")],
        [("traceparent", f"00-{'0' * 32}-{SPAN_ID}-01")],
        [("traceparent", f"00-{TRACE_ID}-{'0' * 16}-01")],
        [("traceparent", f"00-{TRACE_ID.upper()}-{SPAN_ID}-01")],
        [("traceparent", f"{TRACEPARENT}-more")],
        [("traceparent", f"{TRACEPARENT}1")],
        [("traceparent", f"01-{TRACE_ID}-{SPAN_ID}-01more")],
        [("traceparent", TRACEPARENT), ("traceparent", TRACEPARENT)],
        [("traceparent", "garbage")],
        [("x-cloud-trace-context", "garbage")],
        [("x-cloud-trace-context", f"{'0' * 32}/1")],
        [("x-cloud-trace-context", f"{TRACE_ID}/garbage")],
        [("x-cloud-trace-context", f"{TRACE_ID}/1;o=garbage")],
    ],
)
def test_missing_or_invalid_headers_give_no_trace(fields: Sequence[tuple[str, str]]) -> None:
    assert parse_trace(make_headers(*fields)) is None


@given(st.text(st.characters(max_codepoint=255)), st.text(st.characters(max_codepoint=255)))
def test_parsing_headers_never_raises(traceparent: str, cloud_trace_context: str) -> None:
    parse_trace(
        make_headers(("traceparent", traceparent), ("x-cloud-trace-context", cloud_trace_context))
    )


def test_log_lines_of_a_request_have_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with bind_trace(make_headers(("traceparent", TRACEPARENT)), PROJECT_ID):
        log.info("inside")
    log.info("outside")
    inside, outside = [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    assert {
        "logging.googleapis.com/trace": f"projects/{PROJECT_ID}/traces/{TRACE_ID}",
        "logging.googleapis.com/spanId": SPAN_ID,
        "logging.googleapis.com/trace_sampled": True,
    }.items() <= inside.items()
    assert outside.keys() == {"message", "severity", "time"}


def test_the_trace_is_passed_on_unchanged() -> None:
    with bind_trace(make_headers(("traceparent", TRACEPARENT)), PROJECT_ID):
        assert make_traceparent_header() == {"traceparent": TRACEPARENT}
    assert make_traceparent_header() == {}


def test_a_trace_without_a_span_is_passed_on_with_one() -> None:
    with bind_trace(make_headers(("x-cloud-trace-context", TRACE_ID)), PROJECT_ID):
        trace = parse_trace(Headers(make_traceparent_header()))
    assert trace is not None
    assert trace.trace_id == TRACE_ID
    assert not trace.sampled
    assert trace.span_id is not None
