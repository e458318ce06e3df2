"""What a person has on disk, as sources."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers import json_lines, readwise_export, text_files
from functions.jobs.ingest.readers.decoding import Place, Unreadable, excess
from functions.jobs.ingest.readers.fields import one_line
from functions.jobs.ingest.readers.folder import files_below
from shared.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from functions.jobs.ingest.readers.decoding import Record
    from shared.domain.source import Source

_READERS: Final[dict[str, Callable[[Place], Iterator[Record]]]] = {
    ".md": text_files.records,
    ".markdown": text_files.records,
    ".txt": text_files.records,
    ".jsonl": json_lines.records,
    ".json": readwise_export.records,
}
ENDINGS: Final = frozenset(_READERS)
"""The endings of names that are read."""
_LARGEST: Final = {
    ".jsonl": json_lines.MAX_BYTES,
    ".json": readwise_export.MAX_BYTES,
}
OF_MANY: Final = frozenset({".jsonl", ".json"})
"""The endings of files that hold several sources, whose ids do not come from the file's name."""
_ACCEPTED: Final = (
    "Give a folder or a file: Markdown or text (.md, .markdown, .txt), "
    "JSON Lines with id, title and text (.jsonl), or a Readwise export (.json)."
)


@dataclass(frozen=True, slots=True)
class BrokenInput:
    """A file, or a record in one, that was left out.

    Attributes:
        name: The file below the folder that was read, and the line or the book in it.
        reason: What is wrong with it, for the person who has the file.
    """

    name: str
    reason: str


def read(path: Path) -> Iterator[Source | BrokenInput]:
    """Read a file or a folder, one file at a time, in the order of their paths.

    Nothing in a file stops the reading: what is broken is reported in its place and the rest goes
    in. In a folder, hidden files and files of other kinds are passed over without a word. Of
    records that share an id the first goes in and the others are reported.

    Args:
        path: A folder, or a file of a kind that a folder's would be read of.

    Raises:
        InvalidInput: The path is missing, cannot be opened or holds no such file.
    """
    try:
        if path.is_dir():
            return _read_folder(path)
        return _read_one(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be opened: {error.strerror}. {_ACCEPTED}") from error


def _read_one(file: Path) -> Iterator[Source | BrokenInput]:
    if not file.is_file():
        raise InvalidInput(f"{file} is neither a file nor a folder. {_ACCEPTED}")
    if file.suffix.lower() not in _READERS:
        raise InvalidInput(f"{file} is of no kind that can be read. {_ACCEPTED}")
    file.open("rb").close()
    return _entries([Place(file, file.name, file.resolve().parent.name)], [])


def _read_folder(root: Path) -> Iterator[Source | BrokenInput]:
    found, errors = files_below(root)
    files = [file for file in found if file.suffix.lower() in _READERS]
    if not files and errors:
        raise errors[0]
    if not files:
        raise InvalidInput(f"{root} holds nothing to read ({len(found)} other files). {_ACCEPTED}")
    collection = root.resolve().name
    places = [Place(file, file.relative_to(root).as_posix(), collection) for file in files]
    closed = [BrokenInput(_below(root, error), _why(error)) for error in errors]
    return _entries(places, closed)


def _entries(
    places: Iterable[Place], closed: Iterable[BrokenInput]
) -> Iterator[Source | BrokenInput]:
    yield from closed
    taken: dict[str, str] = {}
    for place in places:
        for name, found in file_entries(place):
            if isinstance(found, str):
                yield BrokenInput(one_line(name), found)
            elif found.source_id in taken:
                yield BrokenInput(one_line(name), taken_by(taken[found.source_id]))
            else:
                taken[found.source_id] = one_line(name)
                yield found


def taken_by(first: str) -> str:
    """Why a record is left out whose id another one has."""
    return f"has the id of {first}; keep one of the two"


def too_large(name: str, size: int) -> str | None:
    """Why a file of this name is not read for its size in bytes, if it is not."""
    ending = PurePosixPath(name).suffix.lower()
    return excess(size, _LARGEST.get(ending, text_files.MAX_BYTES))


def file_entries(place: Place) -> Iterator[tuple[str, Source | str]]:
    """Each record's name with its source, or with the reason why there is none."""
    try:
        # Opening a pipe would wait for ever.
        if place.path.exists() and not place.path.is_file():
            yield place.name, "is not a regular file"
            return
        for name, build in _READERS[place.path.suffix.lower()](place):
            yield name, _built(build)
    except Unreadable as error:
        yield place.name, str(error)
    except OSError as error:
        yield place.name, _why(error)


def _built(build: Callable[[], Source]) -> Source | str:
    try:
        return build()
    except Unreadable as error:
        return str(error)
    except OSError as error:
        return _why(error)


def _why(error: OSError) -> str:
    return f"cannot be opened: {error.strerror}"


def _below(root: Path, error: OSError) -> str:
    return one_line(os.path.relpath(error.filename, root))
