"""Follows files on this machine: those of a folder, or a single file.

All files are read each time, because links in a file depend on other files. An unchanged source
costs one read and no write. A Carrel export is read, but not followed: its sources stay when it is
deleted.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import unicodedata
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.followed_files import FollowedFiles, has_records
from functions.jobs.ingest.listing import (
    FileListing,
    list_files,
    make_source_file,
    read_listing,
    take_fingerprint,
)
from functions.jobs.ingest.missing_sources import describe_removed
from functions.jobs.ingest.origin import sync
from functions.jobs.ingest.readers.fields import to_one_line
from functions.jobs.ingest.readers.formats import Identity
from functions.jobs.ingest.readers.reading import (
    InputProblem,
    explain_excess,
    find_identity,
    read_entries,
)
from functions.jobs.ingest.roots import find_possible_moves, find_root, is_gone, register
from shared.core.errors import InvalidInput
from shared.core.installation import carrel
from shared.knowledge.followed import DISK, UNREAD, FileState, Followed
from shared.knowledge.followed_folders import dump_roots, load_roots, read_folders
from shared.knowledge.source import Source
from shared.runtime.job import Failure, Report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from functions.jobs.ingest.readers.source_file import LinkList
    from functions.jobs.ingest.roots import Registration
    from shared.firestore.database import Database
    from shared.knowledge.followed_folders import Root
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

_HASH_BYTES: Final = 8
"""The number of bytes of a content hash that are stored."""
_EMPTIED: Final = (
    "is empty, as if its disk were missing: what was read of it before stays; delete the folder to"
    " have that forgotten"
)


class FollowedFolder(FollowedFiles):
    """The files of a path. Their names are absolute paths.

    Attributes:
        listing: The files at the path, after `list_items`.
        roots: All registered folders.
        error: Why nothing can be read, if only missing files are left.
    """

    listing: FileListing

    def __init__(self, path: Path, database: Database, *, follows_readwise: bool = False) -> None:
        super().__init__(database, DISK, follows_readwise=follows_readwise)
        self.name = path.name
        self._path = path
        self._fingerprint = ""
        self.command = carrel("ingest FOLDER --yes")
        self.roots: Sequence[Root] = ()

    async def list_items(self) -> Sequence[Sequence[str]]:
        """List all files as one batch, and compare them with their stored states.

        Raises:
            InvalidInput: Nothing can be read from the path, and nothing of it is missing.
        """
        stored = await self.load()
        self.roots = load_roots(self._followed.fields.get("roots", ""))
        await asyncio.to_thread(self._list_and_compare, stored)
        return [list(self.listing.files)]

    @asynccontextmanager
    async def read(
        self,
        names: Sequence[str],  # noqa: ARG002 - all files
    ) -> AsyncIterator[Iterator[Source | LinkList | InputProblem]]:
        """Read all files."""
        await self.store()
        yield read_listing(self.listing, without_books=self._without_books)

    async def complete(
        self, forgotten: AbstractSet[str], read_at: datetime | None, failures: Sequence[Failure]
    ) -> None:
        """Store what was forgotten, when the folders were read, and what failed."""
        kept = [Failure(item.name, item.reason) for item in self.listing.problems if item.kept]
        problems = tuple(f"{failure.name}: {failure.reason}" for failure in (*failures, *kept))
        # Without a fingerprint, the folder is read again.
        fingerprint = self._fingerprint if read_at or self.error else ""
        self.roots = [
            replace(
                root,
                read_at=read_at or root.read_at,
                fingerprint=fingerprint,
                problems=problems if root.path == self.scope else (),
            )
            if root.path.is_relative_to(self.scope)
            else root
            for root in self.roots
        ]
        await super().complete(forgotten, read_at, failures)

    @property
    def scope(self) -> Path:
        """The folder or file, without symbolic links."""
        return self.listing.scope

    @property
    def source_ids(self) -> dict[Path, str]:
        """The ids of the sources of text files."""
        return {
            Path(name): state.ids[0]
            for name, state in self.states.items()
            if state.ids and not has_records(name)
        }

    def label(self, name: str) -> str:
        """Return the name itself, which is relative to the folder."""
        return name

    def locate(self, name: str) -> tuple[str, str]:
        """Return the name of a file's root, and its path there."""
        root = self.listing.find_root(Path(name))
        return root.collection, Path(name).relative_to(root.path).as_posix()

    def is_followed(self, name: str) -> bool:
        """Return whether a file is in the path."""
        return Path(name).is_relative_to(self.scope)

    def is_gone(self, name: str) -> bool:
        """Return whether a file is gone, or has a name now that differs in case only."""
        try:
            listed = self._names_by_case.get(name.casefold())
            return is_gone(Path(name)) or bool(listed and Path(name).samefile(listed))
        except OSError:
            return False

    def is_missing(self, name: str) -> bool:
        """Return whether a file is gone, and not with everything that was beside it."""
        if not self.is_gone(name):
            return False
        if folder := _find_empty_folder(Path(name), self.scope):
            self._emptied.add(folder)
        return folder is None

    def get_own_fields(self) -> dict[str, str]:
        """Return the registered folders."""
        return {"roots": dump_roots(self.roots)}

    def _list_and_compare(self, stored: dict[str, FileState]) -> None:
        """List, hash and compare the files."""
        self._fingerprint = take_fingerprint(Path(os.path.realpath(self._path)))
        try:
            self.listing = list_files(self._path, self.roots)
        except InvalidInput as error:
            self.error = error
            scope = Path(os.path.realpath(self._path))
            self.listing = FileListing(scope, {}, register(scope, self.roots))
        self.name = self.scope.name
        if self.listing.is_export:
            self._others = stored
            return
        files = {str(self.listing.folder / name): name for name in self.listing.files}
        versions = {
            path: hash_content(name, self.listing.files[name]) for path, name in files.items()
        }
        if files:
            stored = self._register(stored, versions)
        related = {name: state for name, state in stored.items() if self._is_related(name)}
        self._others = {name: stored[name] for name in stored.keys() - related.keys()}
        # A book that an export of another folder brought is not missing. An export that is gone
        # there says nothing: that folder may never be ingested again.
        self._elsewhere = {
            source_id
            for name, state in self._others.items()
            if find_identity(PurePath(name)) is Identity.ORIGIN and not state.missing
            for source_id in state.ids
        }
        self._names_by_case = {path.casefold(): path for path in files}
        self._emptied: set[Path] = set()
        self.compare(versions, _recompose(related, files))
        self.register(
            {path: make_source_file(files[path], self.listing) for path in self.list_changed()}
        )
        self._read_names = set(files)
        if self.error and not self.missing:
            raise self.error
        emptied = [
            InputProblem(str(folder.relative_to(self.scope)), _EMPTIED, kept=True)
            for folder in sorted(self._emptied)
        ]
        self.note = _format_note(self.listing)
        self.listing = replace(
            self.listing,
            source_ids=self.source_ids,
            problems=[*emptied, *self.listing.problems],
        )

    def _register(
        self, stored: dict[str, FileState], versions: Mapping[str, int]
    ) -> dict[str, FileState]:
        """Register the folder. If it has moved, return the states under their present names."""
        path = self.listing.registration.root.path
        if move := _find_move(self.listing, self.roots, stored, versions):
            former_path, registration = move
            self.listing = replace(self.listing, registration=registration)
            stored = {_move(name, former_path, path): state for name, state in stored.items()}
        self.roots = self.listing.registration.roots
        return stored

    def _is_related(self, name: str) -> bool:
        """Return whether the root of a file is in the path, or contains the path."""
        root = find_root(Path(name), self.roots)
        return root is not None and (
            root.path.is_relative_to(self.scope) or self.scope.is_relative_to(root.path)
        )


