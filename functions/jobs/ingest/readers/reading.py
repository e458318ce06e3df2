"""What a person has on disk, as sources."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePath, PurePosixPath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers import json_lines, readwise_export, text_files
from functions.jobs.ingest.readers.decoding import SourceFile, Unreadable, excess
from functions.jobs.ingest.readers.fields import to_one_line
from functions.jobs.ingest.readers.folder import files_below
from functions.jobs.ingest.roots import register, root_of
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from functions.jobs.ingest.readers.decoding import Record
    from functions.jobs.ingest.roots import Registration
    from shared.knowledge.roots import Root
    from shared.knowledge.source import Source

_READERS: Final[dict[str, Callable[[SourceFile], Iterator[Record]]]] = {
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
_LEADS_OUT: Final = "is a link to something outside the folder: ingest that by itself"
_ENDING: Final = re.compile(r"\.\w{1,10}")
"""Of a file's kind; a dot in a title is followed by more."""
_KINDS_SHOWN: Final = 10
_ACCEPTED: Final = (
    "Give a folder or a file: Markdown or text (.md, .markdown, .txt), "
    "JSON Lines with id, title and text (.jsonl), or a Readwise export (.json)."
)


@dataclass(frozen=True, slots=True)
class InputProblem:
    """A file, or a record in one, that was left out, or a part of it.

    Attributes:
        name: The file below the folder that was read, and the line or the book in it.
        reason: What is wrong with it, for the person who has the file.
        kept: Whether it goes in, but for the part that is wrong.
    """

    name: str
    reason: str
    kept: bool = False


@dataclass(frozen=True, slots=True)
class FileListing:
    """What a path holds.

    Attributes:
        folder: The folder that was named, or in which the file stands.
        files: The files of the kinds that are read, by their paths below the folder; what is opened
            is free of links.
        registration: What the folder is registered as in the base.
        refused: What is left out without being read.
        others: How many files of other kinds there are, by their endings; "" is no ending.
    """

    folder: Path
    files: Mapping[str, Path]
    registration: Registration
    refused: Sequence[InputProblem] = ()
    others: Counter[str] = field(default_factory=Counter)

    @property
    def is_named_after_folder(self) -> bool:
        """Whether the ids of its sources begin with the folder's name: those of exports do not."""
        return any(file.suffix.lower() != ".json" for file in self.files.values())

    @property
    def not_read(self) -> str:
        """How many files of which other kinds there are."""
        return count_kinds(self.others)


def count_kinds(others: Counter[str]) -> str:
    """How many files there are of which endings, the most first: `3 .pdf, 2 .csv`."""
    ordered = sorted(others.items(), key=lambda kind: (-kind[1], not kind[0], kind[0]))
    commonest = ordered[:_KINDS_SHOWN]
    rest = others.total() - sum(count for _, count in commonest)
    parts = [f"{count} {ending or 'without an ending'}" for ending, count in commonest]
    return ", ".join([*parts, f"{rest} of other kinds"] if rest else parts)


def read(path: Path) -> Iterator[Source | InputProblem]:
    """Read a file or a folder for a base that knows no folders yet; see `list_files`."""
    return read_files(list_files(path))


def list_files(path: Path, roots: Sequence[Root] = ()) -> FileListing:
    """What there is to read in a file or a folder.

    In a folder, hidden files are passed over without a word, files of other kinds are counted, and
    links that lead out of it are refused.

    Args:
        path: A folder, or a file of a kind that a folder's would be read of.
        roots: The folders that the base knows.

    Raises:
        InvalidInput: The path is missing, cannot be opened or holds no such file.
    """
    try:
        return _list_folder(path, roots) if path.is_dir() else _list_one(path, roots)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be opened: {error.strerror}. {_ACCEPTED}") from error


def _list_one(file: Path, roots: Sequence[Root]) -> FileListing:
    if not file.is_file():
        raise InvalidInput(f"{file} is neither a file nor a folder. {_ACCEPTED}")
    if file.suffix.lower() not in _READERS:
        raise InvalidInput(f"{file} is of no kind that can be read. {_ACCEPTED}")
    file.open("rb").close()
    folder = file.resolve().parent
    return FileListing(folder, {file.name: file}, register(folder, roots, [file.name]))


