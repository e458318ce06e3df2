"""The folders on this machine that were ingested, as the state of the disk stores them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shared.knowledge.followed import DISK, FileState, Followed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.firestore.database import Database

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
        return [*gone, *self.problems]


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


async def load_folders(database: Database) -> list[Root]:
    """Load the registered folders. Costs one read."""
    disk = Followed(database, DISK, FileState)
    await disk.load_fields("roots", "watched")
    return read_folders(disk.fields, is_current=disk.is_current)


def read_folders(fields: Mapping[str, Any], *, is_current: bool) -> list[Root]:
    """Read the registered folders from the fields of the disk.

    Args:
        is_current: Whether chunks still have the layout of the last run. If not, all folders must
            be read again.
    """
    watched = json.loads(fields.get("watched", "[]"))
    return [
        replace(
            root,
            watched=str(root.path) in watched,
            fingerprint=root.fingerprint if is_current else "",
        )
        for root in load_roots(fields.get("roots", ""))
    ]
