"""Decodes files to text, JSON and validated values, with error messages for people."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from functions.jobs.ingest.readers.alphabets import ENCODINGS, LATIN, detect_by_alphabet
from shared.core.ids import safe_id
from shared.knowledge.source import Source

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime
    from pathlib import Path

    from functions.jobs.ingest.readers.links import LinkResolver

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read.

    Attributes:
        path: The path by which to open the file.
        name: The file's name in reports: its path below the folder that is read, with `/`.
        collection: The prefix of source ids: the folder's registered name, with its number if it
            has one. The prefix distinguishes files with the same name in two folders, and stays the
            same when the folder moves.
        key: The path of the file below that folder, with `/`.
        modified_at: When the file was last changed; None for a download.
        assigned_source_id: The source id, if it cannot be derived from the path because the file
            was renamed or another file had this path.
        link_resolver: Resolves links in the file; None for a download, whose neighbours are
            unknown.
        url: The address that the file was fetched from.
    """

    path: Path
    name: str
    collection: str
    key: str
    modified_at: datetime | None = None
    assigned_source_id: str | None = None
    link_resolver: LinkResolver | None = None
    url: str | None = None

    @property
    def source_id(self) -> str:
        """The id of the source, if the whole file is one source."""
        return self.assigned_source_id or derive_file_source_id(self.collection, self.key)


def derive_file_source_id(collection: str, key: str, number: int = 1) -> str:
    """Return the id of a file's source.

    Args:
        collection: The prefix of ids in the file's folder.
        key: The file's path below that folder.
        number: 1 for the first file with this path, 2 for the next. From 2, the number is appended
            to the path after a NUL character, which no path contains.
    """
    path = f"{collection}/{key}" if number == 1 else f"{collection}/{key}\0{number}"
    return safe_id(f"file-{path}")


Location = tuple[int | str, ...]
Fault = tuple[Location, str]
"""The path to a value in a record, and what is wrong with the value."""

Record = tuple[str, Callable[[], Source]]
"""A record that is not read yet: its name for people, and a function that reads it.

The function raises `Unreadable` or `OSError` if it cannot read the record. A reader that raises
them while it yields records gives up the rest of the file.
"""

MEGABYTE = 1_000_000
UTF16_MARKS = (BOM_UTF16_LE, BOM_UTF16_BE)
"""The byte order marks at the beginning of a file in UTF-16."""
_CONTROLS = re.compile(rb"[\x01-\x08\x0e-\x19\x7f]")
_SAMPLE_BYTES = 65_536
"""The encoding is detected from this many leading bytes of the lines that are not ASCII."""
_MAX_CHAOS = 0.05
"""How much more chaos than the best encoding a likely encoding may produce, as charset-normalizer
measures chaos."""
_MAX_INCOHERENCE = 0.12
"""How much less coherent than with the best encoding the text may be with a likely encoding, as
charset-normalizer measures coherence."""
_MAX_FAULTS = 3


class Unreadable(Exception):
    """A file or a record cannot be ingested; the message says why."""


def read_text(path: Path, limit: int) -> str:
    """Read a file in UTF-8, or in UTF-16 with a byte order mark.

    Raises:
        Unreadable: The file is larger than the limit, binary, or in another encoding.
        OSError: The file cannot be opened.
    """
    if reason := check_size(path.stat().st_size, limit):
        raise Unreadable(reason)
    data = path.read_bytes()
    try:
        return _decode_unicode(data)
    except UnicodeDecodeError as error:
        raise _make_not_utf8_error(data, error) from error


def read_any_text(path: Path, limit: int) -> tuple[str, tuple[str, ...]]:
    """Read a file in UTF-8, UTF-16 with a byte order mark, or a legacy encoding.

    Returns:
        The text, and a warning if its encoding was guessed or some bytes are not valid.

    Raises:
        Unreadable: The file is larger than the limit or binary, or its encoding is not recognized.
        OSError: The file cannot be opened.
    """
    if reason := check_size(path.stat().st_size, limit):
        raise Unreadable(reason)
    data = path.read_bytes()
    try:
        return _decode_unicode(data), ()
    except UnicodeDecodeError:
        return _decode_damaged(data) or decode_legacy(data)


def check_size(size: int, limit: int) -> str | None:
    """Return why a text of this size in bytes is not read, or None if it is small enough."""
    return f"is larger than {limit // MEGABYTE} MB: split it" if size > limit else None


def decode(data: bytes) -> str:
    """Decode UTF-8, with or without a byte order mark.

    Raises:
        Unreadable: The data is not UTF-8; the message names the first invalid byte.
    """
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise _make_not_utf8_error(data, error) from error


def _make_not_utf8_error(data: bytes, error: UnicodeDecodeError) -> Unreadable:
    byte = f"byte 0x{data[error.start]:02x} at position {error.start}"
    return Unreadable(f"is not UTF-8: {byte}; save it as UTF-8")


def _decode_unicode(data: bytes) -> str:
    """Decode UTF-16 with a byte order mark, or UTF-8.

    Raises:
        Unreadable: The data is binary, or begins with a UTF-16 byte order mark but is not UTF-16.
        UnicodeDecodeError: The data is not UTF-8.
    """
    if data.startswith(UTF16_MARKS):
        return _decode_utf16(data)
    nul = data.find(b"\0")
    if nul >= 0:
        raise Unreadable(f"is not text: there is a NUL byte at position {nul}")
    return data.decode("utf-8").removeprefix("\ufeff")


