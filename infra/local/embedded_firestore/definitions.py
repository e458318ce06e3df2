"""Index definitions: which indexes a database has, as in `firestore.indexes.json`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from infra.local.embedded_firestore.documents import Path, format_path, parse_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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

_NAME: Final = "__name__"


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a collection or collection group.

    Its entries are ordered by its fields and then by name, ascending. An index that has names in
    descending order is stored as its reverse, and read backwards: `a ASC, b DESC, name DESC` as
    `a DESC, b ASC, name ASC`.

    Attributes:
        collection: The id of the collections, or empty for all.
        group: Whether it orders all collections of this id together.
        fields: The fields, the vector excepted. Without any, the index orders names.
        vector: The path of the vector, if it is a vector index.
        dimension: The vector's dimension. 0 in a definition stands for any.
    """

    collection: str
    group: bool
    fields: tuple[Field, ...]
    vector: Path | None = None
    dimension: int = 0

    def to_json(self, *, reverse: bool = False) -> dict[str, Any]:
        """Return the entry of `firestore.indexes.json`, all directions reversed if `reverse`."""
        turned = tuple((path, kind.flipped if reverse else kind) for path, kind in self.fields)
        fields: list[dict[str, Any]] = [
            {"fieldPath": format_path(path), "arrayConfig": "CONTAINS"}
            if kind is Kind.CONTAINS
            else {"fieldPath": format_path(path), "order": kind.value}
            for path, kind in turned
        ]
        names = Kind.DESCENDING if reverse else Kind.ASCENDING
        if turned and turned[0][0] != (_NAME,) and names is not _get_direction(turned):
            fields.append({"fieldPath": _NAME, "order": names.value})
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
        """Read an entry of `firestore.indexes.json`, optionally with another dimension, or 0."""
        return cls.read(entry, dimension)[0]

    @classmethod
    def read(cls, entry: Mapping[str, Any], dimension: int | None) -> tuple[Index, bool]:
        """Read an entry. Returns the index as stored, and whether the entry is its reverse."""
        fields: list[Field] = []
        vector, size, names = None, 0, None
        for part in entry["fields"]:
            path = parse_path(part["fieldPath"])
            if "vectorConfig" in part:
                vector = path
                size = part["vectorConfig"]["dimension"] if dimension is None else dimension
            elif part["fieldPath"] == _NAME:
                names = _read_kind(part)
            else:
                fields.append((path, _read_kind(part)))
        is_reversed = False
        if names is Kind.DESCENDING and not (fields or vector):
            fields = [((_NAME,), names)]  # which nothing but a query without filters needs
        elif (names or _get_direction(fields)) is Kind.DESCENDING:
            fields = [(path, kind.flipped) for path, kind in fields]
            is_reversed = True
        group = entry["queryScope"] == "COLLECTION_GROUP"
        return cls(entry["collectionGroup"], group, tuple(fields), vector, size), is_reversed


def _get_filters(index: Index) -> set[tuple[Path, bool]]:
    return {(path, kind is Kind.CONTAINS) for path, kind in index.fields}


def _get_direction(fields: Sequence[Field]) -> Kind:
    """Return the direction in which names follow."""
    descends = bool(fields) and fields[-1][1] is Kind.DESCENDING
    return Kind.DESCENDING if descends else Kind.ASCENDING


def _read_kind(entry: Mapping[str, Any]) -> Kind:
    return Kind(entry.get("order") or entry["arrayConfig"])


@dataclass(frozen=True)
class Definitions:
    """The indexes of a database.

    Attributes:
        indexes: The composite and vector indexes, each with whether its names descend. Production
            reads no index backwards, so a query needs the index of its own direction.
        overrides: The single-field indexes of a field that replace its automatic ones, by
            collection and field path. Each says whether it is of the collection group, and how
            the field is indexed. The path `*` stands for all other fields of the collection.
        ttl: Collections and fields with the time at which a document is deleted.
        builds_missing: Whether a query gets an index that is not defined. For tests.
        eager: Indexes that a new file has from its first document on. The first query that needs
            another waits until it is built.
    """

    indexes: frozenset[tuple[Index, bool]] = frozenset()
    overrides: Mapping[tuple[str, Path], frozenset[tuple[bool, Kind]]] = field(default_factory=dict)
    ttl: tuple[tuple[str, Path], ...] = ()
    builds_missing: bool = False
    eager: frozenset[Index] = frozenset()

    @classmethod
    def read(cls, file: FilePath, dimension: int | None = None) -> Definitions:
        """Read `firestore.indexes.json`, optionally with another dimension of vectors, or 0."""
        return cls.from_json(json.loads(file.read_text("utf-8")), dimension)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], dimension: int | None = None) -> Definitions:
        """Read the contents of `firestore.indexes.json`."""
        overrides = {}
        ttl = []
        for entry in data.get("fieldOverrides", ()):
            path = parse_path(entry["fieldPath"])
            overrides[entry["collectionGroup"], path] = frozenset(
                (part["queryScope"] == "COLLECTION_GROUP", _read_kind(part))
                for part in entry["indexes"]
            )
            if entry.get("ttl"):
                ttl.append((entry["collectionGroup"], path))
        indexes = frozenset(Index.read(entry, dimension) for entry in data.get("indexes", ()))
        return cls(indexes, overrides, tuple(ttl))

    @cached_property
    def composite(self) -> dict[tuple[str, bool, bool], frozenset[Index]]:
        """The indexes of several fields, by collection, and whether of its group and descending."""
        groups: dict[tuple[str, bool, bool], set[Index]] = {}
        for index, descends in self.indexes:
            if not index.vector:
                groups.setdefault((index.collection, index.group, descends), set()).add(index)
        return {key: frozenset(indexes) for key, indexes in groups.items()}

    def has(self, index: Index, *, descends: bool | None = None) -> bool:
        """Return whether an index is there, defined or automatic.

        Args:
            index: The index.
            descends: Whether with descending names. By default, either will do.
        """
        if self.builds_missing or not (index.fields or index.vector):
            return True
        if index.vector:
            return any(
                replace(
                    defined,
                    fields=index.fields,
                    dimension=defined.dimension or index.dimension,
                )
                == index
                and (not index.fields or _get_filters(defined) == _get_filters(index))
                for defined, _ in self.indexes
            )
        directions = (False, True) if descends is None else (descends,)
        return any(
            (index, direction) in self.indexes
            or (len(index.fields) == 1 and self._has_automatic(index, descends=direction))
            for direction in directions
        )

    def _has_automatic(self, index: Index, *, descends: bool) -> bool:
        """Return whether a single field is indexed. What holds for a map holds for its fields."""
        [(path, kind)] = index.fields
        if kind is Kind.DESCENDING or (kind is Kind.CONTAINS and descends):
            return False  # names have the direction of the field
        lengths = range(len(path), 0, -1)
        for outer in (*(path[:length] for length in lengths), ("*",)):
            kept = self.overrides.get((index.collection, outer))
            if kept is not None:
                return (index.group, kind.flipped if descends else kind) in kept
        return not index.group

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what decides which indexes may exist, to notice that it has changed."""
        overrides = sorted(
            (collection, path, sorted((group, kind.value) for group, kind in kinds))
            for (collection, path), kinds in self.overrides.items()
        )
        parts = [sorted(map(repr, self.indexes)), overrides, self.builds_missing]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
