"""What a document contributes to indexes: entries of values, and vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.local.embedded_firestore import vectors
from infra.local.embedded_firestore.definitions import Index, Kind
from infra.local.embedded_firestore.documents import get_value
from infra.local.embedded_firestore.values import encode, encode_path, get_vector, invert

if TYPE_CHECKING:
    from collections.abc import Iterable

Entry = tuple[int, int, bytes, bytes]
"""The number of an index, a scope, a value and a name, as in the table `entries`."""
VectorKey = tuple[vectors.Space, bytes]


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """An index with its number in the file."""

    id: int
    index: Index
    is_built: bool


def make_entries(
    indexes: Iterable[StoredIndex], path: str, collection: int, name: bytes, fields: Any
) -> set[Entry]:
    """Return a document's entries in indexes."""
    entries: set[Entry] = set()
    if fields is None:
        return entries
    for stored in indexes:
        if stored.index.vector:
            continue
        heads = [b""]
        for field_path, kind in stored.index.fields:
            value = get_value(fields, field_path)
            parts = set() if value is None else _encode_field(value, kind)
            heads = [head + part for head in heads for part in parts]
        is_group = stored.index.group
        scope, key = (0, make_key(path, name)) if is_group else (collection, name)
        entries |= {(stored.id, scope, head, key) for head in heads}
    return entries


def _encode_field(value: Any, kind: Kind) -> set[bytes]:
    match kind:
        case Kind.ASCENDING:
            return {encode(value)}
        case Kind.DESCENDING:
            return {invert(encode(value))}
    return {encode(member) for member in value.array_value.values}  # none unless it is an array


def make_vectors(
    indexes: Iterable[StoredIndex], path: str, collection: int, name: bytes, fields: Any
) -> dict[VectorKey, list[float]]:
    """Return a document's vectors in vector indexes. The arguments are those of `make_entries`."""
    result: dict[VectorKey, list[float]] = {}
    for stored in indexes:
        if not stored.index.vector:
            continue
        value = None if fields is None else get_value(fields, stored.index.vector)
        components = None if value is None else get_vector(value)
        if components is not None and len(components) == stored.index.dimension:
            key = make_key(path, name) if stored.index.group else name
            space = make_space(stored, None if stored.index.group else collection)
            result[space, key] = components
    return result


def make_space(stored: StoredIndex, collection: int | None) -> vectors.Space:
    """Return where the vectors of a collection, or of a group, are."""
    return vectors.Space(stored.id, b"" if collection is None else b"%d" % collection)


def make_key(path: str, name: bytes) -> bytes:
    """Return the key of a document, which orders it among those of other collections."""
    return encode_path(path)[:-1] + name
