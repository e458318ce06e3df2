"""Registers ingested folders: each has a unique name, which is part of its sources' ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from functions.jobs.ingest.offline_files import has_placeholder
from shared.knowledge.followed_folders import Root

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Registration:
    """The result of registering a folder.

    Attributes:
        root: The folder itself, or the registered folder that contains it. Source ids contain the
            root's name.
        roots: All registered folders, including this one.
        note: What the user should know about the root's name; empty if it is the folder's own name.
    """

    root: Root
    roots: tuple[Root, ...]
    note: str = ""


def find_root(path: Path, roots: Sequence[Root]) -> Root | None:
    """Return the innermost ingested folder that is the given path or contains it.

    A file that was ingested on its own, before any folder around it, belongs to the root of its
    parent folder.
    """
    enclosing = [
        root
        for root in roots
        if (root.whole and path.is_relative_to(root.path))
        or (path.parent == root.path and path.name in root.files)
    ]
    return max(enclosing, key=lambda root: len(root.path.parts), default=None)


def register(folder: Path, roots: Sequence[Root], files: Sequence[str] = ()) -> Registration:
    """Find a folder among the registered ones, or add it.

    The first folder with a given name keeps the name, and later folders get a number appended. A
    folder inside an ingested folder is treated as part of the outer folder.

    Args:
        folder: An absolute path, with symbolic links resolved.
        files: The names of files in the folder, if only these are ingested.
    """
    enclosing = find_root(folder.joinpath(*files[:1]), roots)
    if enclosing and enclosing.path != folder:
        inner = folder.relative_to(enclosing.path.parent).as_posix()
        note = f"{inner} is stored as part of {enclosing.name}."
        return Registration(enclosing, tuple(roots), note)
    if all(root.path != folder for root in roots):
        roots = [*roots, Root(folder, _find_free_number(folder, roots), whole=False)]
    roots = [_add_files(root, files) if root.path == folder else root for root in roots]
    root = next(root for root in roots if root.path == folder)
    return Registration(root, tuple(roots), _explain_number(root))


def find_possible_moves(root: Root, roots: Sequence[Root]) -> dict[Path, Registration]:
    """Find the folders that are gone and that a new root could replace, with its registrations.

    A folder that is gone may have been moved or renamed, or its disk may be unmounted: the caller
    must determine whether it has really moved. If only individual files of the new root are
    ingested, it cannot replace a folder that was ingested as a whole. A root that is registered or
    contains another registered root replaces none, because their files may have the same paths.
    """
    return {
        former.path: _move_folder(former, root, roots)
        for former in roots
        if (root.whole or not former.whole)
        and is_gone(former.path)
        and not any(
            other.path.is_relative_to(root.path) and not other.path.is_relative_to(former.path)
            for other in roots
        )
    }


def is_gone(path: Path) -> bool:
    """Return whether nothing exists at a path. A path that cannot be inspected may still exist.

    A file that a sync client has replaced with a placeholder is not gone.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return not has_placeholder(path)
    except OSError:
        return False
    return False


def _add_files(root: Root, files: Sequence[str]) -> Root:
    """Mark files as ingested, or the whole folder if no files are given."""
    if root.whole or not files:
        return replace(root, whole=True)
    return replace(root, files=tuple(dict.fromkeys([*root.files, *files])))


def _find_free_number(folder: Path, roots: Sequence[Root]) -> int:
    used_numbers = {root.number for root in roots if root.registered_name == folder.name}
    return next(number for number in count(1) if number not in used_numbers)


def _move_folder(former: Root, root: Root, roots: Sequence[Root]) -> Registration:
    """Return the registration after a folder was moved or renamed, with all folders in it."""
    moved = [
        _move_root(root.path / other.path.relative_to(former.path), other)
        if other.path.is_relative_to(former.path)
        else other
        for other in roots
    ]
    registration = register(root.path, moved, root.files)
    note = (
        f"{former.path.name} is now called {root.path.name}: its sources keep their ids."
        if former.path.name != root.path.name
        else f"{former.name} has moved: it keeps its name and its sources."
    )
    note = f"{note} {registration.note}".strip()
    return replace(registration, note=note)


def _move_root(path: Path, root: Root) -> Root:
    """Return a root at another path. Its ids keep the name under which it was registered."""
    name = root.registered_name
    return replace(root, path=path, former_name="" if name == path.name else name)


def _explain_number(root: Root) -> str:
    if root.number == 1:
        return ""
    return f"Another folder is called {root.registered_name}: this one is {root.name}."
