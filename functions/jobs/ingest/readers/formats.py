"""Declares a file format: how its files are recognized, read and documented."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import PurePath

    from functions.jobs.ingest.readers.source_file import Record, SourceFile


BEGINNING_BYTES: Final = 64_000
"""The number of leading bytes that are examined to recognize a format. It is enough for pages that
begin with long style sheets."""


class Identity(Enum):
    """What the ids of a file's sources are derived from."""

    FILE = "file"
    """The path at which the file was first found. The file is one source, which keeps its id when
    the file is renamed."""
    RECORD = "record"
    """The name of the followed folder, and an id in each record. A followed folder is compared with
    what was read of it before."""
    ORIGIN = "origin"
    """An id from the application that exported the file. A source therefore has the same id in
    whichever folder its export is."""


@dataclass(frozen=True, slots=True)
class Format:
    """A file format.

    Attributes:
        name: The name that users see, such as `Kindle clippings`.
        extensions: The extensions of its files, in lower case, such as `.txt`; "" for none.
        fields: What each field that is read becomes, by its name in the format; for users.
        example: A short sample file for the documentation, or a sentence that describes one.
        identity: What the ids of its sources are derived from.
        recognizes: Returns whether a file that begins like this has the format. If None, the format
            is the fallback for files with a matching name that no other format recognizes. A format
            and its fallback must have the same identity.
        adds_only: Whether a file is a log of additions: what it lacks is not deleted, because
            another device or an earlier export may have it.
        name_pattern: A pattern that must be found in the name of the file, which is searched in
            lower case and without its extension.
    """

    name: str
    extensions: tuple[str, ...]
    read: Callable[[SourceFile], Iterator[Record]]
    max_bytes: int
    fields: Mapping[str, str]
    example: str
    identity: Identity = Identity.FILE
    recognizes: Callable[[str], bool] | None = None
    adds_only: bool = False
    name_pattern: re.Pattern[str] | None = None

    def matches_name(self, path: PurePath) -> bool:
        """Return whether a file with this name may have the format."""
        if path.suffix.lower() not in self.extensions:
            return False
        return self.name_pattern is None or bool(self.name_pattern.search(path.stem.casefold()))
