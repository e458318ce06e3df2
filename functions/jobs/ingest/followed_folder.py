"""Finds how the files of a path have changed since they were last ingested.

`folders/{key}` stores the source ids and a content hash of each file. The hash reveals a renamed
or moved file, which keeps its sources. The ids show which sources a deleted file leaves behind.

A Readwise export is followed like other files, but a book counts as missing only if no other
followed export contains the book. A Carrel export is a copy: its sources stay when it is deleted.
"""

from __future__ import annotations

import asyncio
import hashlib
import unicodedata
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.missing_sources import MissingCounts
from functions.jobs.ingest.readers.formats import Identity
from functions.jobs.ingest.readers.reading import (
    explain_excess,
    find_identity,
    make_source_file,
    read_entries,
)
from functions.jobs.ingest.readers.readwise.export import is_book
from functions.jobs.ingest.readers.source_file import derive_file_source_id
from functions.jobs.ingest.roots import is_gone
from shared.knowledge.followed_files import FileState, FollowedFiles
from shared.knowledge.source import Source

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from functions.jobs.ingest.readers.reading import FileListing
    from shared.core.errors import InvalidInput
    from shared.firestore.database import Database
    from shared.knowledge.roots import Root

_HASH_BYTES: Final = 8
"""The number of bytes of a content hash that are stored."""
UNKNOWN_CONTENT: Final = 0
"""The hash of a file whose content is not known, because it cannot be read or was never read."""


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """The changes of the files of a path since they were last ingested. Paths are absolute.

    Attributes:
        new: The files that were not ingested before.
        renamed: The renamed and moved files, each with its former path.
        missing_ids: The ids of sources that no file contains now. They come from missing files,
            from files that another file replaced, and from records that were removed from a file.
        ignored_ids: The ids of more such sources, which are not forgotten.
        file_count: The number of files that were ingested before.
        source_count: The number of sources in the files that were ingested before.
        states: The states of all files in and around the path, including missing files.
        dropped: The source ids that each file lost: ids of removed records, and ids of the file
            that it replaced.
        kept_ids: The ids of sources that a changed log of additions no longer has. They stay.
        emptied: The folders in the path that had files and are empty now, as a mount point is
            without its disk. What was read of their files stays until the folders are deleted.
        error: Why nothing can be read, if only missing files are left.
    """

    scope: Path
    new: Sequence[Path] = ()
    edited: Sequence[Path] = ()
    renamed: Mapping[Path, Path] = field(default_factory=dict)
    missing: Sequence[Path] = ()
    missing_ids: frozenset[str] = frozenset()
    ignored_ids: frozenset[str] = frozenset()
    file_count: int = 0
    source_count: int = 0
    states: Mapping[Path, FileState] = field(default_factory=dict)
    dropped: Mapping[Path, tuple[str, ...]] = field(default_factory=dict)
    kept_ids: frozenset[str] = frozenset()
    emptied: Sequence[Path] = ()
    error: InvalidInput | None = None

    @property
    def missing_counts(self) -> MissingCounts:
        """The numbers of missing files and sources, and of all files and sources."""
        return MissingCounts(
            missing_files=len(self.missing),
            former_files=self.file_count,
            missing_texts=len(self.missing_ids),
            former_texts=self.source_count,
        )

    @property
    def source_ids(self) -> dict[Path, str]:
        """The ids of the sources of text files."""
        return {
            path: state.ids[0]
            for path, state in self.states.items()
            if find_identity(path) is Identity.FILE and state.ids
        }

    def without_books(self) -> FolderChanges:
        """Move missing Readwise books to `ignored_ids`, because the library itself is followed."""
        books = frozenset(filter(is_book, self.missing_ids))
        return replace(self, missing_ids=self.missing_ids - books, ignored_ids=books)

    def compute_states_after_forgetting(
        self, forgotten: Collection[str] = ()
    ) -> dict[Path, FileState]:
        """Return the states to store once these missing sources are forgotten.

        Missing sources that are not forgotten stay in the states, so that the next run finds them
        missing again.
        """
        remaining_ids = (self.missing_ids | self.ignored_ids).difference(forgotten)
        states = dict(self.states)
        for path in self.missing:
            if remaining_ids.isdisjoint(states[path].ids):
                states[path] = replace(states[path], missing=True)
        for path, dropped in self.dropped.items():
            if ids := tuple(source_id for source_id in dropped if source_id in remaining_ids):
                # A file of records is compared again in the next run. The hash of any other file
                # must stay, because it reveals renaming.
                generation = UNKNOWN_CONTENT if _has_records(path) else states[path].generation
                states[path] = FileState(generation, (*states[path].ids, *ids))
        return states


