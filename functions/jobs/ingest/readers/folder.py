"""Lists the files below a folder."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.offline_files import ICLOUD_SUFFIX, find_represented, is_offline

if TYPE_CHECKING:
    from collections.abc import Iterator

_SKIPPED: Final = (".", "~$")
"""How the names of skipped files begin: hidden ones, and the locks that Office leaves."""


@dataclass(frozen=True, slots=True)
class FolderContents:
    """The files below a folder.

    Attributes:
        files: The files, sorted by path and without duplicates, mapped to their real paths. A file
            is opened by its real path, because symbolic links could change meanwhile.
        offline: The files whose content is not on this computer, sorted. They must not be opened.
        outside: The symbolic links to targets outside the boundary, sorted.
        errors: The errors for folders that could not be opened.
    """

    files: dict[Path, Path]
    offline: list[Path]
    outside: list[Path]
    errors: list[OSError]


def list_files_below(folder: Path, boundary: Path) -> FolderContents:
    """List all files below a folder except hidden files, whose names start with a dot, and locks.

    A symbolic link is followed if its target is not listed anyway because it is hidden, such as the
    files that git-annex keeps below `.git`. Each folder is visited once, so circular links do no
    harm.

    Args:
        folder: An absolute path without symbolic links.
        boundary: The folder that symbolic links must not leave: `folder`, or one above it.
    """
    files: dict[Path, Path] = {}
    represented: set[Path] = set()
    outside: list[Path] = []
    errors: list[OSError] = []
    visited: set[Path] = set()
    folders = deque([folder])
    while folders:
        links: list[Path] = []
        for path, real_path in _walk(folders.popleft(), visited, errors):
            if original := find_represented(path):
                represented.add(original)
            elif path.is_symlink():
                links.append(path)
            else:
                files.setdefault(real_path, path)
        for link in sorted(links):
            target = Path(os.path.realpath(link))
            if not target.is_relative_to(boundary):
                outside.append(link)
                continue
            is_hidden = _is_hidden(target, folder, boundary)
            # Path's methods raise an error for a target that cannot be examined.
            if is_hidden and os.path.isdir(target):  # noqa: PTH112 - see above
                folders.append(link)
            elif is_hidden or not os.path.exists(target):  # noqa: PTH110 - see above
                files.setdefault(target, link)
    without_data = {path for real_path, path in files.items() if is_offline(real_path)}
    by_path = {path: real for real, path in files.items() if path not in without_data}
    not_here = sorted((represented | without_data) - by_path.keys())
    return FolderContents(dict(sorted(by_path.items())), not_here, sorted(outside), errors)


def _walk(start: Path, visited: set[Path], errors: list[OSError]) -> Iterator[tuple[Path, Path]]:
    """Yield the visible files and links below a folder, with their paths in the real folders."""
    for name, subfolders, names in os.walk(start, onerror=errors.append):
        folder, real_folder = Path(name), Path(os.path.realpath(name))
        if real_folder in visited:
            subfolders.clear()
            continue
        visited.add(real_folder)
        subfolders[:] = [entry for entry in subfolders if not entry.startswith(".")]
        linked = [entry for entry in subfolders if (folder / entry).is_symlink()]
        for entry in names + linked:
            if not entry.startswith(_SKIPPED) or entry.endswith(ICLOUD_SUFFIX):
                yield folder / entry, real_folder / entry


def _is_hidden(target: Path, folder: Path, boundary: Path) -> bool:
    """Return whether a target is hidden below `folder` or, if it is outside, below `boundary`."""
    base = folder if target.is_relative_to(folder) else boundary
    return any(part.startswith(".") for part in target.relative_to(base).parts)
