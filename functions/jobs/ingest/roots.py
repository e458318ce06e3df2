"""Names of ingested folders in the ids of sources: folders of the same name get different ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from shared.store.roots import Root

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Registration:
    """What a folder is registered as.

    Attributes:
        root: The folder itself, or the ingested one that it lies in; its name stands in the ids.
        roots: All registered folders, this one included.
        note: What the user should know of the name; empty where it is simply the folder's own.
    """

    root: Root
    roots: tuple[Root, ...]
    note: str = ""


def root_of(path: Path, roots: Sequence[Root]) -> Root | None:
    """The innermost ingested folder that contains a path, or is it."""
    enclosing = [root for root in roots if root.whole and path.is_relative_to(root.path)]
    return max(enclosing, key=lambda root: len(root.path.parts), default=None)


def register(folder: Path, roots: Sequence[Root], *, whole: bool) -> Registration:
    """Find a folder among the registered ones, or add it.

    The first folder of a name has that name, another one gets a number, and a folder inside an
    ingested one belongs to that. A registered folder that no longer exists is assumed to have
    moved: the next one of its name takes over its name and its sources, and so do the folders in
    it.

    Args:
        folder: An absolute path, with symbolic links resolved.
        roots: The registered folders.
        whole: True if the whole folder is ingested, False if only a single file in it.

    Returns:
        The folder's root and the list of registered folders, which is new if anything changed.
    """
    enclosing = root_of(folder, roots)
    if enclosing and enclosing.path != folder:
        note = f"{folder} lies in {enclosing.path}, and is stored as part of {enclosing.name}."
        return Registration(enclosing, tuple(roots), note)
    former: Path | None = None
    if all(root.path != folder for root in roots):
        number, former = _free_number(folder, roots)
        roots = _moved(roots, former, folder) if former else [*roots, Root(folder, number, whole)]
    roots = [
        replace(root, whole=root.whole or whole) if root.path == folder else root for root in roots
    ]
    root = next(root for root in roots if root.path == folder)
    return Registration(root, tuple(roots), _note(root, former))


def _free_number(folder: Path, roots: Sequence[Root]) -> tuple[int, Path | None]:
    """The first number that is free, or whose folder is gone; then that folder's path, too."""
    paths = {root.name: root.path for root in roots}
    holders = ((number, paths.get(Root(folder, number).name)) for number in count(1))
    return next(
        (number, path)
        for number, path in holders
        if path is None or (path.name == folder.name and _is_gone(path))
    )


def _is_gone(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _moved(roots: Sequence[Root], former: Path, folder: Path) -> list[Root]:
    """The roots, where a folder has moved with all that is in it."""
    return [
        replace(root, path=folder / root.path.relative_to(former))
        if root.path.is_relative_to(former)
        else root
        for root in roots
    ]


def _note(root: Root, former: Path | None) -> str:
    notes = []
    if former:
        notes.append(f"{former} is gone: {root.path} takes over its name and its sources.")
    if root.number > 1:
        notes.append(f"Another folder is called {root.path.name}: this one is {root.name}.")
    return " ".join(notes)
