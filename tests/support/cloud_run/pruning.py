"""What nothing on this laptop asks for any more goes, or `dist/laptop` would only grow."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Final

from tests.support.cloud_run.environments import key_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

USED_FOR: Final = 24 * 60 * 60
"""Seconds for which whoever asked for something may use it."""


def prune(laptop: Path, named: Collection[str]) -> None:
    """Delete bundles, environments and files that are not in use, as far as can be known.

    Nobody tells when a process ends. So what was asked for less than a day ago stays; one that runs
    for longer, and has been packed anew twice since, may miss a module that it imports only then.

    Args:
        laptop: The folder of it all, whose lock the caller holds.
        named: The bundles that stay whenever they were asked for.
    """
    _delete_unused(laptop / "unpacked", named)
    required = (laptop / "unpacked").glob("*/requirements.txt")
    _delete_unused(laptop / "environments", {key_of(path.read_bytes()) for path in required})
    for path in (laptop / "files").glob("*"):
        if path.stat().st_nlink == 1:  # it is in no bundle any more
            path.unlink()


def _delete_unused(folders: Path, kept: Collection[str]) -> None:
    for folder in folders.glob("*"):
        if folder.name not in kept and time.time() - folder.stat().st_mtime > USED_FOR:
            doomed = folder.with_suffix(".unfinished")  # nobody takes half of it for the whole
            folder.rename(doomed)
            shutil.rmtree(doomed)