class FollowedFolder:
    """The files of a path, and their stored states."""

    def __init__(self, database: Database, listing: FileListing, roots: Iterable[Root]) -> None:
        self._database = database
        self._listing = listing
        self._all_roots = tuple(roots)
        self._scope = scope = listing.scope
        self._stored = {
            root: FollowedFiles.of_folder(database, root)
            for root in self._all_roots
            if root.path.is_relative_to(scope) or scope.is_relative_to(root.path)
        }
        self._roots: dict[Path, Root] = {}

    async def find_changes(self) -> FolderChanges:
        """Compare the files with their stored states.

        Loading the states of a folder costs one read for the folder and the reads for its files.
        If the path contains a Readwise or Kindle export, the states of all other registered folders
        are loaded, too. A file that cannot be read counts as neither missing nor changed.
        """
        states = await self._load_states()
        has_exports = any(find_identity(path) is Identity.ORIGIN for path in states)
        books = await self._load_books_elsewhere() if has_exports else frozenset()
        return await asyncio.to_thread(_ChangeFinder(self._listing, states, books).find_changes)

    async def _load_books_elsewhere(self) -> frozenset[str]:
        """Load the ids of the books that exports of other folders brought.

        An export that is gone there says nothing: its folder may never be ingested again, and only
        that would remove what it alone brought.
        """
        others = [root for root in self._all_roots if root not in self._stored]
        loaded = await asyncio.gather(
            *(FollowedFiles.of_folder(self._database, root).load_files() for root in others)
        )
        return frozenset(
            source_id
            for files in loaded
            for name, state in files.items()
            if find_identity(PurePath(name)) is Identity.ORIGIN and not state.missing
            for source_id in state.ids
        )

    async def load_source_ids(self) -> list[str]:
        """Load the source ids of all files of the path, including missing files."""
        states = (await self._load_states()).items()
        below = [state for path, state in states if path.is_relative_to(self._scope)]
        return sorted({source_id for state in below for source_id in state.ids})

    async def _load_states(self) -> dict[Path, FileState]:
        """Load the states of all files of the roots around and below the path, by absolute path.

        A file whose name has another Unicode form now has its state under the present name.
        """
        loaded = await asyncio.gather(*(stored.load_files() for stored in self._stored.values()))
        stored = {
            root.path / name: (root, state)
            for root, files in zip(self._stored, loaded, strict=True)
            for name, state in files.items()
        }
        present = {self._listing.folder / name for name in self._listing.files}
        renamed = {_compose(path): path for path in present - stored.keys()}
        states: dict[Path, FileState] = {}
        for stored_path, (root, state) in stored.items():
            is_present = stored_path in present
            path = stored_path if is_present else renamed.get(_compose(stored_path), stored_path)
            states[path], self._roots[path] = state, root
        return states

    async def store(
        self, states: Mapping[Path, FileState], read_at: datetime | None = None
    ) -> None:
        """Store the states of files.

        Args:
            states: The states of all files of the roots around and below the path.
            read_at: When the path was read; None if it was not read completely.
        """
        files: dict[Root, dict[str, FileState]] = {root: {} for root in self._stored}
        for path, state in states.items():
            root = self._roots.get(path) or self._listing.find_root(path)
            files[root][path.relative_to(root.path).as_posix()] = state
        for root, stored in self._stored.items():
            is_read = root.path.is_relative_to(self._scope)
            await stored.store_folder(files[root], read_at if is_read else None)


