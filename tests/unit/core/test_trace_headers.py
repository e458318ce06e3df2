"""A request's trace is read, logged and passed on; the log says only what it wrote itself."""

import errno
import io
import json
import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from shared.core.log import (
    TraceContext,
    _LineLogger,
    bind_trace,
    log,
    make_traceparent_header,
    parse_trace,
)

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN_ID = "00f067aa0ba902b7"
PROJECT_ID = "shelf"
TRACEPARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"


def make_headers(*fields: tuple[str, str]) -> Headers:
    """Make headers; a name may occur several times."""
    return Headers(raw=[(name.lower().encode(), value.encode("latin-1")) for name, value in fields])


NEW, OLD = "traceparent", "X-Cloud-Trace-Context"
OTHER = f"{'b' * 32}/7;o=0"


@pytest.mark.parametrize(
    ("fields", "span_id", "sampled"),
    [
        ([(NEW, TRACEPARENT)], SPAN_ID, True),
        ([(NEW, f"00-{TRACE_ID}-{SPAN_ID}-00")], SPAN_ID, False),
        ([(NEW, f"00-{TRACE_ID}-{SPAN_ID}-02")], SPAN_ID, False),
        ([(NEW, f"00-{TRACE_ID}-{SPAN_ID}-03")], SPAN_ID, True),
        ([(NEW, f"01-{TRACE_ID}-{SPAN_ID}-01-what-comes-later")], SPAN_ID, True),
        ([(OLD, OTHER), (NEW, TRACEPARENT)], SPAN_ID, True),
        ([(OLD, f"{TRACE_ID}/{int(SPAN_ID, 16)};o=1")], SPAN_ID, True),
        ([(OLD, f"{TRACE_ID}/{int(SPAN_ID, 16)}")], SPAN_ID, False),
        ([(OLD, f"{TRACE_ID.upper()}/1;o=0")], "0000000000000001", False),
        ([(OLD, f"{TRACE_ID};o=1")], None, True),
        ([(OLD, f"{TRACE_ID}/0;o=1")], None, True),
        ([(OLD, f"{TRACE_ID}/99999999999999999999")], None, False),  # more than 64 bits
        ([(OLD, TRACE_ID)], None, False),
    ],
)
def test_a_trace_is_parsed_from_the_newer_or_older_header(
    fields: Sequence[tuple[str, str]], span_id: str | None, *, sampled: bool
) -> None:
    assert parse_trace(make_headers(*fields)) == TraceContext(TRACE_ID, span_id, sampled)


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


def test_the_trace_is_passed_on_with_a_span() -> None:
    with bind_trace(make_headers(("traceparent", TRACEPARENT)), PROJECT_ID):
        assert make_traceparent_header() == {"traceparent": TRACEPARENT}
    assert make_traceparent_header() == {}
    with bind_trace(make_headers(("x-cloud-trace-context", TRACE_ID)), PROJECT_ID):
        trace = parse_trace(Headers(make_traceparent_header()))
    assert trace is not None
    assert (trace.trace_id, trace.sampled) == (TRACE_ID, False)
    assert trace.span_id is not None


SECRET = "what-nobody-may-read"


def test_a_librarys_message_is_not_logged() -> None:
    output = io.StringIO()
    logger = logging.getLogger("a.library")
    handler = logging.StreamHandler(output)
    logger.addHandler(handler)
    try:
        int(SECRET)
    except ValueError:
        logger.exception("dropped %r", SECRET, stack_info=True, extra={"content": SECRET})
    finally:
        logger.removeHandler(handler)
    line = json.loads(output.getvalue())

    assert line["message"] == "library"
    assert line["logger"] == "a.library"
    assert line["severity"] == "ERROR"
    assert line["error"] == "ValueError"
    assert line["where"].startswith(__file__)
    assert SECRET not in output.getvalue()


class _FullDisk(io.StringIO):
    def write(self, _text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_loses_the_line_and_not_the_call() -> None:
    _LineLogger(_FullDisk()).info("a line")
