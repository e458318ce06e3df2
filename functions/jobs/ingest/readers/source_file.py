"""A file to read, the records in it, and the error for what cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from shared.core.ids import IdKind, make_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from functions.jobs.ingest.readers.links import LinkResolver
    from shared.knowledge.source import Source
    from shared.links.model import Link

MEGABYTE: Final = 1_000_000
"""The number of bytes in a megabyte, as limits and messages count it."""


class Unreadable(Exception):
    """A file or a record cannot be ingested.

    The message is a predicate that follows the name of the file or record: "is larger than 16 MB".
    """


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read.

    Attributes:
        path: The path by which to open the file.
        name: The file's name in reports: its path, with `/`, below the folder that the user gave.
        collection: The prefix of source ids: the name under which a folder is registered, with the
            folder's number if it has one. The prefix distinguishes files with the same name in two
            folders, and stays the same when the folder moves.
        relative_path: The file's path, with `/`, below the registered folder, from which source
            ids are derived. The user may have given a folder inside the registered one.
        modified_at: When the file was last changed, or the link to it saved; None if unknown.
        assigned_source_id: The source id, if it cannot be derived from the path because the file
            was renamed or another file had this path.
        link_resolver: Resolves links in the file; None for a download, whose neighbours are
            unknown.
        url: The address that the file was fetched from.
    """

    path: Path
    name: str
    collection: str
    relative_path: str
    modified_at: datetime | None = None
    assigned_source_id: str | None = None
    link_resolver: LinkResolver | None = None
    url: str | None = None

    @property
    def folder(self) -> str | None:
        """The followed folder with the subfolder, or None for a download."""
        collection = self.collection.removeprefix("\0").replace("\0", "-")
        path = PurePosixPath(collection, self.relative_path)
        name = path.parent.as_posix().encode("utf-8", "replace").decode()
        return None if self.url else name

    @property
    def source_id(self) -> str:
        """The id of the source, if the whole file is one source."""
        return self.assigned_source_id or derive_file_source_id(self.collection, self.relative_path)


@dataclass(frozen=True, slots=True)
class LinkList:
    """The links in a file such as a browser's bookmarks. They are stored, but not fetched.

    Attributes:
        name: The program that wrote the file.
        warnings: What was left out, in messages for the user.
    """

    name: str
    links: tuple[Link, ...]
    warnings: tuple[str, ...] = ()


class Record(NamedTuple):
    """A part of a file that becomes a source or a list of links, and is not read yet.

    A reader that raises `Unreadable` or `OSError` while it yields records gives up the rest of the
    file.

    Attributes:
        name: The record's name for people, such as the file's name with a line.
        read: Reads the record. It raises `Unreadable` or `OSError` if the record cannot be read.
    """

    name: str
    read: Callable[[], Source | LinkList]


def make_refusal(name: str, reason: str) -> Record:
    """Return a record that fails with this reason when it is read."""

    def refuse() -> Source:
        raise Unreadable(reason)

    return Record(name, refuse)


def derive_file_source_id(collection: str, relative_path: str, number: int = 1) -> str:
    """Return the id of a file's source.

    Args:
        number: 1 for the first file with this path. If that file is renamed and another file takes
            its path, the other file has 2. From 2, the number is appended to the path after a NUL
            character, which no path contains.
    """
    path = f"{collection}/{relative_path}"
    return make_id(IdKind.FILE, path if number == 1 else f"{path}\0{number}")


def describe_excess(size: int, limit: int) -> str | None:
    """Return why a text of this size is not read, or None if it is within the limit (bytes)."""
    return f"is larger than {limit // MEGABYTE} MB: split it" if size > limit else None