class _ChangeFinder:
    """Compares the files of a path with their stored states."""

    def __init__(
        self,
        listing: FileListing,
        states: Mapping[Path, FileState],
        books_elsewhere: frozenset[str],
    ) -> None:
        self._listing = listing
        self._states = states
        self._books_elsewhere = books_elsewhere
        self._scope = listing.scope
        self._names = {listing.folder / name: name for name in listing.files}
        self._kept_ids: set[str] = set()

    def find_changes(self) -> FolderChanges:
        """Return the changes. Reads every file: call this in a thread."""
        files = self._listing.files
        hashes = {path: hash_content(name, files[name]) for path, name in self._names.items()}
        # A file without a hash cannot be read. It is neither changed nor missing.
        readable = {path: digest for path, digest in hashes.items() if digest}
        renamed = self._find_renamed(hashes)
        before, replaced = self._move_states(renamed)
        states, dropped = self._update_states(readable, before, replaced)
        followed = {path for path, state in before.items() if not state.missing}
        below = {path for path in followed if path.is_relative_to(self._scope)}
        gone = {path for path in below if path not in hashes and is_gone(path)}
        emptied = {path: _find_empty_folder(path, self._scope) for path in gone}
        missing = {path for path in gone if not emptied[path]}
        edited = {
            path for path in readable.keys() & followed if before[path].generation != readable[path]
        }
        present_ids = _collect_ids(
            state for path, state in states.items() if not state.missing and path not in missing
        )
        former_ids = _collect_ids(before[path] for path in below).union(*replaced.values())
        return FolderChanges(
            scope=self._scope,
            new=sorted(readable.keys() - followed),
            edited=sorted(edited),
            renamed=renamed,
            missing=sorted(missing),
            missing_ids=frozenset(former_ids - present_ids - self._books_elsewhere),
            file_count=len(below) + len(replaced),
            source_count=len(former_ids),
            states=states,
            dropped=dropped,
            kept_ids=frozenset(self._kept_ids),
            emptied=sorted(set(filter(None, emptied.values()))),
        )

    def _move_states(
        self, renamed: Mapping[Path, Path]
    ) -> tuple[dict[Path, FileState], dict[Path, tuple[str, ...]]]:
        """Give each renamed file the state that is stored under its former path.

        Returns:
            The stored states by current path, and the source ids of the files that a renamed file
            replaced, by path.
        """
        former_paths = set(renamed.values())
        before = {path: state for path, state in self._states.items() if path not in former_paths}
        replaced = {
            path: before[path].ids
            for path in renamed.keys() & before.keys()
            if not before[path].missing
        }
        before |= {path: self._states[former_path] for path, former_path in renamed.items()}
        return before, replaced

    def _update_states(
        self,
        readable: Mapping[Path, int],
        before: Mapping[Path, FileState],
        replaced: Mapping[Path, tuple[str, ...]],
    ) -> tuple[dict[Path, FileState], dict[Path, tuple[str, ...]]]:
        """Return the new states of all files, and the source ids that each file lost.

        Args:
            readable: The content hashes of the files that can be read.
            before: The stored states by current path.
            replaced: The source ids of the files that a renamed file replaced, by path.
        """
        states, dropped = dict(before), dict(replaced)
        used_ids = _collect_ids(self._states.values())
        for path, digest in readable.items():
            state = before.get(path, FileState(UNKNOWN_CONTENT))
            has_replaced = len(state.ids) > 1 and not _has_records(path)
            if state.generation != digest or state.missing or has_replaced:
                ids = self._assign_ids(path, state, used_ids)
                states[path] = FileState(digest, ids)
                former = (*replaced.get(path, ()), *state.ids)
                dropped[path] = tuple(source_id for source_id in former if source_id not in ids)
                used_ids.update(ids)
        return states, dropped

    def _find_renamed(self, hashes: Mapping[Path, int]) -> dict[Path, Path]:
        """Map the current path of each renamed file to its former path.

        Files may have swapped their names, or replaced each other. A path whose present content was
        never stored was edited in place. Another file with the path's former content is then a
        copy, unless that file's own former content has moved, too.
        """
        changed = {path for path in self._states if self._has_changed(path, hashes)}
        # The paths whose stored content is no longer there, by this content's hash.
        former_paths: dict[int, list[Path]] = defaultdict(list)
        for path, state in self._states.items():
            if state.generation and (path not in hashes or path in changed):
                former_paths[state.generation].append(path)
        returned = {path for path in changed if self._states[path].missing}
        edited = {path for path in changed - returned if hashes[path] not in former_paths}
        for paths in former_paths.values():
            # The likeliest come first: False sorts before True.
            paths.sort(key=lambda path: (path in edited, self._states[path].missing, path))
        new = {path for path, digest in hashes.items() if digest and path not in self._states}
        contents = set(hashes.values())
        moved = {path for path in changed - returned if self._states[path].generation in contents}
        renamed: dict[Path, Path] = {}
        # Known files choose before new ones, which are more often copies.
        for path in (*sorted(changed - returned), *sorted(new | returned)):
            paths = former_paths.get(hashes[path], [])
            for old in paths:
                is_copy = old in edited and path not in moved
                if not is_copy and self._has_moved(old, path, hashes):
                    renamed[path] = old
                    paths.remove(old)
                    break
        return renamed

    def _has_changed(self, path: Path, hashes: Mapping[Path, int]) -> bool:
        """Return whether the content of a text file differs from its stored hash."""
        before, now = self._states[path].generation, hashes.get(path)
        return bool(before and now and before != now) and not _has_records(path)

    def _has_moved(self, old: Path, new: Path, hashes: Mapping[Path, int]) -> bool:
        """Return whether a former file is now at another path, which may differ only in case."""
        if _has_records(old) != _has_records(new):
            return False
        if _has_records(new) and self._listing.find_root(old) != self._listing.find_root(new):
            return False  # The ids of records begin with the name of the root.
        try:
            return old in hashes or is_gone(old) or old.samefile(new)
        except OSError:
            return False

    def _assign_ids(
        self, path: Path, state: FileState, used_ids: Collection[str]
    ) -> tuple[str, ...]:
        """Return the ids of the sources of a new or edited file."""
        if _has_records(path):
            return self._read_record_ids(path, state.ids)
        if state.ids:
            return state.ids[:1]  # The other ids belong to files that this file replaced.
        root = self._listing.find_root(path)
        key = path.relative_to(root.path).as_posix()
        ids = (derive_file_source_id(root.collection, key, number) for number in count(1))
        return (next(source_id for source_id in ids if source_id not in used_ids),)

    def _read_record_ids(self, path: Path, former: tuple[str, ...]) -> tuple[str, ...]:
        """Return the ids of the records, and the former ids if some records cannot be read.

        A log of additions keeps the former ids, too.
        """
        file = make_source_file(self._names[path], self._listing)
        entries = [entry for _, entry in read_entries(file)]
        sources = [entry for entry in entries if isinstance(entry, Source)]
        ids = [
            source.source_id
            for source in sources
            if not _is_exported(source) and not source.is_deleted
        ]
        if find_identity(path) is Identity.ORIGIN:
            deleted = {source.source_id for source in sources if source.is_deleted}
            former = tuple(source_id for source_id in former if source_id not in deleted)
            self._kept_ids.update(set(former).difference(ids))
        elif len(sources) == len(entries):
            return tuple(dict.fromkeys(ids))
        return tuple(dict.fromkeys([*former, *ids]))


