"""From bytes to text, to JSON, to a validated value; where that fails, a reason for people."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from shared.domain.source import Source

if TYPE_CHECKING:
    from pathlib import Path

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file is.

    Attributes:
        path: The file.
        name: What it is called in reports: its path below the folder that is read, with `/`.
        collection: The name of that folder. It keeps apart what two folders call the same, and
            stays when the folder moves, so that ids do.
    """

    path: Path
    name: str
    collection: str


Record = tuple[str, Callable[[], Source]]
"""A record before it is read: where it stands, for people, and what reads it.

The call raises `Unreadable` or `OSError`; a reader whose iteration raises them gives up its file.
"""

MEGABYTE = 1_000_000
_FAULTS_SHOWN = 3


class Unreadable(Exception):
    """A file or a record that cannot go in; the message says why."""


def read_text(path: Path, limit: int) -> str:
    """The text of a whole file.

    Raises:
        Unreadable: It has more bytes than the limit, or it is binary, or not UTF-8.
        OSError: It cannot be opened.
    """
    if reason := excess(path.stat().st_size, limit):
        raise Unreadable(reason)
    data = path.read_bytes()
    nul = data.find(b"\0")
    if nul >= 0:
        raise Unreadable(f"is not text: a NUL byte stands at position {nul}")
    return decode(data)


def excess(size: int, limit: int) -> str | None:
    """Why something of this size is not read, if it is not."""
    return f"is larger than {limit // MEGABYTE} MB: split it" if size > limit else None


def decode(data: bytes) -> str:
    """UTF-8, with or without a byte order mark.

    Raises:
        Unreadable: It is another encoding; the reason names the first byte that shows it.
    """
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        byte = f"byte 0x{data[error.start]:02x} at position {error.start}"
        raise Unreadable(f"is not UTF-8: {byte}; save it as UTF-8") from error


def parse_json(text: str) -> Any:
    """A JSON value.

    Raises:
        Unreadable: It is not JSON, or nested deeper than the interpreter's stack.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise Unreadable(f"is not JSON: {error.msg} ({line}column {error.colno})") from error
    except ValueError as error:
        raise Unreadable(f"holds a number that is too long: {error}") from error
    except RecursionError as error:
        raise Unreadable("is nested too deeply") from error


def validated(model: type[Model], value: object) -> Model:
    """The value as the model understands it.

    Raises:
        Unreadable: A field is missing or of another type; the reason names the first few.
    """
    if not isinstance(value, dict):
        raise Unreadable("is not a JSON object")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise Unreadable(_faults(error)) from error


def _faults(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False)
    shown = [
        f"{'.'.join(map(str, fault['loc']))}: {fault['msg'].removeprefix('Value error, ')}"
        for fault in faults[:_FAULTS_SHOWN]
    ]
    more = len(faults) - len(shown)
    return "; ".join([*shown, f"and {more} more"] if more else shown)
