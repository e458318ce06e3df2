"""Documents as they were read, and the addresses of documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from google.api_core.datetime_helpers import DatetimeWithNanoseconds

from shared.firestore.field_paths import split_path


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """The address of a document.

    Attributes:
        collection: The path of its collection, such as `chunks` or `users/ann/tasks`.
        id: The id of the document in its collection.
    """

    collection: str
    id: str

    @classmethod
    def parse(cls, path: str) -> Self:
        """Return the address of the document at `path`."""
        return cls(*path.rsplit("/", 1))

    @property
    def path(self) -> str:
        """The path of the document, such as `users/ann/tasks/7`."""
        return f"{self.collection}/{self.id}"

    @property
    def collection_id(self) -> str:
        """The last name in the collection's path, such as `tasks`."""
        return self.collection.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it was when it was read, or the fact that it did not exist then.

    Attributes:
        fields: The fields that were read. None of them if the document did not exist.
        update_time: The time of the document's last change, or None if it did not exist. A write
            can require that the time is still the same.
        read_time: The database's time of the read.
    """

    reference: Reference
    fields: dict[str, Any] = field(repr=False)
    update_time: DatetimeWithNanoseconds | None
    read_time: DatetimeWithNanoseconds

    @property
    def id(self) -> str:
        """The id of the document in its collection."""
        return self.reference.id

    @property
    def exists(self) -> bool:
        """Whether the document existed."""
        return self.update_time is not None

    def get(self, path: str) -> Any:
        """Return a field, which may be nested: `card.title`. None if the document did not exist.

        Raises:
            KeyError: The document has no such field.
        """
        value: Any = self.fields
        for name in split_path(path) if self.exists else ():
            value = value[name]
        return value if self.exists else None


def to_time(timestamp: Any) -> DatetimeWithNanoseconds:
    """Return the time of a protobuf."""
    time: DatetimeWithNanoseconds = DatetimeWithNanoseconds.from_timestamp_pb(timestamp)
    return time


def get_fields(document: Document | None) -> dict[str, Any]:
    """Return the fields of a document, if there is one."""
    return document.fields if document else {}
