"""Index definitions: which indexes a database has, as in `firestore.indexes.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from infra.local.embedded_firestore.documents import Path, format_path, parse_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path as FilePath


class Kind(Enum):
    """How a field is indexed."""

    ASCENDING = "ASCENDING"
    DESCENDING = "DESCENDING"
    CONTAINS = "CONTAINS"

    @property
    def flipped(self) -> Kind:
        """The opposite direction."""
        match self:
            case Kind.ASCENDING:
                return Kind.DESCENDING
            case Kind.DESCENDING:
                return Kind.ASCENDING
            case Kind.CONTAINS:
                return self


Field = tuple[Path, Kind]


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a collection or collection group.

    Its entries are ordered by its fields and then by name, ascending. An index whose last direction
    is descending is the same, read backwards.

    Attributes:
        collection: The id of the collections.
        group: Whether it orders all collections of this id together.
        fields: The fields, the vector excepted.
        vector: The path of the vector, if it is a vector index.
        dimension: The vector's dimension.
    """

    collection: str
    group: bool
    fields: tuple[Field, ...]
    vector: Path | None = None
    dimension: int = 0

    @property
    def normalized(self) -> Index:
        """The same index with names ascending."""
        if self.fields and self.fields[-1][1] is Kind.DESCENDING:
            return replace(self, fields=tuple((path, kind.flipped) for path, kind in self.fields))
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the entry of `firestore.indexes.json`."""
        fields: list[dict[str, Any]] = [
            {"fieldPath": format_path(path), "arrayConfig": "CONTAINS"}
            if kind is Kind.CONTAINS
            else {"fieldPath": format_path(path), "order": kind.value}
            for path, kind in self.fields
        ]
        if self.vector:
            config = {"dimension": self.dimension, "flat": {}}
            fields.append({"fieldPath": format_path(self.vector), "vectorConfig": config})
        return {
            "collectionGroup": self.collection,
            "queryScope": "COLLECTION_GROUP" if self.group else "COLLECTION",
            "fields": fields,
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any], dimension: int | None = None) -> Index:
        """Read an entry of `firestore.indexes.json`, optionally with another dimension."""
        fields: list[Field] = []
        vector = None
        size = 0
        for field in entry["fields"]:
            path = parse_path(field["fieldPath"])
            if "vectorConfig" in field:
                vector, size = path, dimension or field["vectorConfig"]["dimension"]
            else:
                fields.append((path, Kind(field.get("order") or field["arrayConfig"])))
        group = entry["queryScope"] == "COLLECTION_GROUP"
        return cls(entry["collectionGroup"], group, tuple(fields), vector, size)


@dataclass(frozen=True)
class Definitions:
    """The indexes of a database.

    Attributes:
        indexes: The composite and vector indexes.
        overrides: By collection and field path, the only single-field indexes that it has.
        ttl: Collections and fields with the time at which a document is deleted.
        builds_missing: Whether a query gets an index that is not defined. For tests.
    """

    indexes: tuple[Index, ...] = ()
    overrides: tuple[tuple[str, Path, tuple[Index, ...]], ...] = ()
    ttl: tuple[tuple[str, Path], ...] = ()
    builds_missing: bool = False

    @classmethod
    def read(cls, file: FilePath, dimension: int | None = None) -> Definitions:
        """Read `firestore.indexes.json`, optionally with another dimension of vectors."""
        data = json.loads(file.read_text("utf-8"))
        indexes = [Index.from_json(entry, dimension) for entry in data["indexes"]]
        overrides = []
        ttl = []
        for entry in data.get("fieldOverrides", ()):
            collection, path = entry["collectionGroup"], parse_path(entry["fieldPath"])
            kept = [
                Index(
                    collection,
                    index["queryScope"] == "COLLECTION_GROUP",
                    ((path, Kind(index.get("order") or index["arrayConfig"])),),
                )
                for index in entry["indexes"]
            ]
            overrides.append((collection, path, tuple(kept)))
            if entry.get("ttl"):
                ttl.append((collection, path))
        return cls(tuple(indexes), tuple(overrides), tuple(ttl))

    @cached_property
    def _overrides(self) -> dict[tuple[str, Path], frozenset[Index]]:
        return {
            (collection, path): frozenset(index.normalized for index in kept)
            for collection, path, kept in self.overrides
        }

    @cached_property
    def composite(self) -> frozenset[Index]:
        """The composite indexes."""
        return frozenset(
            index.normalized for index in self.indexes if not index.vector and len(index.fields) > 1
        )

    def has_single(self, index: Index) -> bool:
        """Return whether there is this index of a single field."""
        [(path, _)] = index.fields
        for length in range(len(path), 0, -1):
            kept = self._overrides.get((index.collection, path[:length]))
            if kept is not None:
                return length == len(path) and index.normalized in kept
        return not index.group

    def has(self, index: Index) -> bool:
        """Return whether an index is there, defined or automatic."""
        if self.builds_missing:
            return True
        if len(index.fields) == 1 and self.has_single(index):
            return True
        return index.normalized in self.composite or any(
            each.normalized == index.normalized for each in self.indexes
        )

    def vectors(self, collection: str) -> Iterable[Index]:
        """Yield the vector indexes of a collection."""
        return (index for index in self.indexes if index.vector and index.collection == collection)