async def ingest_confirmed(
    path: str, confirmed: AbstractSet[str], ctx: Context, budget: Budget
) -> Report:
    """Ingest a path, and forget only the confirmed missing sources; see `sync`."""
    report = Report()
    await sync(_follow(path, ctx), ctx, budget, report, confirmed.__contains__)
    report.note = f"{report.note} {describe_removed(report, ctx.zone)}".strip()
    return report


@asynccontextmanager
async def follow_path(path: str, ctx: Context, _budget: Budget) -> AsyncIterator[FollowedFolder]:
    """Return a folder or file as an origin."""
    yield _follow(path, ctx)


def _follow(path: str, ctx: Context) -> FollowedFolder:
    follows_readwise = ctx.settings.readwise_token is not None
    return FollowedFolder(Path(path), ctx.database, follows_readwise=follows_readwise)


async def set_watched(path: Path, database: Database, *, watched: bool) -> bool:
    """Set whether a folder is read when it changes. Return whether that is new."""
    disk = Followed(database, DISK, FileState)
    await disk.load_fields("watched")
    former: list[str] = json.loads(disk.fields.get("watched", "[]"))
    name = str(await asyncio.to_thread(path.resolve))
    if watched is (name in former):
        return False
    names = [*former, name] if watched else [other for other in former if other != name]
    await disk.store_fields({"watched": json.dumps(names)})
    return True


