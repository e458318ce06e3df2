"""One JSON object a line, with the field names that Cloud Logging understands.

What is logged are names, sizes, counts and codes; never content, tokens or keys.
"""

from __future__ import annotations

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
        _for_cloud_logging,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.JSONRenderer(),
    ],
    wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
)

log: Any = structlog.get_logger()


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
