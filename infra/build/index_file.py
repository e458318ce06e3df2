"""Reads the indexes that `firestore.indexes.json` declares.

"Cloud Firestore Index Definition Reference" (Firebase documentation) describes the format:
`indexes` lists composite and vector indexes, and each entry in `fieldOverrides` replaces the
automatic indexes of a field.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from infra.build.query_shape import NAME, QueryScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class IndexMode(StrEnum):
    """The way in which an index stores a field."""

    ASCENDING = "ASCENDING"
    DESCENDING = "DESCENDING"
    CONTAINS = "CONTAINS"
    VECTOR = "VECTOR"


class IndexField(NamedTuple):
    """A field of an index. Its `dimension` is 0 unless its mode is VECTOR."""

    path: str
    mode: IndexMode = IndexMode.ASCENDING
    dimension: int = 0


class Index(NamedTuple):
    """An index. Two indexes are equal if Firestore treats them as one.

    Build an index with `Index.of`, which leaves out the `__name__` that Firestore adds by itself.
    """

    collection: str
    scope: QueryScope
    fields: tuple[IndexField, ...]

    @classmethod
    def of(cls, collection: str, scope: QueryScope, fields: Iterable[IndexField]) -> Index:
        """Return an index of these fields, without the `__name__` that Firestore adds."""
        complete_fields = tuple(fields)
        bare = cls(
            collection, scope, tuple(field for field in complete_fields if field.path != NAME)
        )
        is_implied = bare.is_vector or (bare.fields and bare.complete == complete_fields)
        return bare if is_implied else cls(collection, scope, complete_fields)

    @property
    def complete(self) -> tuple[IndexField, ...]:
        """The fields by which entries are sorted, including `__name__` unless one is a vector.

        "By default, the `__name__` field is sorted in the same direction of the last sorted field
        in the index definition" ("Index types in Cloud Firestore", Firebase documentation).
        """
        if self.is_vector or self.fields[-1].path == NAME:
            return self.fields
        modes = [field.mode for field in self.fields if field.mode is not IndexMode.CONTAINS]
        return (*self.fields, IndexField(NAME, modes[-1] if modes else IndexMode.ASCENDING))

    @property
    def is_vector(self) -> bool:
        """Whether the index serves nearest-neighbour queries."""
        return any(field.mode is IndexMode.VECTOR for field in self.fields)

    @property
    def is_single_field(self) -> bool:
        """Whether the index belongs under `fieldOverrides`, not under `indexes`."""
        return len(self.fields) == 1 and self.fields[0].path != NAME and not self.is_vector

    def to_json(self) -> dict[str, Any]:
        """Return the index's entry under `indexes`."""
        return {
            "collectionGroup": self.collection,
            "queryScope": str(self.scope),
            "fields": [{"fieldPath": field.path} | _to_mode_json(field) for field in self.fields],
        }

    def __str__(self) -> str:
        """Describe the index in one line."""
        fields = ", ".join(f"{field.path} {field.mode}" for field in self.fields)
        return f"{self.collection} ({self.scope}): {fields}"


_AUTOMATIC: Final = (IndexMode.ASCENDING, IndexMode.DESCENDING, IndexMode.CONTAINS)
"""The modes of the indexes that Firestore creates for each field."""


@dataclass(frozen=True)
class IndexFile:
    """The content of `firestore.indexes.json`.

    Attributes:
        composites: The entries under `indexes`.
        overrides: The single-field indexes that replace the automatic ones, by collection and field
            path. A field that is exempt from indexing has an empty set.
    """

    composites: frozenset[Index]
    overrides: Mapping[tuple[str, str], frozenset[Index]]

    @classmethod
    def parse(cls, text: str) -> IndexFile:
        """Parse the file's text.

        Raises:
            KeyError: An entry lacks a field that the format requires.
            ValueError: The text is not JSON, or names an unknown scope or mode.
        """
        content = json.loads(text)
        entries = content.get("fieldOverrides", [])
        return cls(
            composites=frozenset(map(_parse_composite, content.get("indexes", []))),
            overrides={
                (entry["collectionGroup"], entry["fieldPath"]): _parse_override(entry)
                for entry in entries
                if "indexes" in entry
            },
        )

    def list_single_field_indexes(self, collection: str, path: str) -> frozenset[Index]:
        """List the single-field indexes of a field, whether automatic or declared.

        By default, a field has an ascending, a descending and an array-contains index for a
        collection, and none for a collection group. A subfield inherits the override of the map
        that contains it, and every field inherits the override of `*` ("Index types in Cloud
        Firestore", "Automatic indexes" and "Automatic index exemptions").
        """
        for declared in (*_list_with_parents(path), "*"):
            if (collection, declared) in self.overrides:
                return frozenset(
                    index._replace(fields=(index.fields[0]._replace(path=path),))
                    for index in self.overrides[collection, declared]
                )
        if path == NAME:
            return frozenset()
        return frozenset(
            Index(collection, QueryScope.COLLECTION, (IndexField(path, mode),))
            for mode in _AUTOMATIC
        )

    def build_additions(self, indexes: Iterable[Index]) -> dict[str, Any]:
        """Build the entries to add to the file for these indexes, with complete overrides."""
        composites = []
        overrides = dict[tuple[str, str], set[Index]]()
        for index in sorted(indexes):
            if index.is_single_field:
                field = index.collection, index.fields[0].path
                overrides.setdefault(field, set(self.list_single_field_indexes(*field))).add(index)
            else:
                composites.append(index.to_json())
        return {
            "indexes": composites,
            "fieldOverrides": [_to_override_json(*field, overrides[field]) for field in overrides],
        }


def _parse_composite(entry: dict[str, Any]) -> Index:
    fields = [_parse_field(field["fieldPath"], field) for field in entry["fields"]]
    return Index.of(entry["collectionGroup"], QueryScope(entry["queryScope"]), fields)


def _parse_override(entry: dict[str, Any]) -> frozenset[Index]:
    """Return the indexes that replace the automatic ones of a field."""
    return frozenset(
        Index(
            entry["collectionGroup"],
            QueryScope(index.get("queryScope", QueryScope.COLLECTION)),
            (_parse_field(entry["fieldPath"], index),),
        )
        for index in entry["indexes"]
    )


def _parse_field(path: str, entry: dict[str, Any]) -> IndexField:
    if "vectorConfig" in entry:
        return IndexField(path, IndexMode.VECTOR, int(entry["vectorConfig"]["dimension"]))
    return IndexField(path, IndexMode(entry.get("arrayConfig") or entry["order"]))


def _to_mode_json(field: IndexField) -> dict[str, Any]:
    if field.mode is IndexMode.VECTOR:
        return {"vectorConfig": {"dimension": field.dimension, "flat": {}}}
    return {"arrayConfig" if field.mode is IndexMode.CONTAINS else "order": str(field.mode)}


def _to_override_json(collection: str, path: str, indexes: Iterable[Index]) -> dict[str, Any]:
    return {
        "collectionGroup": collection,
        "fieldPath": path,
        "indexes": [
            {"queryScope": str(index.scope)} | _to_mode_json(index.fields[0])
            for index in sorted(indexes)
        ],
    }


def _list_with_parents(path: str) -> list[str]:
    """Return the path of a field and those of the maps that contain it, from the inside out."""
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
