"""`followed/{key}`: what is remembered of a followed origin: the disk, a bucket or a library.

The document has the `address` of the origin, fields of its own, and the beginning of `data`: its
items, which are files or books, as compressed JSON. The rest of `data` is in `parts/{name}`, since
a document may have 1 MiB. The document lists their names, which are hashes of their content.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from shared.core.blocks import split
from shared.firestore.documents import Reference
from shared.firestore.queries import Query
from shared.firestore.writes import Delete, Set, Write, put_if_unchanged
from shared.knowledge.chunk_repository import LAYOUT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.firestore.documents import Document

ItemT = TypeVar("ItemT")

DISK: Final = "file://"
"""The address of all folders on this machine, which have one state together."""
UPLOADS: Final = "upload://"
"""The address of uploaded files, of which only the last outcome is stored."""
_BUCKET: Final = "gs://"
UNREAD: Final = 0
"""The version of a file that cannot be read, or that no run has read completely."""
PART_BYTES: Final = 900_000
"""The maximum size of the data in a document, in bytes. A document may have 1 MiB."""
_PARTS_PER_COMMIT: Final = 3
"""The number of parts in a commit, which may have 4 MB (`MAX_COMMIT_BYTES`)."""


@dataclass(frozen=True, slots=True)
class FileState:
    """What was read of a file.

    Attributes:
        version: A hash of its content, or UNREAD.
        ids: The ids of its sources, including those that may not have been written yet.
        missing: Whether the file was missing, so that its sources were forgotten. They are restored
            when the file returns.
    """

    version: int = UNREAD
    ids: tuple[str, ...] = ()
    missing: bool = False


class Followed(Generic[ItemT]):
    """The stored state of one origin.

    Attributes:
        items: The items by name, as `load` or `store` left them.
        fields: The origin's own fields.
        is_current: Whether the items were stored with the present layout of chunks. Otherwise all
            of them must be read again.
    """

    def __init__(self, database: Database, address: str, item_type: type[ItemT]) -> None:
        """Refer to the state. Nothing is read until `load`.

        Args:
            item_type: A dataclass of numbers, texts and tuples of texts.
        """
        self._database = database
        self._address = address
        self._item_type = item_type
        self._field_names = [spec.name for spec in fields(item_type)]  # type: ignore[arg-type]
        key = hashlib.sha256(os.fsencode(address)).hexdigest()[:20]
        self._reference = Reference("followed", key)
        self._document: Document | None = None
        self._part_names: list[str] = []
        self.items: Mapping[str, ItemT] = {}
        self.fields: Mapping[str, Any] = {}
        self.is_current = True

    async def load(self) -> None:
        """Load the state. Costs one read, and one more for each part."""
        self._document = await self._database.get(self._reference)
        self.fields = self._document.fields
        self.is_current = self.fields.get("layout", LAYOUT) == LAYOUT
        self._part_names = self.fields.get("parts", [])
        parts = await self._database.get_all(list(map(self._make_part_reference, self._part_names)))
        data = self.fields.get("data", b"") + b"".join(part.get("data") for part in parts)
        rows = json.loads(zlib.decompress(data)) if data else {}
        self.items = {name: self._item_type(*map(_freeze, row)) for name, row in rows.items()}

    async def load_fields(self, *names: str) -> None:
        """Load only some of the fields. Costs one read."""
        self.fields = (await self._database.get(self._reference, ["layout", *names])).fields
        self.is_current = self.fields.get("layout", LAYOUT) == LAYOUT

    async def store_fields(self, own_fields: Mapping[str, Any]) -> None:
        """Set fields, and leave the items and all other fields as they are."""
        header = {"address": self._address, **own_fields}
        await self._database.commit([Set(self._reference, header, merge=True)])

    async def store_outcome(self, read_at: datetime | None, problems: Sequence[str] | None) -> None:
        """Store when everything was read, and what could not be read.

        Args:
            read_at: None if time ran out first.
            problems: What could not be read; None to keep those that are stored.
        """
        outcome: dict[str, Any] = {"read_at": read_at} if read_at else {}
        if problems is not None:
            outcome["problems"] = list(problems)
        await self.store_fields(outcome)

    async def store(
        self,
        items: Mapping[str, ItemT],
        own_fields: Mapping[str, Any] = MappingProxyType({}),
        *,
        if_unchanged: bool = False,
    ) -> None:
        """Replace the items, and set fields. What has not changed is not written.

        Args:
            if_unchanged: Whether the state must still be as `load` found it. A run of a job needs
                no such condition, since its lease protects it from other runs.

        Raises:
            WriteConflict: The state has changed, although it must not.
        """
        changed = {
            name: value for name, value in own_fields.items() if self.fields.get(name) != value
        }
        header = {"address": self._address, "layout": LAYOUT, **changed}
        expected = self._document if if_unchanged else None
        if items != self.items or not self.is_current:
            await self._replace(items, header, expected)
        elif changed:
            await self._database.commit([self._build_header_write(header, expected)])
        self.items, self.fields, self.is_current = dict(items), {**self.fields, **changed}, True

    async def _replace(
        self, items: Mapping[str, ItemT], header: dict[str, Any], expected: Document | None
    ) -> None:
        """Write the parts first, and then the document, which makes them visible."""
        rows = {
            name: [getattr(item, field) for field in self._field_names]
            for name, item in items.items()
        }
        data = zlib.compress(json.dumps(rows).encode())
        starts = range(0, len(data), PART_BYTES)
        first, *rest = [data[start : start + PART_BYTES] for start in starts]
        parts = {hashlib.sha256(part).hexdigest()[:20]: part for part in rest}
        former = self._part_names
        header |= {"parts": list(parts), "data": first}
        writes: list[Write] = [
            Set(self._make_part_reference(name), {"data": part})
            for name, part in parts.items()
            if name not in former
        ]
        for block in split(writes, _PARTS_PER_COMMIT):
            await self._database.commit(block)
        obsolete = [name for name in former if name not in parts]
        await self._database.commit(
            [
                self._build_header_write(header, expected),
                *(Delete(self._make_part_reference(name)) for name in obsolete),
            ]
        )
        self._part_names = list(parts)

    def _build_header_write(self, header: dict[str, Any], expected: Document | None) -> Write:
        if expected:
            return put_if_unchanged(expected, header)
        return Set(self._reference, header, merge=True)

    def _make_part_reference(self, name: str) -> Reference:
        return Reference(f"{self._reference.path}/parts", name)


async def find_followed_file(source_id: str, database: Database) -> str | None:
    """Return the path or address of the followed file with a source, or None if there is none.

    Costs three round trips, and reads all that is remembered of followed folders and buckets.
    """
    for origin in await database.find(Query("followed").select(["address"])):
        address = origin.get("address") or ""
        if address.startswith((DISK, _BUCKET)):
            followed = Followed(database, address, FileState)
            await followed.load()
            for name, state in followed.items.items():
                if source_id in state.ids and not state.missing:
                    return name if address == DISK else f"{address}/{name}"
    return None


def _freeze(cell: Any) -> Any:
    return tuple(cell) if isinstance(cell, list) else cell