def _list_folder(path: Path, roots: Sequence[Root]) -> FileListing:
    folder = path.resolve()
    registration = register(folder, roots)
    below = files_below(folder, registration.root.path)
    files = {
        file.relative_to(folder).as_posix(): real_file
        for file, real_file in below.files.items()
        if file.suffix.lower() in _READERS
    }
    others = Counter(ending_of(file) for file in below.files if file.suffix.lower() not in _READERS)
    refused = [InputProblem(_below(folder, error.filename), _why(error)) for error in below.errors]
    for link in below.outside:
        if link.is_dir() or link.suffix.lower() in _READERS:
            refused.append(InputProblem(_below(folder, link), _LEADS_OUT))
        else:
            others[ending_of(link)] += 1
    if not files and below.errors:
        raise below.errors[0]
    listing = FileListing(folder, files, registration, refused, others)
    if not files and not refused:
        contents = listing.not_read or "it is empty"
        raise InvalidInput(f"{path} holds nothing to read ({contents}). {_ACCEPTED}")
    return listing


def ending_of(file: PurePath) -> str:
    """The ending that tells a file's kind, in small letters; "" where it has none."""
    ending = file.suffix.lower()
    return ending if _ENDING.fullmatch(ending) else ""


def read_files(
    listing: FileListing, *, without_books: bool = False
) -> Iterator[Source | InputProblem]:
    """Read files, one at a time, in the order of their paths.

    Nothing in a file stops the reading: what is broken is reported in its place and the rest goes
    in. Of records that share an id the first goes in and the others are reported.

    Args:
        listing: The files.
        without_books: Leave out Readwise books, without a word.
    """
    yield from listing.refused
    taken = _earlier_records(listing)
    for name in listing.files:
        for record_name, entry in file_entries(_place(name, listing)):
            record = to_one_line(record_name)
            if isinstance(entry, str):
                yield InputProblem(record, entry)
            elif without_books and readwise_export.is_book(entry.source_id):
                continue
            elif entry.source_id in taken:
                yield InputProblem(record, taken_by(taken[entry.source_id]))
            else:
                taken[entry.source_id] = record
                for warning in entry.warnings:
                    yield InputProblem(record, warning, kept=True)
                yield entry


def _earlier_records(listing: FileListing) -> dict[str, str]:
    """The ids of records in the JSON Lines that come before these in their root, with their names.

    An id does not contain the file's path. Without this, a record in an inner folder that is read
    by itself would replace the one of its id in the folder around it.
    """
    root = listing.registration.root
    if not root.whole or not any(map(_is_json_lines, listing.files)):
        return {}
    first = listing.folder / next(iter(listing.files))
    files = {
        file.relative_to(root.path).as_posix(): real_file
        for file, real_file in files_below(root.path, root.path).files.items()
        if file < first and _is_json_lines(file.name)
    }
    earlier = FileListing(root.path, files, listing.registration)
    records: dict[str, str] = {}
    for file in files:
        for name, entry in file_entries(_place(file, earlier)):
            if not isinstance(entry, str):
                records.setdefault(entry.source_id, to_one_line(f"{root.path.name}/{name}"))
    return records


def _is_json_lines(name: str) -> bool:
    return name.lower().endswith(".jsonl")


def _place(name: str, listing: FileListing) -> SourceFile:
    file = listing.folder / name
    root = root_of(file, listing.registration.roots) or listing.registration.root
    path = listing.files[name]
    key = file.relative_to(root.path).as_posix()
    return SourceFile(path, name, root.collection, key, _modified_at(path))


def _modified_at(file: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(file.stat().st_mtime, UTC)
    except (OSError, OverflowError, ValueError):
        return None


def taken_by(first: str) -> str:
    """Why a record is left out whose id another one has."""
    return f"has the id of {first}; keep one of the two"


def too_large(name: str, size: int) -> str | None:
    """Why a file of this name is not read for its size in bytes, if it is not."""
    ending = PurePosixPath(name).suffix.lower()
    return excess(size, _LARGEST.get(ending, text_files.MAX_BYTES))


def file_entries(place: SourceFile) -> Iterator[tuple[str, Source | str]]:
    """Each record's name with its source, or with the reason why there is none."""
    try:
        # Opening a pipe would wait for ever.
        if place.path.exists() and not place.path.is_file():
            yield place.name, "is not a regular file"
            return
        reader = _READERS[PurePosixPath(place.name).suffix.lower()]
        for name, build in reader(place):
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


def _below(folder: Path, path: str | Path) -> str:
    return to_one_line(os.path.relpath(path, folder))
