"""Reads the sources in downloaded objects, and collects the problems."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from functions.jobs.ingest.readers.fields import to_one_line
from functions.jobs.ingest.readers.reading import describe_duplicate, read_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from functions.jobs.ingest.readers.decoding import SourceFile
    from shared.knowledge.source import Source


@dataclass(slots=True)
class ObjectContents:
    """The contents of an object.

    Attributes:
        name: The name of the object.
        generation: The generation that was downloaded.
        file: The downloaded file.
        ids: The ids of the sources to save, each with the name of its record.
        emptied: The ids of sources that the file marks as deleted, or that have no text.
        broken: The names of records that cannot be read, each with the reason.
        duplicates: The names of records with the id of an earlier record, each with the reason.
        warnings: The names of records that can be read only in part, each with the reason.
    """

    name: str
    generation: int
    file: SourceFile
    ids: dict[str, str] = field(default_factory=dict)
    emptied: set[str] = field(default_factory=set)
    broken: list[tuple[str, str]] = field(default_factory=list)
    duplicates: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)

    def read(self, is_excluded: Callable[[str], bool]) -> None:
        """Read the file, and record its sources and problems. This must not run on the event loop.

        Args:
            is_excluded: Returns whether a source id must not be saved.
        """
        for name, entry in read_entries(self.file):
            record = to_one_line(name)
            if isinstance(entry, str):
                self.broken.append((record, entry))
            elif is_excluded(entry.source_id):
                continue
            elif not entry.sections:
                self.emptied.add(entry.source_id)
            elif entry.source_id in self.ids:
                self.duplicates.append((record, describe_duplicate(self.ids[entry.source_id])))
            else:
                self.ids[entry.source_id] = record
                self.warnings += [(record, warning) for warning in entry.warnings]

    def read_sources(self) -> Iterator[Source]:
        """Yield the sources to save, reading the file again, because they may not fit in memory."""
        remaining = set(self.ids)
        for _, entry in read_entries(self.file):
            if not isinstance(entry, str) and entry.source_id in remaining:
                remaining.remove(entry.source_id)
                yield entry


def read_sources(objects: Sequence[ObjectContents]) -> Iterator[Source]:
    """Yield the sources of objects. If several objects contain a source, the last one counts."""
    last_object = {source_id: contents.name for contents in objects for source_id in contents.ids}
    for contents in objects:
        for source in contents.read_sources():
            if last_object[source.source_id] == contents.name:
                yield source
