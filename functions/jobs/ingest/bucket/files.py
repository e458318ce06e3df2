"""Objects that were downloaded: which sources they hold, and these, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from functions.jobs.ingest.readers.fields import one_line
from functions.jobs.ingest.readers.reading import file_entries, taken_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from functions.jobs.ingest.readers.decoding import Place
    from shared.knowledge.source import Source


@dataclass(slots=True)
class Contents:
    """What stands in an object.

    Attributes:
        name: The object.
        generation: The one that was downloaded.
        place: The file.
        ids: The sources that go in, each with the name of its record.
        broken: The records that cannot be read, by name, and why.
        refused: Those that have the ids of others, likewise.
        warnings: Those that can be read but for a part, likewise.
    """

    name: str
    generation: int
    place: Place
    ids: dict[str, str] = field(default_factory=dict)
    broken: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)

    def read(
        self, owner_of: Callable[[str, str], str | None], is_left: Callable[[str], bool]
    ) -> None:
        """Read the file for what it holds. It takes time: not on the event loop.

        Args:
            owner_of: Which object but the one of this name holds a source, if one does.
            is_left: Whether a source is left to somebody else.
        """
        for name, entry in file_entries(self.place):
            record = one_line(name)
            if isinstance(entry, str):
                self.broken.append((record, entry))
            elif is_left(entry.source_id) or not entry.sections:
                continue
            elif first := self._first(entry.source_id, owner_of):
                self.refused.append((record, taken_by(first)))
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

    def _first(self, source_id: str, owner_of: Callable[[str, str], str | None]) -> str | None:
        return self.ids.get(source_id) or owner_of(source_id, self.name)


def sources(files: Iterable[Contents]) -> Iterator[Source]:
    """The sources of some objects."""
    for each in files:
        yield from each.sources()
