"""The limits of documents, ids and fields, as Firestore documents them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from infra.local.embedded_firestore.definitions import Index, Kind
from infra.local.embedded_firestore.errors import invalid_argument
from infra.local.embedded_firestore.values import encode, get_vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.local.embedded_firestore.definitions import Definitions
    from infra.local.embedded_firestore.documents import Path

MAX_REQUEST_BYTES: Final = 10 * 1_048_576
MAX_DOCUMENT_BYTES: Final = 1_048_576
MAX_ID_BYTES: Final = 1_500
MAX_DEPTH: Final = 20
MAX_TRANSFORMS: Final = 500
MAX_DIMENSION: Final = 2_048
MAX_ENTRIES: Final = 40_000
_ALWAYS_SMALL: Final = MAX_DOCUMENT_BYTES // 16
"""The fields of a document with this many serialized bytes are always small enough: Firestore
counts at most eight times as many, for empty maps in arrays."""


def get_path(root: str, name: str) -> str:
    """Return a document's path, and check its ids."""
    if not name.startswith(root + "/"):
        raise invalid_argument(f'Document name "{name}" is not in this database.')
    path = name.removeprefix(root + "/")
    segments = path.split("/")
    if len(segments) % 2:
        raise invalid_argument(f'Document name "{name}" lacks a collection or an id.')
    for segment in segments:
        check_id(segment)
    return path


def check_id(segment: str) -> None:
    """Check the id of a document or collection."""
    if not segment or segment in {".", ".."}:
        raise invalid_argument(f'"{segment}" cannot be an id.')
    if _is_reserved(segment):
        raise invalid_argument(f'Resource id "{segment}" is invalid because it is reserved.')
    if _is_too_long(segment):
        raise invalid_argument(f"An id has at most {MAX_ID_BYTES:,} bytes.")


def check_fields(fields: Any, depth: int = 1) -> None:
    """Check the names and values of fields."""
    for name in fields:  # `items` is slow on protobuf's maps
        check_field(name, fields[name], depth)


def check_field(name: str, value: Any, depth: int = 1) -> None:
    """Check the name and value of a field."""
    if not name:
        raise invalid_argument("The name of a field is not empty.")
    if _is_reserved(name):
        raise invalid_argument(f'Field name "{name}" is reserved.')
    if _is_too_long(name):
        raise invalid_argument(f"The name of a field has at most {MAX_ID_BYTES:,} bytes.")
    _check_value(value, depth, in_array=False)


def _is_reserved(name: str) -> bool:
    return len(name) >= len("____") and name.startswith("__") and name.endswith("__")


def _is_too_long(name: str) -> bool:
    return len(name) > MAX_ID_BYTES // 4 and len(name.encode()) > MAX_ID_BYTES


def _check_value(value: Any, depth: int, *, in_array: bool) -> None:
    match value.WhichOneof("value_type"):
        case "map_value":
            components = get_vector(value)
            if components is not None:
                check_vector(components)
                if any(map(math.isnan, components)):
                    raise invalid_argument("Vector cannot contain NaN values.")
                return
            if depth >= MAX_DEPTH and value.map_value.fields:
                raise invalid_argument(f"Maps and arrays are at most {MAX_DEPTH} deep.")
            check_fields(value.map_value.fields, depth + 1)
        case "array_value":
            if in_array:
                raise invalid_argument("Nested arrays are not allowed")
            if depth >= MAX_DEPTH and value.array_value.values:
                raise invalid_argument(f"Maps and arrays are at most {MAX_DEPTH} deep.")
            for member in value.array_value.values:
                _check_value(member, depth + 1, in_array=True)


def check_vector(components: Sequence[float]) -> None:
    """Check the dimension of a vector."""
    if not components:
        raise invalid_argument("Cannot have a zero length vector.")
    if len(components) > MAX_DIMENSION:
        raise invalid_argument(f"Vectors must be at most {MAX_DIMENSION} dimensions.")


def check_size(name: str, path: str, body: bytes, fields: Any) -> None:
    """Check a document's size as Firestore counts it, which is slow for all but small ones."""
    if len(body) <= _ALWAYS_SMALL:
        return
    path_size = sum(len(segment.encode()) + 1 for segment in path.split("/")) + 16
    if path_size + 32 + _compute_map_size(fields) > MAX_DOCUMENT_BYTES:
        raise invalid_argument(
            f"Document '{name}' cannot be written because its size exceeds the maximum allowed "
            f"size of {MAX_DOCUMENT_BYTES:,} bytes."
        )


def check_entries(definitions: Definitions, collection: str, fields: Any) -> None:
    """Check the number of entries that a document would have in automatic indexes."""
    count = 0
    pending: list[tuple[Path, Any]] = [((name,), value) for name, value in fields.items()]
    while pending:
        path, value = pending.pop()
        if value.WhichOneof("value_type") == "map_value" and get_vector(value) is None:
            members = value.map_value.fields
            pending += [((*path, name), member) for name, member in members.items()]
        if definitions.has(Index(collection, False, ((path, Kind.ASCENDING),))):  # noqa: FBT003
            count += 2  # ascending and descending
        if definitions.has(Index(collection, False, ((path, Kind.CONTAINS),))):  # noqa: FBT003
            count += len({encode(member) for member in value.array_value.values})
    if count > MAX_ENTRIES:
        raise invalid_argument(
            f"A document of the collection {collection} has {count:,} index entries, more than the "
            f"{MAX_ENTRIES:,} that are allowed. Exempt large fields from indexes."
        )


def _compute_map_size(fields: Any) -> int:
    return sum(len(name.encode()) + 1 + _compute_value_size(fields[name]) for name in fields)


def _compute_value_size(value: Any) -> int:  # noqa: PLR0911 - one for each type
    match value.WhichOneof("value_type"):
        case "string_value":
            return len(value.string_value.encode()) + 1
        case "bytes_value":
            return len(value.bytes_value)
        case "reference_value":
            return len(value.reference_value.encode()) + 1
        case "array_value":
            return sum(map(_compute_value_size, value.array_value.values))
        case "map_value":
            return 32 + _compute_map_size(value.map_value.fields)
        case "geo_point_value":
            return 16
        case "integer_value" | "double_value" | "timestamp_value":
            return 8
    return 1