async def load_roots_with_files(database: Database) -> list[tuple[Root, list[FileState]]]:
    """Load the registered folders, each with the states of its files that are not missing."""
    followed = Followed(database, DISK, FileState)
    await followed.load()
    roots = read_folders(followed.fields, is_current=followed.is_current)
    states: dict[Root | None, list[FileState]] = {root: [] for root in roots}
    for name, state in followed.items.items():
        if not state.missing:
            states.setdefault(find_root(Path(name), roots), []).append(state)
    return [(root, states[root]) for root in roots]


async def load_followed_source_ids(path: Path, database: Database) -> list[str]:
    """Load the ids of the sources that were ingested from a followed folder or a path in it."""
    followed = Followed(database, DISK, FileState)
    await followed.load()
    scope = await asyncio.to_thread(path.resolve)
    below = [state for name, state in followed.items.items() if Path(name).is_relative_to(scope)]
    return sorted({source_id for state in below for source_id in state.ids})


async def count_texts(path: str) -> int:
    """Count the texts at a path. Only files that may contain several texts are read."""
    return await asyncio.to_thread(lambda: sum(_count_texts_per_file(list_files(Path(path)))))


def _count_texts_per_file(listing: FileListing) -> Iterator[int]:
    """Yield the number of texts in each file."""
    for name in listing.files:
        if has_records(name):
            entries = read_entries(make_source_file(name, listing))
            yield sum(isinstance(entry, Source) for _, entry in entries)
        else:
            yield 1


def hash_content(name: str, path: Path) -> int:
    """Hash the content of a file with 64 bits of SHA-256. Return UNREAD if it cannot be read.

    Args:
        name: The file's path below the folder, which determines its maximum size.
    """
    try:
        if not path.is_file() or explain_excess(name, path.stat().st_size):
            return UNREAD
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return UNREAD
    return int.from_bytes(digest[:_HASH_BYTES])


def _find_move(
    listing: FileListing,
    roots: Sequence[Root],
    stored: Mapping[str, FileState],
    versions: Mapping[str, int],
) -> tuple[Path, Registration] | None:
    """Find the folder that is gone and whose place the folder takes, and its registration.

    A folder that was moved or renamed is recognized by its files: at least half of them were in the
    former folder, and they are at least half as many. Exports do not count, because their sources
    have the same ids in every folder. If several former folders qualify, the one with the most
    files is chosen.
    """
    contents = [
        version
        for name, version in versions.items()
        if find_identity(PurePath(name)) is not Identity.ORIGIN
    ]
    best, best_count = None, 0
    for path, registration in find_possible_moves(listing.registration.root, roots).items():
        former = {
            state.version
            for name, state in stored.items()
            if PurePath(name).is_relative_to(path) and not state.missing
        } - {UNREAD}
        count = sum(version in former for version in contents)
        if count > best_count and 2 * count >= len(contents) and 2 * len(versions) >= len(former):
            best, best_count = (path, registration), count
    return best


def _move(name: str, former_folder: Path, folder: Path) -> str:
    """Return the present path of a file, which may have been in a folder that has moved."""
    path = PurePath(name)
    is_inside = path.is_relative_to(former_folder)
    return str(folder / path.relative_to(former_folder)) if is_inside else name


def _recompose(states: Mapping[str, FileState], present: Iterable[str]) -> dict[str, FileState]:
    """Return states by the present names of files, whose Unicode form may have changed.

    macOS decomposes the letters with accents in file names.
    """
    names = set(present)
    by_form = {unicodedata.normalize("NFC", name): name for name in names - states.keys()}
    return {
        name if name in names else by_form.get(unicodedata.normalize("NFC", name), name): state
        for name, state in states.items()
    }


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


def _format_note(listing: FileListing) -> str:
    notes = [listing.registration.note] if listing.is_named_after_folder else []
    if listing.not_read:
        notes.append(f"Not read: {listing.not_read}.")
    return to_one_line(" ".join(notes))
