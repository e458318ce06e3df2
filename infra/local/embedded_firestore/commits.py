"""Commits: preconditions, writes and transforms, and the entries that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from infra.local.embedded_firestore.documents import apply_mask, apply_transform, parse_path
from infra.local.embedded_firestore.entries import make_entries, make_vectors
from infra.local.embedded_firestore.errors import FirestoreError, invalid_argument
from infra.local.embedded_firestore.limits import (
    MAX_ENTRIES,
    MAX_TRANSFORMS,
    check_entries,
    check_field,
    check_fields,
    check_size,
    get_path,
)
from infra.local.embedded_firestore.protos import CommitResponse, DocumentProto
from infra.local.embedded_firestore.scans import read_document
from infra.local.embedded_firestore.values import encode_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from infra.local.embedded_firestore.scans import Row
    from infra.local.embedded_firestore.storage import Store


@dataclass(slots=True)
class _State:
    """A document during a commit.

    Attributes:
        row: The document as stored, or None if it is missing.
        document: The document as it is to be, or None if it is to be missing.
        is_deleted: Whether a write has deleted it, so that another creates it anew.
    """

    row: Row | None
    document: Any = None
    is_deleted: bool = False


def commit(store: Store, root: str, writes: Iterable[Any]) -> Any:
    """Apply writes within a transaction of the writer, and return a `CommitResponse`.

    Args:
        store: The database.
        root: The name that the names of documents begin with.
        writes: The writes.

    Raises:
        FirestoreError: A precondition fails, or a write is not valid.
    """
    return _Commit(store, root, store.tick()).apply(writes)


@dataclass(slots=True)
class _Commit:
    store: Store
    root: str
    now: int
    states: dict[str, _State] = field(default_factory=dict)

    def apply(self, writes: Iterable[Any]) -> Any:
        response = CommitResponse()
        response.commit_time.FromMicroseconds(self.now)
        server_time = Timestamp()
        server_time.FromMicroseconds(self.now // 1_000 * 1_000)
        paths = []
        for write in writes:
            result = response.write_results.add()
            operation, path = self._read_operation(write)
            paths.append(path)
            state = self._load(path)
            self._check_precondition(write.current_document, state, f"{self.root}/{path}")
            transforms = write.update_transforms
            match operation:
                case "update":
                    _update(state, write)
                case "delete":
                    state.document = None
                    state.is_deleted = True
                case "transform":
                    transforms = write.transform.field_transforms
            _transform(state, transforms, server_time, result)
        changed = {path for path, state in self.states.items() if self._save(path, state)}
        for path, result in zip(paths, response.write_results, strict=True):
            state = self.states[path]
            if path in changed and state.document is not None:
                result.update_time.FromMicroseconds(self.now)
            elif path not in changed and state.row:
                result.update_time.FromMicroseconds(state.row.updated)
        return response

    def _read_operation(self, write: Any) -> tuple[str, str]:
        """Return what a write does, and the path of its document."""
        operation = write.WhichOneof("operation")
        match operation:
            case "update":
                name = write.update.name
            case "delete":
                name = write.delete
            case "transform":
                name = write.transform.document
            case _:
                raise invalid_argument("A write is empty.")
        return operation, get_path(self.root, name)

    def _load(self, path: str) -> _State:
        state = self.states.get(path)
        if state is None:
            row = read_document(self.store, self.store.writer, path)
            document = DocumentProto.FromString(row.body) if row else None
            state = self.states[path] = _State(row, document)
        return state

    def _check_precondition(self, condition: Any, state: _State, name: str) -> None:
        exists = state.document is not None
        match condition.WhichOneof("condition_type"):
            case "exists" if condition.exists and not exists:
                raise FirestoreError(grpc.StatusCode.NOT_FOUND, f"No document to update: {name}")
            case "exists" if exists and not condition.exists:
                raise FirestoreError(
                    grpc.StatusCode.ALREADY_EXISTS, f"Document already exists: {name}"
                )
            case "update_time":
                expected = condition.update_time.ToMicroseconds()
                if expected > self.now:
                    raise invalid_argument("The required update time is in the future.")
                if not exists or state.row is None or state.row.updated != expected:
                    raise FirestoreError(
                        grpc.StatusCode.FAILED_PRECONDITION,
                        f"The last update of {name} is not at the required time.",
                    )

    def _save(self, path: str, state: _State) -> bool:
        """Store a document if it has changed, and return whether it has."""
        row, document = state.row, state.document
        body = None if document is None else document.SerializeToString(deterministic=True)
        if body == (row.body if row else None) and not (
            row and body is not None and state.is_deleted
        ):
            return False
        store, writer = self.store, self.store.writer
        parent, _, document_id = path.rpartition("/")
        collection = store.add_collection(parent)
        collection_id = parent.rpartition("/")[2]
        name = encode_path(document_id)
        if body is None:
            writer.execute(
                "DELETE FROM documents WHERE collection = ? AND name = ?", (collection, name)
            )
        else:
            check_size(f"{self.root}/{path}", path, body, document.fields)
            if len(body) >= MAX_ENTRIES:  # a smaller one has fewer
                check_entries(store.definitions, collection_id, document.fields)
            created = self.now if row is None or state.is_deleted else row.created
            writer.execute(
                "INSERT INTO documents VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                " created = excluded.created, updated = excluded.updated, body = excluded.body",
                (collection, name, created, self.now, body),
            )
        indexes = store.list_indexes(collection_id)
        if indexes:
            old = DocumentProto.FromString(row.body).fields if row else None
            new = None if document is None else document.fields
            where = (indexes, parent, collection, name)
            store.write_entries(make_entries(*where, old), make_entries(*where, new))
            store.write_vectors(make_vectors(*where, old), make_vectors(*where, new), self.now)
        return True


def _update(state: _State, write: Any) -> None:
    check_fields(write.update.fields)
    if not write.HasField("update_mask"):
        state.document = DocumentProto(fields=write.update.fields)
        return
    if state.document is None:
        state.document = DocumentProto()
    mask = [parse_path(path) for path in write.update_mask.field_paths]
    apply_mask(state.document.fields, write.update.fields, mask)


def _transform(state: _State, transforms: Any, server_time: Timestamp, result: Any) -> None:
    if not transforms:
        return
    if len(transforms) > MAX_TRANSFORMS:
        raise invalid_argument(f"A write has at most {MAX_TRANSFORMS} transforms.")
    if state.document is None:
        state.document = DocumentProto()
    fields = state.document.fields
    for transform in transforms:
        path = parse_path(transform.field_path)
        result.transform_results.append(apply_transform(fields, path, transform, server_time))
        check_field(path[0], fields[path[0]])
