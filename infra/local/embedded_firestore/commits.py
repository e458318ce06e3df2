"""Commits: preconditions, writes, and the entries and vectors that follow from them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from infra.local.embedded_firestore.definitions import Index
from infra.local.embedded_firestore.documents import apply_mask, apply_transform, parse_path
from infra.local.embedded_firestore.errors import FirestoreError, invalid_argument
from infra.local.embedded_firestore.protos import DocumentProto
from infra.local.embedded_firestore.scans import read_row
from infra.local.embedded_firestore.storage import make_entries, make_name, make_vectors
from infra.local.embedded_firestore.values import ValueProto, get_vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.local.embedded_firestore.storage import Store, StoredIndex

MAX_DOCUMENT_BYTES: Final = 1_048_576
MAX_ID_BYTES: Final = 1_500
MAX_DEPTH: Final = 20
MAX_TRANSFORMS: Final = 500
_RESERVED: Final = re.compile(r"__.*__\Z", re.DOTALL)


@dataclass(slots=True)
class _State:
    """A document during a commit.

    Attributes:
        body: Its fields as stored, or None if it is missing.
        fields: Its fields now, or None if it is missing.
        created: The time of its creation, or None if that is this commit.
    """

    body: bytes | None
    created: int | None
    updated: int | None
    fields: Any = None
    is_recreated: bool = False


@dataclass(slots=True)
class Commit:
    """A commit in progress."""

    store: Store
    root: str
    states: dict[str, _State] = field(default_factory=dict)

    def apply(self, writes: Sequence[Any], response: Any) -> int:
        """Apply writes within a transaction of the writer, and fill in the response.

        Returns:
            The time of the commit in microseconds.
        """
        connection = self.store.writer
        now = self.store.tick(connection)
        server_time = Timestamp()
        server_time.FromMicroseconds(now // 1_000 * 1_000)
        paths = []
        for write in writes:
            result = response.write_results.add()
            paths.append(self._apply_write(write, server_time, result))
        changed = self._save(now)
        for path, write, result in zip(paths, writes, response.write_results, strict=True):
            if write.WhichOneof("operation") == "delete":
                continue
            state = self.states[path]
            moment = now if path in changed else state.updated
            if moment is not None:
                result.update_time.FromMicroseconds(moment)
        response.commit_time.FromMicroseconds(now)
        return now

    def _apply_write(self, write: Any, server_time: Timestamp, result: Any) -> str:
        operation = write.WhichOneof("operation")
        match operation:
            case "update":
                name = write.update.name
            case "delete":
                name = write.delete
            case "transform":
                name = write.transform.document
            case "verify":
                name = write.verify
            case _:
                raise invalid_argument("A write is empty.")
        path = get_path(self.root, name)
        state = self._load(path)
        self._check_precondition(write, path, state, name)
        transforms = list(write.update_transforms)
        match operation:
            case "update":
                check_fields(write.update.fields)
                if write.HasField("update_mask"):
                    masked = [parse_path(each) for each in write.update_mask.field_paths]
                    if state.fields is None:
                        state.fields = DocumentProto()
                    apply_mask(state.fields.fields, write.update.fields, masked)
                else:
                    document = DocumentProto()
                    for key, value in write.update.fields.items():
                        document.fields[key].CopyFrom(value)
                    state.fields = document
            case "delete":
                state.fields = None
                state.is_recreated = True
            case "transform":
                transforms = list(write.transform.field_transforms)
                if state.fields is None:
                    state.fields = DocumentProto()
        if len(transforms) > MAX_TRANSFORMS:
            raise invalid_argument(f"A write has at most {MAX_TRANSFORMS} transforms.")
        for transform in transforms:
            value = apply_transform(state.fields.fields, transform, server_time)
            result.transform_results.add().CopyFrom(value)
        if transforms:
            check_fields(state.fields.fields)
        return path

    def _load(self, path: str) -> _State:
        if path not in self.states:
            row = read_row(self.store, self.store.writer, path)
            if row is None:
                self.states[path] = _State(None, None, None)
            else:
                document = DocumentProto.FromString(row.body)
                self.states[path] = _State(row.body, row.created, row.updated, document)
        return self.states[path]

    def _check_precondition(self, write: Any, path: str, state: _State, name: str) -> None:
        condition = write.current_document
        kind = condition.WhichOneof("condition_type")
        exists = state.fields is not None
        if kind == "exists" and condition.exists != exists:
            if exists:
                raise FirestoreError(
                    grpc.StatusCode.ALREADY_EXISTS, f"Document already exists: {name}"
                )
            raise FirestoreError(grpc.StatusCode.NOT_FOUND, f"No document to update: {name}")
        if kind == "update_time":
            expected = condition.update_time.ToMicroseconds()
            if not exists or state.updated != expected:
                raise FirestoreError(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    f"The update time of {path} is not the required one.",
                )

    def _save(self, now: int) -> set[str]:
        """Store what has changed, and return the changed paths."""
        store = self.store
        connection = store.writer
        changed = set()
        by_collection: dict[str, list[StoredIndex]] = {}
        for stored in store.load_indexes(connection).values():
            by_collection.setdefault(stored.index.collection, []).append(stored)
        for path, state in self.states.items():
            body = (
                None if state.fields is None else state.fields.SerializeToString(deterministic=True)
            )
            if body == state.body and not (state.is_recreated and body is not None):
                continue
            changed.add(path)
            parent, _, document_id = path.rpartition("/")
            collection = store.add_collection(connection, parent)
            name = make_name(document_id)
            if body is None:
                connection.execute(
                    "DELETE FROM documents WHERE collection = ? AND name = ?", (collection, name)
                )
            else:
                if compute_size(path, state.fields.fields) > MAX_DOCUMENT_BYTES:
                    raise invalid_argument(
                        f"Document '{self.root}/{path}' cannot be written because its size "
                        f"exceeds the maximum allowed size of {MAX_DOCUMENT_BYTES:,} bytes."
                    )
                created = now if state.created is None or state.is_recreated else state.created
                connection.execute(
                    "INSERT INTO documents VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                    " body = excluded.body, created = excluded.created, updated = excluded.updated",
                    (collection, name, body, created, now),
                )
            indexes = by_collection.get(parent.rpartition("/")[2], [])
            self._save_entries(indexes, parent, collection, name, state, body, now)
        return changed

    def _save_entries(
        self,
        indexes: list[StoredIndex],
        parent: str,
        collection: int,
        name: bytes,
        state: _State,
        body: bytes | None,
        now: int,
    ) -> None:
        old_document = None if state.body is None else DocumentProto.FromString(state.body)
        old, new = set(), set()
        for stored in indexes:
            if old_document is not None:
                old |= make_entries(stored, parent, collection, name, old_document.fields)
            if state.fields is not None:
                new |= make_entries(stored, parent, collection, name, state.fields.fields)
        self.store.write_entries(old, new)
        if any(stored.index.vector for stored in indexes):
            before = {} if state.body is None else make_vectors(
                indexes, parent, collection, name, state.body
            )
            after = {} if body is None else make_vectors(indexes, parent, collection, name, body)
            self.store.write_vectors(before, after, now)


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
    if _RESERVED.match(segment):
        raise invalid_argument(f'Resource id "{segment}" is invalid because it is reserved.')
    if len(segment.encode()) > MAX_ID_BYTES:
        raise invalid_argument(f"An id has at most {MAX_ID_BYTES:,} bytes.")


def check_fields(fields: Any, depth: int = 1) -> None:
    """Check the names and values of fields."""
    for name, value in fields.items():
        if not name:
            raise invalid_argument("The name of a field is not empty.")
        if _RESERVED.match(name):
            raise invalid_argument(f'Field name "{name}" is reserved.')
        if len(name.encode()) > MAX_ID_BYTES:
            raise invalid_argument(f"The name of a field has at most {MAX_ID_BYTES:,} bytes.")
        _check_value(value, depth, in_array=False)


def _check_value(value: Any, depth: int, *, in_array: bool) -> None:
    match value.WhichOneof("value_type"):
        case "map_value":
            components = get_vector(value)
            if components is not None:
                if not components:
                    raise invalid_argument("Cannot have a zero length vector.")
                if len(components) > 2_048:  # noqa: PLR2004
                    raise invalid_argument("Vectors must be at most 2048 dimensions.")
                if any(number != number for number in components):  # noqa: PLR0124
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


def compute_size(path: str, fields: Any) -> int:
    """Return a document's size as Firestore counts it."""
    name = sum(len(segment.encode()) + 1 for segment in path.split("/")) + 16
    return name + 32 + _compute_map_size(fields)


def _compute_map_size(fields: Any) -> int:
    return sum(len(name.encode()) + 1 + _compute_value_size(fields[name]) for name in fields)


def _compute_value_size(value: Any) -> int:
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
