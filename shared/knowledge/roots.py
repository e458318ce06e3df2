"""`meta/roots`: the folders that were ingested, whose names are part of the ids of their sources.

The field `roots` is a list of {path, number, whole, files}. A folder that was renamed also has its
former `name`. The path is a `file://` URI, and all names are quoted as in a URI.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from shared.firestore.documents import Document, Reference
from shared.firestore.writes import put_if_unchanged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.firestore.database import Database

_SCHEME: Final = "file://"


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
    """

    path: Path
    number: int = 1
    whole: bool = True
    files: tuple[str, ...] = ()
    former_name: str = ""

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


class Roots:
    """Stores the registered folders."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self) -> StoredRoots:
        """Load the registered folders. Costs one read."""
        snapshot = await self._database.get(Reference("meta", "roots"))
        data = snapshot.fields
        return StoredRoots(tuple(map(_to_root, data.get("roots", ()))), snapshot)

    async def replace(self, stored: StoredRoots, roots: Sequence[Root]) -> None:
        """Store the folders if they have changed since they were read.

        Raises:
            WriteConflict: Another run wrote them in the meantime.
        """
        if tuple(roots) != stored.roots:
            data = {"roots": list(map(_to_data, roots))}
            await self._database.commit([put_if_unchanged(stored.snapshot, data)])


@dataclass(frozen=True, slots=True)
class StoredRoots:
    """The registered folders, and the document from which they were read."""

    roots: tuple[Root, ...]
    snapshot: Document


def _to_root(data: dict[str, Any]) -> Root:
    path = _unquote(data["path"].removeprefix(_SCHEME))
    files = tuple(map(_unquote, data.get("files", ())))
    former_name = _unquote(data.get("name", ""))
    return Root(Path(path), data["number"], data["whole"], files, former_name)


def _to_data(root: Root) -> dict[str, Any]:
    files = [_quote(name) for name in root.files]
    data = {
        "path": root.path.as_uri(), "number": root.number, "whole": root.whole, "files": files
    }  # fmt: skip
    return data | ({"name": _quote(root.former_name)} if root.former_name else {})


def _quote(name: str) -> str:
    return quote_from_bytes(os.fsencode(name))


def _unquote(name: str) -> str:
    return os.fsdecode(unquote_to_bytes(name))
