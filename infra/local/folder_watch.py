"""Finds followed folders on this machine that have changed, once they have settled.

A folder has changed if its fingerprint differs from the one stored when it was last read. It has
settled if two checks, a few seconds apart, see the same fingerprint. A file that an editor replaces
or a sync client writes in pieces is therefore read once, and whole. Events from the operating
system say when to check. Network drives send none, and events can be lost, so all folders are also
checked now and then.
"""

from __future__ import annotations

import asyncio
import math
import time
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from watchfiles import watch

from functions.jobs.ingest.listing import take_fingerprint
from infra.local.state_disk import find_remote_disk, read_mounts
from shared.core.log import error_fields, log
from shared.knowledge.followed_folders import load_folders

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.firestore.database import Database

SETTLE_SECONDS: Final = 3.0
"""The pause between the two checks that must agree."""
LOOK_SECONDS: Final = 600.0
"""The pause between checks of a folder without events, and the longest wait for one to settle."""
_STEP_MILLISECONDS: Final = 500
"""Events are collected for this long, which nobody notices."""


class FolderWatch:
    """The followed folders, and which of them may have changed."""

    def __init__(self, database: Database) -> None:
        """Prepare to watch. Nothing is watched before `update`."""
        self._database = database
        self._read: dict[Path, str] = {}
        self._present: list[Path] = []
        self._suspects: dict[Path, tuple[float, float, str]] = {}
        self._looked_at = -math.inf
        self._stop = Event()
        self._task: asyncio.Task[None] | None = None

    async def update(self) -> None:
        """Watch the currently followed folders. Costs one read."""
        watched = {root.path: root for root in await load_folders(self._database) if root.watched}
        self._read = {path: root.fingerprint for path, root in watched.items()}
        present = [path for path in self._read if path.is_dir()]
        if present != self._present:
            self._present, self._looked_at = present, -math.inf
            await self.aclose()
            self._stop = Event()
            self._task = asyncio.create_task(self._collect())
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self.suspect(self._read)

    async def find_changed(self) -> set[Path]:
        """Return the folders that have changed and settled, each once."""
        changed = set()
        for path, (since, looked_at, former) in list(self._suspects.items()):
            now = time.monotonic()
            if now - looked_at < SETTLE_SECONDS:
                continue
            fingerprint = await asyncio.to_thread(take_fingerprint, path)
            read = self._read.get(path, fingerprint)
            if fingerprint in {read, former} or now - since > LOOK_SECONDS:
                del self._suspects[path]
                changed |= {path} if fingerprint != read else set()
            else:
                self._suspects[path] = (since, now, fingerprint)
        return changed

    async def aclose(self) -> None:
        """Stop collecting events."""
        self._stop.set()
        if self._task:
            await self._task

    def suspect(self, folders: Iterable[Path]) -> None:
        """Check these folders soon: they may have changed."""
        for folder in folders:
            self._suspects.setdefault(folder, (time.monotonic(), -math.inf, ""))

    async def _collect(self) -> None:
        """Collect events until `aclose`."""
        loop, stop, mounts = asyncio.get_running_loop(), self._stop, read_mounts()
        folders = [path for path in self._present if not find_remote_disk(path, mounts)]

        def collect() -> None:
            # In WSL, the default would be polling.
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
                loop.call_soon_threadsafe(self.suspect, changed)

        try:
            await asyncio.to_thread(collect)
        except (OSError, RuntimeError) as error:  # the system has run out of watches
            log.warning("folders_without_events", **error_fields(error))


def _is_visible_below(folder: Path, paths: Iterable[Path]) -> bool:
    """Return whether a path is in the folder, but not in a hidden folder such as `.git`."""
    return any(
        path.is_relative_to(folder)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        for path in paths
    )
