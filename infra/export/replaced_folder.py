"""Replaces a folder as a whole, or not at all."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from infra.file_lock import hold_lock_or_refuse
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@contextmanager
def replace_folder(target: Path, manifest: str, others: Sequence[str]) -> Iterator[Path]:
    """Yield an empty folder that replaces `target` when the block ends without an error.

    If the process is killed, `target` stays unchanged, and the next call deletes the hidden folder
    that is left next to it. If the process is killed between the two renames at the end, the former
    `target` has a hidden name until the next call restores it.

    Args:
        target: A folder that is missing, empty, or was written by an earlier call.
        manifest: The name of the file by which a folder of an earlier call is recognized.
        others: Patterns of all other names in such a folder.

    Raises:
        InvalidInput: `target` is a file, or a folder with other contents.
        Conflict: Another process is replacing a folder with the same parent.
    """
    target = target.resolve()
    new = target.with_name(f".{target.name}.carrel-new")
    former = target.with_name(f".{target.name}.carrel-former")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise InvalidInput(f"{target.parent} is not a folder.") from error
    busy = f"Another export is writing to {target.parent}. Try again when it has ended."
    with hold_lock_or_refuse(target.parent, busy):
        _put_back(former, target)
        _require_replaceable(target, manifest, others)
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        try:
            yield new
            os.sync()  # the new contents are on disk before the old folder is given up
            if target.exists():
                shutil.rmtree(former, ignore_errors=True)
                target.rename(former)
            new.rename(target)
        finally:
            _put_back(former, target)
            shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(former, ignore_errors=True)


def _put_back(former: Path, target: Path) -> None:
    """Undo the first of the two renames if the second did not follow."""
    if former.exists() and not target.exists():
        former.rename(target)


def _require_replaceable(target: Path, manifest: str, others: Sequence[str]) -> None:
    """Check that replacing a folder deletes nothing but an earlier export.

    Raises:
        InvalidInput: The folder is a file, or has other contents.
    """
    if not target.exists():
        return
    if not target.is_dir():
        raise InvalidInput(f"{target} is not a folder. Give a new or an empty folder.")
    if any(target.iterdir()) and not (target / manifest).is_file():
        raise InvalidInput(
            f"{target} contains files and is not a Carrel export. Give a new or an empty folder."
        )
    patterns = (manifest, *others)
    names = sorted(path.name for path in target.iterdir())
    added = [name for name in names if not any(fnmatch(name, pattern) for pattern in patterns)]
    if added:
        raise InvalidInput(
            f"{target} also contains {', '.join(added[:5])}, which a new export would delete. Move"
            " these files elsewhere, or give another folder."
        )
