"""What a reader declares of its format, so that files can be listed, checked and documented."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import PurePath

    from functions.jobs.ingest.readers.decoding import Record, SourceFile


BEGINNING_BYTES: Final = 64_000
"""How much of a file a format may read to recognize it: in HTML pages, style sheets come first."""


class Identity(Enum):
    """What the ids of a file's sources are made of."""

    FILE = "file"
    """The path. The file is one source, which keeps its id when the file is renamed."""
    RECORD = "record"
    """The name of the followed folder, and an id in each record."""
    ORIGIN = "origin"
    """An id from the application that exported the file. It is the same in every folder."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files.

    Attributes:
        name: Its name for people, such as `Kindle clippings`.
        endings: The endings of its files, in lower case, such as `.txt`.
        read: Yields the records of a file.
        max_bytes: Larger files are refused.
        fields: What is read, for people: the name of each field in the format, and what becomes of
            it.
        example: A short file, for the documentation.
        identity: What the ids of its sources are made of.
        recognizes: Returns whether a file that begins with these bytes has the format. If it is
            None, all files with a matching name have it, except those that another format
            recognizes; that one must have the same identity.
        is_partial: Returns whether a file says that it has only a part of the records of an export,
            so that others are not missing.
        file_names: A file has this format if its name without the ending contains one of these
            words, in lower case; if empty, whatever its name is.
    """

    name: str
    endings: tuple[str, ...]
    read: Callable[[SourceFile], Iterator[Record]]
    max_bytes: int
    fields: Mapping[str, str]
    example: str
    identity: Identity = Identity.FILE
    recognizes: Callable[[bytes], bool] | None = None
    is_partial: Callable[[SourceFile], bool] = lambda _file: False
    file_names: tuple[str, ...] = ()

    def matches(self, file: PurePath) -> bool:
        """Return whether a file of this name has the format."""
        if file.suffix.lower() not in self.endings:
            return False
        stem = file.stem.casefold()
        return not self.file_names or any(word in stem for word in self.file_names)
