"""Structured logs: one JSON object per line, with the field names of Cloud Logging.

Each line names the trace of its request, which the lines of the called functions share. Cloud Run's
front end passes the trace in two headers: `traceparent` of the W3C's Trace Context
(https://www.w3.org/TR/trace-context/), and Google's older `X-Cloud-Trace-Context`.

Names, sizes, counts and codes are logged; never content, tokens or keys. Libraries log through
`logging`, and their messages may quote user input, so only the location of such a line is kept.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import traceback
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog
from structlog.contextvars import bound_contextvars, get_contextvars

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from starlette.datastructures import Headers

TRACE: Final = "logging.googleapis.com/trace"
SPAN: Final = "logging.googleapis.com/spanId"
SAMPLED_FIELD: Final = "logging.googleapis.com/trace_sampled"
"""The fields by which Cloud Logging finds the lines of a trace and of a span, and in which it reads
whether the trace is recorded."""

_TRACEPARENT: Final = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
"""The header `traceparent` (W3C Trace Context): version, trace id, span id and flags."""
_CLOUD_TRACE: Final = re.compile(r"([0-9a-fA-F]{32})(?:/([0-9]{1,20}))?(?:;o=([0-9]))?")
"""The header `X-Cloud-Trace-Context` of Google Cloud: trace id, span id and options."""
_FIRST_VERSION: Final = "00"
_SPAN_BYTES: Final = 8
"""The length of a span id, in bytes."""


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The position of a request in a trace.

    Attributes:
        trace_id: 32 hexadecimal digits, not all of them 0.
        span_id: 16 hexadecimal digits, not all of them 0, or None if no span was given.
    """

    trace_id: str
    span_id: str | None
    sampled: bool


def parse_trace(headers: Headers) -> TraceContext | None:
    """Return the trace of a request, or None if the request has no valid trace header."""
    return _parse_traceparent(headers) or _parse_cloud_trace(headers)


def bind_trace(headers: Headers, project: str) -> AbstractContextManager[object]:
    """Add the trace of a request to the log lines of the `with` block."""
    trace = parse_trace(headers)
    return bind_position(trace, project) if trace else nullcontext()


def bind_position(trace: TraceContext, project: str) -> AbstractContextManager[object]:
    """Add a position in a trace to the log lines of the `with` block."""
    fields: dict[str, Any] = {
        TRACE: f"projects/{project}/traces/{trace.trace_id}",
        SAMPLED_FIELD: trace.sampled,
    }
    return bound_contextvars(**fields, **({SPAN: trace.span_id} if trace.span_id else {}))


def get_position() -> TraceContext | None:
    """Return the current position in the trace, or None outside a trace.

    The position always has a span id, because it serves as a parent. If the request named no span,
    the id is random.
    """
    fields = get_contextvars()
    if TRACE not in fields:
        return None
    trace_id = fields[TRACE].rpartition("/")[2]
    span_id = fields.get(SPAN) or secrets.token_hex(_SPAN_BYTES)
    return TraceContext(trace_id, span_id, fields[SAMPLED_FIELD])


def make_traceparent_header() -> dict[str, str]:
    """Return the header that passes the trace to another function, or {} outside a trace."""
    trace = get_position()
    if trace is None:
        return {}
    return {"traceparent": f"{_FIRST_VERSION}-{trace.trace_id}-{trace.span_id}-{trace.sampled:02x}"}


def _parse_traceparent(headers: Headers) -> TraceContext | None:
    values = headers.getlist("traceparent")
    match = _TRACEPARENT.match(values[0].strip()) if len(values) == 1 else None
    if not match:
        return None
    version, trace_id, span_id, flags = match.groups()
    suffix = match.string[match.end() :]
    # Later versions may append fields, but must not change these.
    is_valid = not suffix or (suffix.startswith("-") and version != _FIRST_VERSION)
    if not is_valid or not _is_valid_id(trace_id) or not _is_valid_id(span_id):
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & 1))


def _parse_cloud_trace(headers: Headers) -> TraceContext | None:
    """Parse `TRACE_ID/SPAN_ID;o=OPTIONS`: the span is decimal; span and options are optional."""
    values = headers.getlist("x-cloud-trace-context")
    match = _CLOUD_TRACE.fullmatch(values[0].strip()) if len(values) == 1 else None
    if not match or not _is_valid_id(match[1]):
        return None
    span_id = f"{int(match[2] or 0):016x}"
    has_span = _is_valid_id(span_id) and len(span_id) == 2 * _SPAN_BYTES
    return TraceContext(match[1].lower(), span_id if has_span else None, match[3] == "1")


def _is_valid_id(identifier: str) -> bool:
    return set(identifier) != {"0"}


def _format_for_cloud_logging(
    _logger: object, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    event["severity"] = method.upper()
    event["message"] = event.pop("event")
    return event


class _LineLogger(structlog.WriteLogger):
    """Writes lines. On a full disk, the line is lost, but not the call that it is about."""

    def msg(self, message: str) -> None:
        with suppress(OSError):
            super().msg(message)

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        _format_for_cloud_logging,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.JSONRenderer(),
    ],
    wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    logger_factory=lambda *_: _LineLogger(sys.stderr),
)

log: Any = structlog.get_logger()


def _make_redacted_record(*arguments: Any, **options: Any) -> logging.LogRecord:
    """Make the record of a library's log line without the message, so that no handler shows it."""
    record = logging.LogRecord(*arguments, **options)
    error = record.exc_info[1] if record.exc_info else None
    line = {
        **structlog.contextvars.get_contextvars(),
        "severity": record.levelname,
        "message": "library",
        "logger": record.name,
        "where": f"{record.pathname}:{record.lineno}",
        **(error_fields(error) if error else {}),
    }
    record.msg = json.dumps(line)
    record.args = ()
    record.exc_info = record.stack_info = None
    return record


logging.setLogRecordFactory(_make_redacted_record)


def log_only_warnings() -> None:
    """Log only warnings and errors, for commands that report their progress themselves."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


class _LogFile:
    """A log file that is created with the first line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(text)

    def flush(self) -> None:
        """Do nothing: each write is flushed."""


def log_warnings_to(path: Path) -> None:
    """Log warnings and errors to a file, for commands that print failures in words themselves.

    The lines of an earlier command are deleted. If this command logs nothing, there is no file.
    """
    path.unlink(missing_ok=True)
    file: Any = _LogFile(path)
    log_only_warnings()
    structlog.configure(logger_factory=lambda *_: _LineLogger(file))
    logging.basicConfig(stream=file, format="%(message)s")


def error_fields(error: BaseException) -> dict[str, Any]:
    """Describe an error by its type and stack, without its message.

    A message may quote user input, but a stack of files, lines and functions cannot.
    """
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "error": type(error).__name__,
        "stack": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
        "cause": error_fields(error.__cause__) if error.__cause__ else None,
    }
