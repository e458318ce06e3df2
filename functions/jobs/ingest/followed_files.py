"""An origin of files: compares the files of a folder or bucket with those that were read before.

For each file, its version, which follows from its content, and the ids of its sources are stored.
The version reveals a renamed or moved file, which keeps its sources. The ids show which sources a
deleted file leaves behind. Several files may contain the same record, which is then missing only if
none of them has it any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import replace
from itertools import count
from pathlib import PurePath
from typing import TYPE_CHECKING

from functions.jobs.ingest.missing_sources import Missing
from functions.jobs.ingest.readers.formats import Identity
from functions.jobs.ingest.readers.reading import InputProblem, find_identity, read_entries
from functions.jobs.ingest.readers.readwise.export import is_book
from functions.jobs.ingest.readers.source_file import derive_file_source_id
from shared.knowledge.followed import UNREAD, FileState, Followed
from shared.knowledge.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from functions.jobs.ingest.readers.source_file import SourceFile
    from shared.core.errors import CarrelError
    from shared.firestore.database import Database
    from shared.runtime.job import Failure


class FollowedFiles(ABC):
    """The files of an origin, their stored states, and how they have changed.

    Attributes:
        new: The files that were not read before, by name.
        edited: The files whose content has changed.
        renamed: The renamed and moved files, each with its former name.
        missing: The files that are gone.
        dropped: The source ids that each file lost: ids of removed records, and ids of the file
            that it replaced.
        states: The states of all files, including missing ones.
    """

    name: str
    note: str = ""
    error: CarrelError | None = None
    command: str

    def __init__(self, database: Database, address: str, *, follows_readwise: bool) -> None:
        """Store the arguments.

        Args:
            follows_readwise: Whether books are left to a Readwise library, which is followed, too.
        """
        self._followed = Followed(database, address, FileState)
        self._without_books = follows_readwise
        self._listed: Mapping[str, int] = {}
        self._before: dict[str, FileState] = {}
        self._others: dict[str, FileState] = {}
        self._replaced: dict[str, tuple[str, ...]] = {}
        self._former_ids: set[str] = set()
        self._used_ids: set[str] = set()
        self._elsewhere: AbstractSet[str] = frozenset()
        self._read_names: set[str] = set()
        self._unsaved: set[str] = set()
        self._file_count = 0
        self.kept_ids: AbstractSet[str] = frozenset()
        self.new: Sequence[str] = ()
        self.edited: Sequence[str] = ()
        self.missing: Sequence[str] = ()
        self.renamed: Mapping[str, str] = {}
        self.dropped: dict[str, tuple[str, ...]] = {}
        self.states: dict[str, FileState] = {}

    @abstractmethod
    def locate(self, name: str) -> tuple[str, str]:
        """Return the collection of a file, and its path there, from which ids are derived."""

    @abstractmethod
    def label(self, name: str) -> str:
        """Return the name of a file or source in messages."""

    def is_followed(self, name: str) -> bool:  # noqa: ARG002 - of a bucket, all
        """Return whether the run would list a file if it existed."""
        return True

    def is_gone(self, name: str) -> bool:  # noqa: ARG002 - a bucket's list is complete
        """Return whether a file that is not listed does not exist any more."""
        return True

    def is_missing(self, name: str) -> bool:
        """Return whether a file that is not listed may be forgotten."""
        return self.is_gone(name)

    async def load(self) -> dict[str, FileState]:
        """Load the stored states. All files are unread if the layout of chunks has changed."""
        await self._followed.load()
        if self._followed.is_current:
            return dict(self._followed.items)
        return {
            name: replace(state, version=UNREAD) for name, state in self._followed.items.items()
        }

    def compare(self, listed: Mapping[str, int], stored: Mapping[str, FileState]) -> None:
        """Compare the listed files with their stored states.

        Args:
            listed: The versions of the files by name. A file that cannot be read is UNREAD, and
                neither changed nor missing.
        """
        self._listed = listed
        self.renamed = find_renamed(listed, stored, self.is_gone)
        former_names = set(self.renamed.values())
        before = {name: state for name, state in stored.items() if name not in former_names}
        self._replaced = {
            name: before[name].ids
            for name in self.renamed.keys() & before.keys()
            if not before[name].missing
        }
        before |= {name: stored[former_name] for name, former_name in self.renamed.items()}
        self._before, self.dropped = before, dict(self._replaced)
        # Until a renamed file is read, its source has the title of the former name.
        unread = {name: replace(before[name], version=UNREAD) for name in self.renamed}
        self.states = before | unread
        readable = {name: version for name, version in listed.items() if version}
        followed = {name for name, state in before.items() if not state.missing}
        below = set(filter(self.is_followed, followed))
        self.new = sorted(readable.keys() - followed)
        self.edited = sorted(
            name for name in readable.keys() & followed if before[name].version != readable[name]
        )
        self.missing = sorted(name for name in below - listed.keys() if self.is_missing(name))
        self._file_count = len(below) + len(self._replaced)
        self._former_ids = _collect_ids(before[name] for name in below)
        self._former_ids.update(*self._replaced.values())
        self._used_ids = _collect_ids(stored.values())

    def list_changed(self) -> list[str]:
        """List the files whose sources or ids may have changed."""
        return sorted(filter(self._differs, self._listed))

    def _differs(self, name: str) -> bool:
        version, state = self._listed[name], self._before.get(name, FileState())
        has_replaced = len(state.ids) > 1 and not has_records(name)
        is_changed = state.version != version or name in self.renamed
        return version != UNREAD and (is_changed or state.missing or has_replaced)

    def register(self, files: Mapping[str, SourceFile]) -> list[InputProblem]:
        """Update the states of changed files, and return warnings.

        This reads files with records, to learn their ids: call it in a thread.
        """
        for name, file in files.items():
            state = self._before.get(name, FileState())
            if has_records(name):
                ids = self._read_record_ids(file, state.ids)
            elif state.ids:
                ids = state.ids[:1]  # The other ids belong to files that this file replaced.
            else:
                ids = (self._choose_id(name),)
            self.states[name] = FileState(self._listed[name], ids)
            former = (*self._replaced.get(name, ()), *state.ids)
            self.dropped[name] = tuple(source_id for source_id in former if source_id not in ids)
        self._read_names.update(files)
        return [problem for name in files for problem in self._find_shared_records(name, files)]

    def skip(self, name: str) -> None:
        """Remember that a file is not read, because another program made it. Its sources stay."""
        ids = self._before.get(name, FileState()).ids
        self.states[name] = FileState(self._listed[name], ids)

    def find_missing(self) -> Missing:
        """Return what is missing."""
        ids = self.missing_ids
        files = [name for name in self.missing if not ids.isdisjoint(self.states[name].ids)]
        return Missing(ids, files, self._file_count, len(self._former_ids), self.command)

    @property
    def missing_ids(self) -> frozenset[str]:
        """The ids of the sources to forget, which no file contains any more."""
        absent = self._find_absent_ids()
        return frozenset(name for name in absent if not (self._without_books and is_book(name)))

    async def remember(self, names: Sequence[str], rejected: Mapping[str, str]) -> None:  # noqa: ARG002 - kept as it was
        """Let the next `store` record that files were read. A rejected source stays as it was."""
        self._unsaved.difference_update(names)

    async def complete(
        self,
        forgotten: AbstractSet[str],
        read_at: datetime | None,  # noqa: ARG002 - a folder stores it
        failures: Sequence[Failure],  # noqa: ARG002 - likewise
    ) -> None:
        """Store what is remembered. Later runs find missing sources again that are not forgotten.

        The text of a source that a file lost may come from that file. So another file that still
        contains it is read again by the next run, unless this run has read it.
        """
        remaining = self._find_absent_ids() - forgotten
        settled = [name for name in self.missing if remaining.isdisjoint(self.states[name].ids)]
        lost = _collect_ids(self.states[name] for name in settled).union(*self.dropped.values())
        for name in self._listed.keys() & self.states.keys() - self._read_names:
            if has_records(name) and not lost.isdisjoint(self.states[name].ids):
                self.states[name] = replace(self.states[name], version=UNREAD)
        for name in settled:
            self.states[name] = replace(self.states[name], missing=True)
        await self.store(remaining)

    async def store(self, remaining: AbstractSet[str] | None = None) -> None:
        """Store the states.

        Args:
            remaining: The missing sources that are not forgotten; by default, all of them.
        """
        remaining = self._find_absent_ids() if remaining is None else remaining
        states = self._others | self.states
        for name, dropped in self.dropped.items():
            if ids := tuple(source_id for source_id in dropped if source_id in remaining):
                # A file of records is compared again in the next run. The version of any other file
                # must stay, because it reveals renaming.
                version = UNREAD if has_records(name) else states[name].version
                states[name] = FileState(version, (*states[name].ids, *ids))
        for name in self._unsaved:
            states[name] = replace(states[name], version=UNREAD)
        await self._followed.store(states, self.get_own_fields())

    def get_own_fields(self) -> dict[str, str]:
        """Return the fields to store beside the states."""
        return {}

    def _find_absent_ids(self) -> set[str]:
        """Return the ids of sources that no file contains any more."""
        missing = set(self.missing)
        present = _collect_ids(
            state
            for name, state in self.states.items()
            if not state.missing and name not in missing
        )
        return self._former_ids - present - self._elsewhere

    def _choose_id(self, name: str) -> str:
        """Return an unused id for the source of a new file."""
        collection, path = self.locate(name)
        ids = (derive_file_source_id(collection, path, number) for number in count(1))
        return next(source_id for source_id in ids if source_id not in self._used_ids)

    def _read_record_ids(self, file: SourceFile, former: tuple[str, ...]) -> tuple[str, ...]:
        """Return the ids of the records, and the former ids if some records cannot be read.

        A log of additions keeps the former ids, too.
        """
        ids: list[str] = []
        deleted: set[str] = set()
        is_whole = True
        for _, entry in read_entries(file):  # one at a time, to save memory
            if not isinstance(entry, Source):
                is_whole = False
            elif entry.is_deleted:
                deleted.add(entry.source_id)
            elif not _is_exported(entry):
                ids.append(entry.source_id)
        if find_identity(PurePath(file.name)) is Identity.ORIGIN:
            former = tuple(source_id for source_id in former if source_id not in deleted)
            self.kept_ids |= set(former).difference(ids)
        elif is_whole:
            return tuple(dict.fromkeys(ids))
        return tuple(dict.fromkeys([*former, *ids]))

    def _find_shared_records(self, name: str, files: Collection[str]) -> Iterator[InputProblem]:
        """Yield a warning for each file that was read earlier and has records of this file."""
        if find_identity(PurePath(name)) is not Identity.RECORD:
            return
        ids = set(self.states[name].ids)
        for other, state in self.states.items():
            shared = ids.intersection(state.ids)
            is_current = bool(state.version) and state.version == self._listed.get(other)
            if shared and is_current and other not in files and has_records(other):
                yield InputProblem(name, _describe_shared_records(other, len(shared)), kept=True)


def find_renamed(
    listed: Mapping[str, int],
    stored: Mapping[str, FileState],
    is_gone: Callable[[str], bool],
) -> dict[str, str]:
    """Map the present name of each renamed file to its former name.

    Files may have swapped their names, or replaced each other. A name whose present content was
    never stored was edited in place. Another file with the name's former content is then a copy,
    unless that file's own former content has moved, too. Files with records are left out, because
    the ids of their sources do not contain their names.
    """
    stored = {name: state for name, state in stored.items() if not has_records(name)}
    changed = {
        name
        for name, state in stored.items()
        if state.version and listed.get(name, UNREAD) not in {UNREAD, state.version}
    }
    # The names whose stored content is no longer there, by the version of this content.
    former_names: dict[int, list[str]] = defaultdict(list)
    for name, state in stored.items():
        if state.version and (name not in listed or name in changed):
            former_names[state.version].append(name)
    returned = {name for name in changed if stored[name].missing}
    edited = {name for name in changed - returned if listed[name] not in former_names}
    for names in former_names.values():
        # The likeliest come first: False sorts before True.
        names.sort(key=lambda name: (name in edited, stored[name].missing, name))
    contents = set(listed.values())
    moved = {name for name in changed - returned if stored[name].version in contents}
    new = {
        name for name, version in listed.items()
        if version and name not in stored and not has_records(name)
    }  # fmt: skip
    renamed: dict[str, str] = {}
    # Known files choose before new ones, which are more often copies.
    for name in (*sorted(changed - returned), *sorted(new | returned)):
        names = former_names.get(listed[name], [])
        for former_name in names:
            is_copy = former_name in edited and name not in moved
            if not is_copy and (former_name in listed or is_gone(former_name)):
                renamed[name] = former_name
                names.remove(former_name)
                break
    return renamed


def has_records(name: str) -> bool:
    """Return whether a file may contain several sources, whose ids do not contain its name."""
    return find_identity(PurePath(name)) is not Identity.FILE


def _collect_ids(states: Iterable[FileState]) -> set[str]:
    return {source_id for state in states for source_id in state.ids}


def _is_exported(source: Source) -> bool:
    """Return whether a source comes from an export of Carrel, which is a copy."""
    return any(section.start is not None for section in source.sections)


def _describe_shared_records(other: str, count: int) -> str:
    records = "a record" if count == 1 else f"{count:,} records"
    return f"has {records} of {other} too; its text was read later and is used; keep one of them"