def _decode_damaged(data: bytes) -> tuple[str, tuple[str, ...]] | None:
    """Decode UTF-8 with a few invalid bytes, such as a file that was cut off.

    Return None if most bytes that are not ASCII are invalid.
    """
    text = data.decode("utf-8-sig", "replace")
    faults = text.count("\ufffd")
    characters = len(text) - len(text.encode("ascii", "ignore"))
    if characters < 2 * faults and not data.startswith(BOM_UTF8):
        return None
    return text, (_warn_of_damage(text, "UTF-8"),)


def decode_legacy(data: bytes, sample: bytes | None = None) -> tuple[str, tuple[str, ...]]:
    """Decode a text in a legacy encoding.

    Args:
        data: The text.
        sample: The bytes from which to detect the encoding, such as a page without its tags; by
            default, the whole text.

    Returns:
        The text, a warning that names the encoding, and another if some bytes are not valid in it.

    Raises:
        Unreadable: The data is binary, or its encoding is not recognized.
    """
    if _CONTROLS.search(data):
        raise Unreadable("is not text: it has control characters, and is not UTF-8")
    encodings = _detect_encodings(sample or data)
    for errors, encoding in product(("strict", "replace"), encodings):
        try:
            text = data.decode(encoding, errors)
        except UnicodeDecodeError:
            continue
        reason = f"is not UTF-8 and was read as {encoding}; if letters are wrong, save it as UTF-8"
        warnings = (reason,) if errors == "strict" else (reason, _warn_of_damage(text, encoding))
        return text, warnings
    raise Unreadable("is not text in an encoding that is recognized: save it as UTF-8")


def _warn_of_damage(text: str, encoding: str) -> str:
    places = f"{text.count(chr(0xFFFD)):,} places"
    return f"has bytes that are not {encoding} in {places}, which were replaced with \ufffd"


def _detect_encodings(data: bytes) -> list[str]:
    """Return the legacy encodings that a text may have, in descending order of likelihood."""
    lines = [line for line in data.splitlines() if not line.isascii()]
    sample = b"\n".join(lines)
    if len(sample) > _SAMPLE_BYTES:  # cut where no two-byte character can be
        sample = sample[:_SAMPLE_BYTES]
        sample = sample[: 1 + max(map(sample.rfind, (b"\n", b" ", b".")))] or sample
    if encoding := detect_by_alphabet(sample):
        return [encoding]
    from charset_normalizer import from_bytes  # only here, because it is seldom needed

    matches = from_bytes(sample, cp_isolation=list(ENCODINGS))
    best = matches.best()
    if best is None:
        return []
    likely = {
        encoding
        for match in matches
        if match.chaos <= best.chaos + _MAX_CHAOS
        and match.coherence >= best.coherence - _MAX_INCOHERENCE
        for encoding in match.could_be_from_charset
    }
    is_latin = 2 * len(sample.decode("ascii", "ignore")) > len(sample)
    order = sorted(ENCODINGS, key=lambda encoding: (ENCODINGS[encoding] in LATIN) != is_latin)
    return sorted(likely.intersection(order), key=order.index)


def _decode_utf16(data: bytes) -> str:
    try:
        text = data.decode("utf-16")
    except UnicodeDecodeError as error:
        raise Unreadable(explain_utf16_error(error)) from error
    if "\0" in text:
        raise Unreadable(f"is not text: there is a NUL character at position {text.index(chr(0))}")
    return text


def explain_utf16_error(error: UnicodeDecodeError) -> str:
    """Return the message for a file with a UTF-16 byte order mark that cannot be decoded."""
    return f"is not UTF-16, as its byte order mark says: {error.reason}; save it as UTF-8"


def parse_json(text: str) -> Any:
    """Parse a JSON value.

    Raises:
        Unreadable: The text is not JSON, or its nesting exceeds the interpreter's stack.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise Unreadable(f"is not JSON: {error.msg} ({line}column {error.colno})") from error
    except ValueError as error:
        raise Unreadable(f"has a number that is too long: {error}") from error
    except RecursionError as error:
        raise Unreadable("is nested too deeply") from error


def validate(
    model: type[Model], value: Any, optional: Collection[str] = ()
) -> tuple[Model, list[Fault]]:
    """Validate a value, and drop optional fields that are not valid.

    Args:
        model: The model.
        value: The parsed value. Invalid optional fields are deleted from it.
        optional: The names of optional fields, at any depth.

    Returns:
        The validated value, and the faults of the fields that were dropped.

    Raises:
        Unreadable: Another field is missing or not valid; the message names the first few.
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
        paths = {_find_optional_path(location, optional) for location, _ in faults}
        if () in paths:
            raise Unreadable(_summarize_faults(faults)) from error
    for *parents, field in paths:
        del reduce(getitem, parents, value)[field]
    built, more = validate(model, value, optional)
    return built, faults + more


def _find_optional_path(location: Location, optional: Collection[str]) -> Location:
    """Return the path to the optional field that contains a fault, or () if there is none."""
    ends = (end for end, part in enumerate(location, start=1) if part in optional)
    return location[: next(ends, 0)]


def warn_of_faults(faults: Sequence[Fault]) -> tuple[str, ...]:
    """Return a warning about optional fields that were dropped, if there are any."""
    if not faults:
        return ()
    ignored = "field ignored" if len(faults) == 1 else "fields ignored"
    return (f"{_summarize_faults(faults)}; {ignored}",)


def _summarize_faults(faults: Sequence[Fault]) -> str:
    messages = [
        f"{'.'.join(map(str, location))}: {message}" for location, message in faults[:_MAX_FAULTS]
    ]
    more = len(faults) - len(messages)
    return "; ".join([*messages, f"and {more} more"] if more else messages)
