"""The files below a folder."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path


def files_below(root: Path) -> tuple[list[Path], list[OSError]]:
    """All files below a folder, sorted by path, and what could not be opened on the way.

    What is hidden (its name starts with a dot) is passed over. Links are followed, and each folder
    is read once: under its own name where it has one below the root, else under its first link's.
    So links that lead in circles end.
    """
    files: list[Path] = []
    errors: list[OSError] = []
    visited: set[Path] = set()
    starts = deque([root])
    while starts:
        for name, subfolders, names in os.walk(starts.popleft(), onerror=errors.append):
            folder = Path(name)
            subfolders[:] = sorted(each for each in subfolders if not each.startswith("."))
            if folder.resolve() in visited:
                subfolders.clear()
                continue
            visited.add(folder.resolve())
            starts.extend(folder / each for each in subfolders if (folder / each).is_symlink())
            files.extend(folder / each for each in names if not each.startswith("."))
    return sorted(files), errors
