"""Finds followed folders of this machine that have changed, as soon as they are at rest.

A folder has changed if its fingerprint differs from that of what was read, and it is at rest if two
looks, some seconds apart, see the same. So a file that an editor replaces, or that a sync client
writes in pieces, is read once and whole. Events of the operating system say when to look. A drive
of a network has none, and others may be lost, so all folders are also looked at now and then.
"""

from __future__ import annotations

import asyncio
import math
import time
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from watchfiles import watch

from functions.jobs.ingest.folder import load_folders
from functions.jobs.ingest.readers.folder import take_fingerprint
from functions.jobs.ingest.roots import select_watched
from infra.local.state_disk import find_remote_disk, read_mounts
from shared.core.log import error_fields, log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from shared.firestore.database import Database

SETTLE_SECONDS: Final = 3.0
"""The pause between the two looks that see the same."""
LOOK_SECONDS: Final = 600.0
"""The pause between two looks at a folder without events."""
_STEP_MILLISECONDS: Final = 500
"""Events are collected for this long, which is less than people notice."""


class FolderWatch:
    """The followed folders, and which of them may have changed."""

    def __init__(self, database: Database) -> None:
        """Watch nothing before `update`."""
        self._database = database
        self._read: dict[Path, str] = {}
        self._identities: dict[Path, tuple[int, int] | None] = {}
        self._suspects: dict[Path, tuple[float, str]] = {}
        self._looked_at = -math.inf
        self._stop = Event()
        self._task: asyncio.Task[None] | None = None

    async def update(self) -> None:
        """Watch the folders that are followed now. Costs one read."""
        watched = select_watched(await load_folders(self._database))
        self._read = {root.path: root.fingerprint for root in watched}
        identities = {path: _identify(path) for path in self._read}
        if identities != self._identities:  # another folder may be at the same path, or a disk
            self._identities, self._looked_at = identities, -math.inf
            await self.aclose()
            mounts = read_mounts()
            local = [path for path in identities if not find_remote_disk(path, mounts)]
            self._stop = Event()
            self._task = asyncio.create_task(self._collect([*filter(Path.is_dir, local)]))
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self._suspect(identities)

    async def find_changed(self) -> set[Path]:
        """Return the folders that have changed and are at rest, each once."""
        changed = set()
        for path, (looked_at, former) in list(self._suspects.items()):
            if time.monotonic() - looked_at < SETTLE_SECONDS:
                continue
            fingerprint = await asyncio.to_thread(take_fingerprint, path)
            read = self._read.get(path, fingerprint)
            if fingerprint not in {read, former}:
                self._suspects[path] = (time.monotonic(), fingerprint)
                continue
            del self._suspects[path]
            if fingerprint != read:
                changed.add(path)
        return changed

    async def aclose(self) -> None:
        """Collect no more events."""
        self._stop.set()
        if self._task:
            await self._task

    def _suspect(self, folders: Iterable[Path]) -> None:
        for folder in folders:
            self._suspects.setdefault(folder, (-math.inf, ""))

    async def _collect(self, folders: Collection[Path]) -> None:
        """Collect events until `aclose`."""
        loop, stop = asyncio.get_running_loop(), self._stop

        def collect() -> None:
            # Polling would be the default in WSL.
            for changes in watch(
                *folders,
                watch_filter=None,
                step=_STEP_MILLISECONDS,
                stop_event=stop,
                force_polling=False,
                ignore_permission_denied=True,
            ):
                paths = [Path(path) for _, path in changes]
                changed = [folder for folder in folders if _is_visible_below(folder, paths)]
                loop.call_soon_threadsafe(self._suspect, changed)

        try:
            await asyncio.to_thread(collect)
        except (OSError, RuntimeError) as error:  # the system has no watches left
            log.warning("folders_without_events", **error_fields(error))


def _identify(path: Path) -> tuple[int, int] | None:
    """Return the disk and the number of a folder, or None if it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_visible_below(folder: Path, paths: Iterable[Path]) -> bool:
    """Return whether a path is in the folder, and not in a hidden one, such as `.git`."""
    return any(
        path.is_relative_to(folder)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        for path in paths
    )
