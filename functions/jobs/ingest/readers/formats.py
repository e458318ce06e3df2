"""The declaration of a file format, by which its files are found, read and documented."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import PurePath

    from functions.jobs.ingest.readers.decoding import Record, SourceFile


BEGINNING_BYTES: Final = 64_000
"""The number of leading bytes that `recognizes` gets. HTML pages may begin with style sheets."""


class Identity(Enum):
    """What the ids of a file's sources are derived from."""

    FILE = "file"
    """The path at which the file was first found. The file is one source, which keeps its id when
    the file is renamed."""
    RECORD = "record"
    """The name of the followed folder, and an id in each record."""
    ORIGIN = "origin"
    """An id from the application that exported the file. It is the same in every folder."""


@dataclass(frozen=True, slots=True)
class Format:
    """A file format.

    Attributes:
        name: The name that users see, such as `Kindle clippings`.
        endings: The endings of its files, in lower case, such as `.txt`.
        read: Yields the records of a file.
        max_bytes: The maximum size of a file.
        fields: The fields that are read, for users: the name in the format, and what it becomes.
        example: A short sample for the documentation, or a line that describes one.
        identity: What the ids of its sources are derived from.
        recognizes: Returns whether a file that begins with these bytes has the format. None makes
            the format the fallback for files with a matching name that no other format recognizes.
            A format and its fallback must have the same identity.
        is_partial: Returns whether a file declares that it contains only a part of an export.
            Records that are missing from such a file do not count as deleted.
        name_words: A file has this format only if its name contains one of these words, in lower
            case. Empty means any name.
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
    name_words: tuple[str, ...] = ()

    def matches_name(self, file: PurePath) -> bool:
        """Return whether a file of this name may have the format."""
        if file.suffix.lower() not in self.endings:
            return False
        stem = file.stem.casefold()
        return not self.name_words or any(word in stem for word in self.name_words)
