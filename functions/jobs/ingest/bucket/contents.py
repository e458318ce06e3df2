"""Objects that were downloaded: which sources they hold, and these, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from functions.jobs.ingest.readers.fields import to_one_line
from functions.jobs.ingest.readers.reading import file_entries, taken_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from functions.jobs.ingest.readers.decoding import SourceFile
    from shared.knowledge.source import Source


@dataclass(slots=True)
class ObjectContents:
    """What stands in an object.

    Attributes:
        name: The object.
        generation: The one that was downloaded.
        place: The file.
        ids: The sources that go in, each with the name of its record.
        broken: The records that cannot be read, by name, and why.
        refused: Those that have the id of an earlier one in the file, likewise.
        warnings: Those that can be read but for a part, likewise.
    """

    name: str
    generation: int
    place: SourceFile
    ids: dict[str, str] = field(default_factory=dict)
    broken: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)

    def read(self, is_left: Callable[[str], bool]) -> None:
        """Read the file for what it holds. It takes time: not on the event loop.

        Args:
            is_left: Whether a source is left to somebody else.
        """
        for name, entry in file_entries(self.place):
            record = to_one_line(name)
            if isinstance(entry, str):
                self.broken.append((record, entry))
            elif is_left(entry.source_id) or not entry.sections:
                continue
            elif entry.source_id in self.ids:
                self.refused.append((record, taken_by(self.ids[entry.source_id])))
            else:
                self.ids[entry.source_id] = record
                self.warnings += [(record, warning) for warning in entry.warnings]

    def sources(self) -> Iterator[Source]:
        """The sources that go in, read once more: a file may hold more of them than memory."""
        left = set(self.ids)
        for _, found in file_entries(self.place):
            if not isinstance(found, str) and found.source_id in left:
                left.remove(found.source_id)
                yield found


def sources(files: Sequence[ObjectContents]) -> Iterator[Source]:
    """The sources of some objects; one that several hold is that of the last."""
    last = {source_id: file.name for file in files for source_id in file.ids}
    for file in files:
        for source in file.sources():
            if last[source.source_id] == file.name:
                yield source
