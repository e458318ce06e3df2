"""Reads the sources in downloaded objects, and collects the problems."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from functions.jobs.ingest.readers.fields import to_one_line
from functions.jobs.ingest.readers.reading import describe_duplicate, describe_foreign, read_entries
from functions.jobs.ingest.readers.source_file import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from functions.jobs.ingest.readers.source_file import SourceFile
    from shared.knowledge.source import Source


@dataclass(slots=True)
class ObjectContents:
    """The records of a downloaded object.

    Attributes:
        record_names: The names of the records to save, by source id.
        deleted_ids: The ids of books that the file names as deleted.
        broken: The names of records that cannot be read, each with the reason.
        duplicates: The names of records with the id of an earlier record, each with the reason.
        warnings: The names of records that can be read only in part, each with the reason.
        is_foreign: Whether another program's file is not read. What was read before it stays.
    """

    name: str
    generation: int
    file: SourceFile
    record_names: dict[str, str] = field(default_factory=dict)
    deleted_ids: set[str] = field(default_factory=set)
    broken: list[tuple[str, str]] = field(default_factory=list)
    duplicates: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    is_foreign: bool = False

    def read(self, is_excluded: Callable[[str], bool]) -> None:
        """Read the file, and record what it contains. This blocks: call it in a thread.

        The sources themselves are not kept, because together they may not fit into memory.

        Args:
            is_excluded: Returns whether a source id must not be saved.
        """
        reason = describe_foreign(PurePosixPath(self.name), self.file.path)
        self.is_foreign = reason is not None
        self.warnings += [(self.name, reason)] if reason else []
        for name, entry in read_entries(self.file) if reason is None else ():
            record_name = to_one_line(name)
            if isinstance(entry, Unreadable):
                self.broken.append((record_name, str(entry)))
            elif not is_excluded(entry.source_id):
                self._add(entry, record_name)

    def _add(self, source: Source, record_name: str) -> None:
        first = self.record_names.get(source.source_id)
        if source.is_deleted:
            self.deleted_ids.add(source.source_id)
        elif first and not source.adds_only:
            self.duplicates.append((record_name, describe_duplicate(first)))
        else:
            self.record_names[source.source_id] = record_name
            self.warnings += [(record_name, warning) for warning in source.warnings]

    def reread_sources(self) -> Iterator[Source]:
        """Read the file again, and yield the sources to save: the first text of each id.

        Of a log of additions, all texts of an id are yielded.
        """
        remaining = set(self.record_names)
        for _, entry in read_entries(self.file) if remaining else ():
            if isinstance(entry, Unreadable) or entry.is_deleted:
                continue
            if entry.source_id in remaining:
                remaining -= set() if entry.adds_only else {entry.source_id}
                yield entry


def read_sources(objects: Sequence[ObjectContents]) -> Iterator[Source]:
    """Yield the sources of objects.

    If several objects contain a source, the last one counts, but logs of additions are all used.
    """
    # A later object replaces an earlier one under the same id.
    object_names = {
        source_id: contents.name for contents in objects for source_id in contents.record_names
    }
    for contents in objects:
        for source in contents.reread_sources():
            if source.adds_only or object_names[source.source_id] == contents.name:
                yield source
