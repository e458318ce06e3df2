"""The bytes that Firestore bills for documents and index entries.

The rules are those of https://firebase.google.com/docs/firestore/storage-size for documents in
top-level collections. A vector takes 8 bytes per dimension, in a document and in each vector index
entry. That page does not mention vector indexes; they are treated as composite indexes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from google.cloud.firestore_v1.vector import Vector

NAME_OVERHEAD: Final = 16
DOCUMENT_OVERHEAD: Final = 32
ENTRY_OVERHEAD: Final = 32
_SCALAR_BYTES: Final = 8
"""The bytes of a number or a timestamp."""


@dataclass(frozen=True, slots=True)
class IndexRules:
    """The index rules of a collection.

    Attributes:
        dimension: The dimension of vectors in the cloud. The measured documents may have another.
        exempt: Fields without single-field indexes; "*" stands for all fields.
        composite: The fields of each composite index or vector index.
    """

    dimension: int
    exempt: frozenset[str] = frozenset()
    composite: Sequence[Sequence[str]] = field(default_factory=tuple)


def load_index_rules(indexes: Mapping[str, Any], collection: str, dimension: int) -> IndexRules:
    """Return the index rules of a collection in `firestore.indexes.json`."""
    overrides = [
        override["fieldPath"]
        for override in indexes["fieldOverrides"]
        if override["collectionGroup"] == collection and not override["indexes"]
    ]
    composite = [
        [part["fieldPath"] for part in index["fields"]]
        for index in indexes["indexes"]
        if index["collectionGroup"] == collection
    ]
    return IndexRules(dimension, frozenset(overrides), composite)


def count_document_bytes(path: str, data: Mapping[str, Any], index_rules: IndexRules) -> int:
    """Return the size of a document."""
    return _count_name_bytes(path) + DOCUMENT_OVERHEAD + _count_map_bytes(data, index_rules)


def count_index_bytes(path: str, data: Mapping[str, Any], index_rules: IndexRules) -> int:
    """Return the size of a document's entries in all indexes."""
    single_field = sum(
        _count_single_field_bytes(path, name, value, index_rules)
        for name, value in data.items()
        if not {name, "*"} & index_rules.exempt
    )
    return single_field + sum(
        _count_composite_bytes(path, data, fields, index_rules) for fields in index_rules.composite
    )


def _count_single_field_bytes(path: str, name: str, value: Any, index_rules: IndexRules) -> int:
    """Return the size of the single-field entries: two per value, one per array element."""
    if isinstance(value, Mapping):
        return sum(
            _count_single_field_bytes(path, f"{name}.{key}", item, index_rules)
            for key, item in value.items()
        )
    entry_bytes = _count_name_bytes(path) + ENTRY_OVERHEAD + _count_text_bytes(name)
    if isinstance(value, list):
        return sum(entry_bytes + _count_value_bytes(item, index_rules) for item in value)
    return (
        0
        if isinstance(value, Vector)
        else 2 * (entry_bytes + _count_value_bytes(value, index_rules))
    )


def _count_composite_bytes(
    path: str, data: Mapping[str, Any], fields: Sequence[str], index_rules: IndexRules
) -> int:
    """Return the size of the entries in a composite index: one per element of an array field."""
    if not all(name in data for name in fields):
        return 0
    values = [data[name] for name in fields]
    arrays = [value for value in values if isinstance(value, list)]
    other_values = [value for value in values if not isinstance(value, list)]
    entry_bytes = _count_name_bytes(path) + ENTRY_OVERHEAD
    entry_bytes += sum(_count_value_bytes(value, index_rules) for value in other_values)
    elements = [element for array in arrays for element in array]
    if not elements:
        return entry_bytes
    return sum(entry_bytes + _count_value_bytes(element, index_rules) for element in elements)


def _count_name_bytes(path: str) -> int:
    return sum(map(_count_text_bytes, path.split("/"))) + NAME_OVERHEAD


def _count_text_bytes(text: str) -> int:
    return len(text.encode()) + 1


def _count_map_bytes(data: Mapping[str, Any], index_rules: IndexRules) -> int:
    return sum(
        _count_text_bytes(name) + _count_value_bytes(value, index_rules)
        for name, value in data.items()
    )


def _count_value_bytes(value: Any, index_rules: IndexRules) -> int:
    match value:
        case Vector():
            size = _SCALAR_BYTES * index_rules.dimension
        case bool() | None:
            size = 1
        case int() | float() | datetime():
            size = _SCALAR_BYTES
        case str():
            size = _count_text_bytes(value)
        case bytes():
            size = len(value)
        case Mapping():
            size = _count_map_bytes(value, index_rules) + DOCUMENT_OVERHEAD
        case _:
            size = sum(_count_value_bytes(item, index_rules) for item in value)
    return size
