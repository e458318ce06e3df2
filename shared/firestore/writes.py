"""The writes that `Database.commit` sends.

A write is a value, so it can be sized, split into commits and inspected before it is sent. A field
may have a value that the database computes, such as `Increment` of `shared.firestore.values`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.field_paths import quote_name, split_path
from shared.firestore.protos import DocumentProto, WriteProto
from shared.firestore.values import (
    DELETE_FIELD,
    SERVER_TIMESTAMP,
    ArrayRemove,
    ArrayUnion,
    Increment,
    encode_into,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from google.api_core.datetime_helpers import DatetimeWithNanoseconds

    from shared.firestore.documents import Document, Reference

    UpdateTime = DatetimeWithNanoseconds | None
    """The update time that a document must still have. None: any."""

_REQUEST_TIME: Final = 1
"""`FieldTransform.ServerValue.REQUEST_TIME`, the only server value there is."""


class Write(ABC):
    """A change of one document, or several changes that belong together."""

    @abstractmethod
    def encode(self, root: str) -> Iterable[Any]:
        """Return the protobufs of the changes."""

    def measure(self) -> int:
        """Return the encoded size in bytes, without the name of the root.

        Raises:
            ValueError: Firestore cannot store one of its values.
        """
        return sum(change.ByteSize() for change in self.encode(""))


@dataclass(frozen=True, slots=True)
class Create(Write):
    """Creates a document, which must not exist."""

    reference: Reference
    fields: dict[str, Any]

    def encode(self, root: str) -> Iterable[Any]:
        """See `Write`."""
        change = _Change(self.fields)
        change.require_no_deletion()
        proto = _encode_change(self.reference, change, root)
        proto.current_document.exists = False
        return [proto]


@dataclass(frozen=True, slots=True)
class Set(Write):
    """Replaces a document, or creates it.

    Attributes:
        merge: Whether other fields are kept. Maps are merged, too, except empty ones.
    """

    reference: Reference
    fields: dict[str, Any]
    merge: bool = False

    def encode(self, root: str) -> Iterable[Any]:
        """See `Write`."""
        change = _Change(self.fields)
        if not self.merge:
            change.require_no_deletion()
        proto = _encode_change(self.reference, change, root)
        if self.merge:
            proto.update_mask.SetInParent()
            proto.update_mask.field_paths.extend(change.leaves)
        return [proto]


@dataclass(frozen=True, slots=True)
class Update(Write):
    """Changes fields of a document, which must exist.

    Attributes:
        fields: The new values by path. A map replaces a map.
        if_unchanged: The update time that the document must still have.
    """

    reference: Reference
    fields: dict[str, Any]
    if_unchanged: UpdateTime = None

    def encode(self, root: str) -> Iterable[Any]:
        """See `Write`."""
        paths = sorted(map(split_path, self.fields))
        if not paths or any(inner[: len(outer)] == outer for outer, inner in pairwise(paths)):
            raise ValueError("An update needs fields, none of which is inside another.")
        for value in self.fields.values():
            if isinstance(value, dict):
                _Change(value).require_no_deletion()
        change = _Change(_nest(self.fields))
        proto = _encode_change(self.reference, change, root)
        proto.update_mask.SetInParent()
        proto.update_mask.field_paths.extend(
            path for path, value in self.fields.items() if not _is_computed(value)
        )
        if self.if_unchanged is None:
            proto.current_document.exists = True
        else:
            proto.current_document.update_time.CopyFrom(self.if_unchanged.timestamp_pb())
        return [proto]


@dataclass(frozen=True, slots=True)
class Delete(Write):
    """Deletes a document.

    Attributes:
        if_unchanged: The update time that the document must still have. None: it may be missing.
    """

    reference: Reference
    if_unchanged: UpdateTime = None

    def encode(self, root: str) -> Iterable[Any]:
        """See `Write`."""
        proto = WriteProto(delete=f"{root}/{self.reference.path}")
        if self.if_unchanged is not None:
            proto.current_document.update_time.CopyFrom(self.if_unchanged.timestamp_pb())
        return [proto]


@dataclass(frozen=True, slots=True)
class Together(Write):
    """Several writes, which are never split across commits."""

    writes: Sequence[Write]

    def encode(self, root: str) -> Iterable[Any]:
        """See `Write`."""
        return chain.from_iterable(write.encode(root) for write in self.writes)


def put_if_unchanged(document: Document, fields: dict[str, Any]) -> Write:
    """Build the write that sets these fields of a document, and keeps the rest.

    It fails if the document has changed since it was read. If it was missing then, the write
    creates it, and no key of `fields` may be a path.
    """
    if not document.exists:
        return Create(document.reference, fields)
    return Update(document.reference, fields, document.update_time)


def delete_if_unchanged(document: Document) -> Write:
    """Build the write that deletes a document. It fails if it has changed since it was read.

    Raises:
        ValueError: The document did not exist then.
    """
    if not document.exists:
        raise ValueError(f"{document.reference.collection_id} has no such document to delete.")
    return Delete(document.reference, document.update_time)


class _Change:
    """What a write stores, deletes and lets the database compute."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.leaves: list[str] = []
        self.computed: dict[str, Any] = {}
        self.has_deletion = False
        self.stored = self._select_stored(fields, "")

    def require_no_deletion(self) -> None:
        """Check that no field is deleted, where that means nothing.

        Raises:
            ValueError: One is.
        """
        if self.has_deletion:
            raise ValueError("Only a merge, or an update by its path, can delete a field.")

    def _select_stored(self, fields: dict[str, Any], prefix: str) -> dict[str, Any]:
        """Add the fields of a map whose path is `prefix`, and return what it stores."""
        stored: dict[str, Any] = {}
        for name, value in fields.items():
            path = prefix + quote_name(name)
            if isinstance(value, dict) and value:
                nested = self._select_stored(value, f"{path}.")
                if nested:
                    stored[name] = nested
            elif _is_computed(value):
                self.computed[path] = value
            else:
                self.leaves.append(path)
                if value is DELETE_FIELD:
                    self.has_deletion = True
                else:
                    stored[name] = value
        return stored


def _nest(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a document whose keys are paths, none of them inside another."""
    nested: dict[str, Any] = {}
    for path, value in fields.items():
        *outer, last = split_path(path)
        target = nested
        for name in outer:
            target = target.setdefault(name, {})
        target[last] = value
    return nested


def _encode_change(reference: Reference, change: _Change, root: str) -> Any:
    proto = WriteProto(update=DocumentProto(name=f"{root}/{reference.path}"))
    for name, value in change.stored.items():
        encode_into(proto.update.fields[name], value, root)
    for path, value in change.computed.items():
        transform = proto.update_transforms.add(field_path=path)
        match value:
            case Increment():
                encode_into(transform.increment, value.value, root)
            case ArrayUnion():
                _encode_items(transform.append_missing_elements, value.values, root)
            case ArrayRemove():
                _encode_items(transform.remove_all_from_array, value.values, root)
            case _:  # SERVER_TIMESTAMP, a singleton
                transform.set_to_server_value = _REQUEST_TIME
    return proto


def _is_computed(value: Any) -> bool:
    return value is SERVER_TIMESTAMP or isinstance(value, (Increment, ArrayUnion, ArrayRemove))


def _encode_items(target: Any, items: Iterable[Any], root: str) -> None:
    target.SetInParent()
    for item in items:
        encode_into(target.values.add(), item, root)