def hash_content(name: str, path: Path) -> int:
    """Hash the content of a file with 64 bits of SHA-256.

    Return `UNKNOWN_CONTENT` if the file cannot be read.

    Args:
        name: The file's path below the folder, which determines its maximum size.
    """
    try:
        if not path.is_file() or explain_excess(name, path.stat().st_size):
            return UNKNOWN_CONTENT
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return UNKNOWN_CONTENT
    return int.from_bytes(digest[:_HASH_BYTES])


def _find_empty_folder(path: Path, scope: Path) -> Path | None:
    """Return the folder of a file that is gone if the folder is below `scope`, and is empty.

    Hidden files, such as `.DS_Store`, do not count.
    """
    folder = next(parent for parent in path.parents if parent == scope or not is_gone(parent))
    try:
        is_empty = scope in folder.parents and all(
            entry.name.startswith(".") for entry in folder.iterdir()
        )
    except OSError:
        return None
    return folder if is_empty else None


def _compose(path: Path) -> str:
    """Return a path for comparison: macOS decomposes the letters with accents in file names."""
    return unicodedata.normalize("NFC", str(path))


def _collect_ids(states: Iterable[FileState]) -> set[str]:
    return {source_id for state in states for source_id in state.ids}


def _has_records(path: Path) -> bool:
    """Return whether a file may contain several sources, whose ids do not contain its path."""
    return find_identity(path) is not Identity.FILE


def _is_exported(source: Source) -> bool:
    """Return whether a source comes from an export of Carrel, which is a copy."""
    return any(section.start is not None for section in source.sections)
