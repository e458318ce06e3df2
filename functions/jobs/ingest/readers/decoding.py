"""From bytes to text, to JSON, to a validated value; where that fails, a reason for people."""

from __future__ import annotations

import json
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from shared.knowledge.source import Source

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime
    from pathlib import Path

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """Where a file is.

    Attributes:
        path: The file.
        name: What it is called in reports: its path below the folder that is read, with `/`.
        collection: What ids are made with: the name of the folder, and its number if it has one. It
            keeps apart what two folders call the same, and stays when the folder moves, so that ids
            do.
        key: The file's path below that folder, with `/`.
        modified_at: When the file was last changed, if its time says so: a download's does not.
    """

    path: Path
    name: str
    collection: str
    key: str
    modified_at: datetime | None = None


Location = tuple[int | str, ...]
Fault = tuple[Location, str]
"""Where in a record something is wrong, and what."""

Record = tuple[str, Callable[[], Source]]
"""A record before it is read: where it stands, for people, and what reads it.

The call raises `Unreadable` or `OSError`; a reader whose iteration raises them gives up its file.
"""

MEGABYTE = 1_000_000
UTF16_MARKS = (BOM_UTF16_LE, BOM_UTF16_BE)
"""What a file in UTF-16 begins with."""
_FAULTS_SHOWN = 3


class Unreadable(Exception):
    """A file or a record that cannot go in; the message says why."""


def read_text(path: Path, limit: int) -> str:
    """The text of a whole file, in UTF-8, or in UTF-16 with a byte order mark.

    Raises:
        Unreadable: It has more bytes than the limit, or it is binary, or in another encoding.
        OSError: It cannot be opened.
    """
    if reason := excess(path.stat().st_size, limit):
        raise Unreadable(reason)
    data = path.read_bytes()
    if data.startswith(UTF16_MARKS):
        return _decode_utf16(data)
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


def _decode_utf16(data: bytes) -> str:
    try:
        text = data.decode("utf-16")
    except UnicodeDecodeError as error:
        raise Unreadable(not_utf16(error)) from error
    if "\0" in text:
        raise Unreadable(f"is not text: a NUL character stands at position {text.index(chr(0))}")
    return text


def not_utf16(error: UnicodeDecodeError) -> str:
    """Why what begins as UTF-16 cannot be decoded."""
    return f"is not UTF-16, as its byte order mark says: {error.reason}; save it as UTF-8"


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


def validated(
    model: type[Model], value: Any, optional: Collection[str] = ()
) -> tuple[Model, list[Fault]]:
    """The value as the model understands it, and what is wrong with the fields that it lacks.

    Args:
        model: The model.
        value: What was parsed. Optional fields that are wrong are deleted from it.
        optional: The names of fields, at any depth, that a record can do without.

    Raises:
        Unreadable: Another field is missing or of another type; the reason names the first few.
    """
    if not isinstance(value, dict):
        raise Unreadable("is not a JSON object")
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        faults = [
            (fault["loc"], fault["msg"].removeprefix("Value error, "))
            for fault in error.errors(include_url=False, include_input=False)
        ]
        paths = {_path_to_optional(location, optional) for location, _ in faults}
        if () in paths:
            raise Unreadable(_summary(faults)) from error
    for *parents, field in paths:
        del reduce(getitem, parents, value)[field]
    built, more = validated(model, value, optional)
    return built, faults + more


def _path_to_optional(location: Location, optional: Collection[str]) -> Location:
    """The path to the optional field that a fault lies in, or is; empty: it lies in none."""
    ends = (end for end, part in enumerate(location, start=1) if part in optional)
    return location[: next(ends, 0)]


def kept_without(faults: Sequence[Fault]) -> tuple[str, ...]:
    """What to tell people of a record whose optional fields are wrong; nothing, if none is."""
    return (f"{_summary(faults)}; kept without it",) if faults else ()


def _summary(faults: Sequence[Fault]) -> str:
    messages = [
        f"{'.'.join(map(str, place))}: {message}" for place, message in faults[:_FAULTS_SHOWN]
    ]
    more = len(faults) - len(messages)
    return "; ".join([*messages, f"and {more} more"] if more else messages)
