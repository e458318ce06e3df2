"""Recognizes files whose content is not on this computer.

A cloud drive moves files off the disk. iCloud used to leave `.Note.md.icloud` in place of
`Note.md`, and some clients leave `Note.md.nextcloud`. Today's drives leave the file with its name
and size, but without data: opening it downloads it, so it is never opened here.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

ICLOUD_SUFFIX: Final = ".icloud"
"""The suffix of a hidden file that iCloud leaves in place of another: `.Note.md.icloud`."""
_CLIENT_SUFFIXES: Final = (".nextcloud", ".owncloud")
"""The suffixes that sync clients append to the name of a file that they did not download."""
_SF_DATALESS: Final = 0x4000_0000
"""The flag of files without data on macOS (`<sys/stat.h>`)."""
_WITHOUT_DATA: Final = stat.FILE_ATTRIBUTE_OFFLINE | 0x0004_0000 | 0x0040_0000
"""The attributes of files without data on Windows: `FILE_ATTRIBUTE_OFFLINE`, `RECALL_ON_OPEN` and
`RECALL_ON_DATA_ACCESS` (`<winnt.h>`)."""


def is_offline(path: Path) -> bool:
    """Return whether a file has no data on this computer, so that opening it would download it."""
    try:
        status = os.stat(path)  # noqa: PTH116 - tests replace its result
    except (OSError, ValueError):
        return False
    flags, attributes = getattr(status, "st_flags", 0), getattr(status, "st_file_attributes", 0)
    return bool(flags & _SF_DATALESS or attributes & _WITHOUT_DATA)


def has_placeholder(path: Path) -> bool:
    """Return whether a sync client has put a placeholder in the place of a file or its folder."""
    for part in (path, *path.parents):
        names = [f".{part.name}{ICLOUD_SUFFIX}", *(part.name + end for end in _CLIENT_SUFFIXES)]
        if any(os.path.lexists(part.with_name(name)) for name in names if part.name):
            return True
        if os.path.lexists(part):
            return False
    return False


def find_represented(path: Path) -> Path | None:
    """Return the file in whose place a placeholder stands, or None for any other file."""
    name = path.name
    if name.startswith(".") and name.endswith(ICLOUD_SUFFIX):
        name = name[1:].removesuffix(ICLOUD_SUFFIX)
    for suffix in _CLIENT_SUFFIXES:
        name = name.removesuffix(suffix)
    return path.with_name(name) if name and name != path.name else None
