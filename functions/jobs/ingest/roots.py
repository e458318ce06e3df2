"""The registry of ingested folders: each has a unique name, which is part of its sources' ids."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.offline_files import has_placeholder

if TYPE_CHECKING:
    from collections.abc import Sequence


_GONE: Final = "cannot be opened, as if its disk were missing: what was read of it before stays"


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that was ingested.

    Attributes:
        path: Its absolute path without symbolic links.
        number: 1 for the first folder of its name, 2 for the second, and so on.
        whole: Whether the folder itself was ingested, rather than only some of its files.
        files: The names of files in it that were ingested one by one, before a folder that
            contains them was.
        former_name: The name under which it was registered, if it was renamed since.
        read_at: When a run last read the folder completely.
        fingerprint: What its files looked like before a run last read it; see `take_fingerprint`.
        problems: What the last run could not read or was not allowed to forget, with the reasons.
        watched: Whether it is read when it changes, not on command only. It is stored elsewhere.
    """

    path: Path
    number: int = 1
    whole: bool = True
    files: tuple[str, ...] = ()
    former_name: str = ""
    read_at: datetime | None = None
    fingerprint: str = ""
    problems: tuple[str, ...] = ()
    watched: bool = False

    @property
    def registered_name(self) -> str:
        """The name of the folder when it was registered. It does not change."""
        return self.former_name or self.path.name

    @property
    def name(self) -> str:
        """The name for people: `vault`, or `vault-2`."""
        name = self.registered_name
        return name if self.number == 1 else f"{name}-{self.number}"

    @property
    def collection(self) -> str:
        """The prefix of the ids of its sources.

        The number follows a NUL character, which neither names of folders nor ids of records can
        contain. With a hyphen, record 7 of the second folder `data` would have the same id as
        record 2-7 of the first.
        """
        name = self.registered_name
        return name if self.number == 1 else f"{name}\0{self.number}"

    def list_problems(self) -> list[str]:
        """List what is wrong with the folder, now or when it was last read."""
        gone = [_GONE] if self.watched and not os.access(self.path, os.R_OK | os.X_OK) else []
        return [f"{self.path}: {problem}" for problem in (*gone, *self.problems)]


def load_roots(text: str) -> tuple[Root, ...]:
    """Read the folders that `dump_roots` wrote."""
    return tuple(
        Root(
            Path(path), number, whole, tuple(files), former_name,
            datetime.fromisoformat(read_at) if read_at else None, fingerprint, tuple(problems),
        )
        for path, number, whole, files, former_name, read_at, fingerprint, problems
        in json.loads(text or "[]")
    )  # fmt: skip


def dump_roots(roots: Sequence[Root]) -> str:
    """Write folders as JSON, whose names need not be UTF-8."""
    return json.dumps(
        [
            (
                str(root.path), root.number, root.whole, root.files, root.former_name,
                root.read_at.isoformat() if root.read_at else None, root.fingerprint, root.problems,
            )
            for root in roots
        ]
    )  # fmt: skip


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
