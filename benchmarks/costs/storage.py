"""The bytes that Firestore bills for documents and index entries.

By the rules of https://firebase.google.com/docs/firestore/storage-size, for documents of top-level
collections; a vector takes 8 bytes for each of its dimensions, in a document and in each entry of a
vector index. That page says nothing of its own about vector indexes, so that they are taken for
composite ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from google.cloud.firestore_v1.vector import Vector

NAME: Final = 16
DOCUMENT: Final = 32
ENTRY: Final = 32
"""The overhead in bytes of a document's name, a document, and an index entry."""
_PLAIN: Final = 8


@dataclass(frozen=True, slots=True)
class Rules:
    """The index rules of a collection.

    Attributes:
        dimension: The length of vectors; those of a laptop are shorter than the cloud's.
        exempt: The fields that are not indexed by themselves; "*" is all of them.
        composite: The fields of each composite index, those of vectors too.
    """

    dimension: int
    exempt: frozenset[str] = frozenset()
    composite: Sequence[Sequence[str]] = field(default_factory=tuple)


def rules_of(indexes: Mapping[str, Any], collection: str, dimension: int) -> Rules:
    """Return the index rules of a collection in `firestore.indexes.json`."""
    overrides = [
        fieldoverride["fieldPath"]
        for fieldoverride in indexes["fieldOverrides"]
        if fieldoverride["collectionGroup"] == collection and not fieldoverride["indexes"]
    ]
    composite = [
        [part["fieldPath"] for part in index["fields"]]
        for index in indexes["indexes"]
        if index["collectionGroup"] == collection
    ]
    return Rules(dimension, frozenset(overrides), composite)


def document_bytes(path: str, data: Mapping[str, Any], rules: Rules) -> int:
    """Return the size of a document."""
    return _name(path) + DOCUMENT + _map(data, rules)


def index_bytes(path: str, data: Mapping[str, Any], rules: Rules) -> int:
    """Return the size of a document's entries in all indexes."""
    alone = sum(
        _single(path, name, value, rules)
        for name, value in data.items()
        if not {name, "*"} & rules.exempt
    )
    return alone + sum(_composite(path, data, fields, rules) for fields in rules.composite)


def _single(path: str, name: str, value: Any, rules: Rules) -> int:
    """The size of the single-field entries: two for a value, or one per element of an array."""
    if isinstance(value, Mapping):
        return sum(_single(path, f"{name}.{key}", item, rules) for key, item in value.items())
    own = _name(path) + ENTRY + _text(name)
    if isinstance(value, list):
        return sum(own + _size(item, rules) for item in value)
    return 0 if isinstance(value, Vector) else 2 * (own + _size(value, rules))


def _composite(path: str, data: Mapping[str, Any], fields: Sequence[str], rules: Rules) -> int:
    """Return the size of the entries in a composite index: one per element of an array field."""
    if not all(name in data for name in fields):
        return 0
    values = [data[name] for name in fields]
    elements = [item for value in values if isinstance(value, list) for item in value] or [None]
    others = sum(_size(value, rules) for value in values if not isinstance(value, list))
    own = _name(path) + ENTRY + others
    return sum(own + (_size(element, rules) if element is not None else 0) for element in elements)


def _name(path: str) -> int:
    return sum(map(_text, path.split("/"))) + NAME


def _text(text: str) -> int:
    return len(text.encode()) + 1


def _map(data: Mapping[str, Any], rules: Rules) -> int:
    return sum(_text(name) + _size(value, rules) for name, value in data.items())


def _size(value: Any, rules: Rules) -> int:
    match value:
        case Vector():
            size = _PLAIN * rules.dimension
        case bool() | None:
            size = 1
        case int() | float() | datetime():
            size = _PLAIN
        case str():
            size = _text(value)
        case bytes():
            size = len(value)
        case Mapping():
            size = _map(value, rules) + DOCUMENT
        case _:
            size = sum(_size(item, rules) for item in value)
    return size
