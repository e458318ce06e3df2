"""One JSON object a line, with the field names that Cloud Logging understands.

What is logged are names, sizes, counts and codes; never content, tokens or keys. Libraries log
through `logging`, and some quote what people sent: of these lines only their place is kept.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from typing import Any

import structlog


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
        **(describe(error) if error else {}),
    }
    record.msg, record.args = json.dumps(line), ()
    record.exc_info = record.stack_info = None
    return record


logging.setLogRecordFactory(_where_only)


def only_warnings() -> None:
    """Keep quiet about what goes well: for a terminal, where the command itself says that."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


def describe(error: BaseException) -> dict[str, Any]:
    """Where an error comes from: its type and the lines it passed, without its words.

    An error's message may quote what a person wrote; the lines of our code cannot.
    """
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "error": type(error).__name__,
        "stack": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
        "cause": describe(error.__cause__) if error.__cause__ else None,
    }
