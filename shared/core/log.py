"""Structured logs, each line with the trace and the call that it belongs to.

Which trace a request belongs to: its log lines, and those of the functions it calls, show it.

Cloud Run's front end puts both headers on every request. `traceparent` is the W3C's Trace Context
(https://www.w3.org/TR/trace-context/), `X-Cloud-Trace-Context` what Google had before.

One JSON object a line, with the field names that Cloud Logging understands.

What is logged are names, sizes, counts and codes; never content, tokens or keys. Libraries log
through `logging`, and some quote what people sent: of these lines only their place is kept.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import traceback
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog
from structlog.contextvars import bound_contextvars, get_contextvars

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from starlette.datastructures import Headers

TRACE: Final = "logging.googleapis.com/trace"
SPAN: Final = "logging.googleapis.com/spanId"
SAMPLED: Final = "logging.googleapis.com/trace_sampled"

_TRACEPARENT: Final = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_CLOUD_TRACE: Final = re.compile(r"([0-9a-fA-F]{32})(?:/([0-9]{1,20}))?(?:;o=([0-9]))?")
_FIRST_VERSION: Final = "00"
_SPAN_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A place in a trace.

    Attributes:
        trace_id: 32 hexadecimal digits, not all of them 0.
        span_id: 16 hexadecimal digits, not all of them 0; None where no span was named.
        sampled: Whether the trace is recorded.
    """

    trace_id: str
    span_id: str | None
    sampled: bool


def parse_trace(headers: Headers) -> TraceContext | None:
    """The trace that a request belongs to; None where no header says so in its proper form."""
    return _traceparent(headers) or _cloud_trace(headers)


def bind_trace(headers: Headers, project: str) -> AbstractContextManager[object]:
    """While this is entered, log lines show the trace that a request belongs to."""
    trace = parse_trace(headers)
    if trace is None:
        return nullcontext()
    fields: dict[str, Any] = {
        TRACE: f"projects/{project}/traces/{trace.trace_id}",
        SAMPLED: trace.sampled,
    }
    return bound_contextvars(**fields, **({SPAN: trace.span_id} if trace.span_id else {}))


def traceparent_header() -> dict[str, str]:
    """The header that takes the trace on to another function; none where there is no trace."""
    fields = get_contextvars()
    if TRACE not in fields:
        return {}
    trace_id = fields[TRACE].rpartition("/")[2]
    # The header demands a span, even where nobody named one.
    span_id = fields.get(SPAN) or secrets.token_hex(_SPAN_BYTES)
    return {"traceparent": f"{_FIRST_VERSION}-{trace_id}-{span_id}-{fields[SAMPLED]:02x}"}


def _traceparent(headers: Headers) -> TraceContext | None:
    found = headers.getlist("traceparent")
    form = _TRACEPARENT.match(found[0].strip()) if len(found) == 1 else None
    if not form:
        return None
    version, trace_id, span_id, flags = form.groups()
    rest = form.string[form.end() :]
    # A later version may say more, but nothing of this changes its place.
    whole = not rest or (rest.startswith("-") and version != _FIRST_VERSION)
    if not whole or not _named(trace_id) or not _named(span_id):
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & 1))


def _cloud_trace(headers: Headers) -> TraceContext | None:
    """`TRACE_ID/SPAN_ID;o=OPTIONS`, the span as a decimal number; it and the options may miss."""
    found = headers.getlist("x-cloud-trace-context")
    form = _CLOUD_TRACE.fullmatch(found[0].strip()) if len(found) == 1 else None
    if not form or not _named(form[1]):
        return None
    span_id = f"{int(form[2] or 0):016x}"
    named = _named(span_id) and len(span_id) == 2 * _SPAN_BYTES
    return TraceContext(form[1].lower(), span_id if named else None, form[3] == "1")


def _named(identifier: str) -> bool:
    return set(identifier) != {"0"}


def _for_cloud_logging(
    _logger: object, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    event["severity"] = method.upper()
    event["message"] = event.pop("event")
    return event


structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        _for_cloud_logging,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.JSONRenderer(),
    ],
    wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
)

log: Any = structlog.get_logger()


def _where_only(*arguments: Any, **more: Any) -> logging.LogRecord:
    """A library's record without its words. No handler of anybody's can show what is not there."""
    record = logging.LogRecord(*arguments, **more)
    error = record.exc_info[1] if record.exc_info else None
    line = {
        **structlog.contextvars.get_contextvars(),
        "severity": record.levelname,
        "message": "library",
        "logger": record.name,
        "where": f"{record.pathname}:{record.lineno}",
        **(error_fields(error) if error else {}),
    }
    record.msg, record.args = json.dumps(line), ()
    record.exc_info = record.stack_info = None
    return record


logging.setLogRecordFactory(_where_only)


def log_only_warnings() -> None:
    """Keep quiet about what goes well: for a terminal, where the command itself says that."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


def error_fields(error: BaseException) -> dict[str, Any]:
    """Where an error comes from: its type and the lines it passed, without its words.

    An error's message may quote what a person wrote; the lines of our code cannot.
    """
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "error": type(error).__name__,
        "stack": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
        "cause": error_fields(error.__cause__) if error.__cause__ else None,
    }
