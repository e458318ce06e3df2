"""Converts records to Firestore documents and back, so that a field is declared only once.

A record is an instance of a dataclass, which declares the fields. A codec knows where the stored
names and values differ from them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

RecordT = TypeVar("RecordT")
_COLLECTIONS: Final = MappingProxyType({"tuple": tuple, "frozenset": frozenset})
"""The types of fields that are stored as lists, by name."""
_NO_ENTRIES: Final[Mapping[str, Any]] = MappingProxyType({})


_ADDED_MARK: Final = "added"
"""The metadata of a field that `added_field` declares contains this key."""


def added_field(**metadata: Any) -> Any:
    """Declare an optional field that is added to a dataclass after records of it were stored.

    A document omits the field while it is None, instead of storing null, so that existing documents
    and hashes of their fields do not change. An update must delete the fields that
    `Codec.list_absent_names` lists.
    """
    return dataclasses.field(default=None, metadata={_ADDED_MARK: True, **metadata})


class Codec(Generic[RecordT]):
    """Reads and writes the documents of one type of record.

    Attributes:
        names: The stored name of each field, by field name, without the id and inline fields.
    """

    def __init__(
        self,
        kind: type[RecordT],
        id_field: str | None = None,
        *,
        stored_as: Mapping[str, str] = _NO_ENTRIES,
        readers: Mapping[str, Callable[[Any], Any]] = _NO_ENTRIES,
        inline: Mapping[str, Codec[Any]] = _NO_ENTRIES,
    ) -> None:
        """Derive the stored names and the readers of the fields.

        Args:
            kind: The dataclass of the records. Tuple and frozenset fields are stored as lists.
            id_field: The name of the field for the document's id, which is not stored in the
                document. None if the record has no such field, or stores the id like any other
                field.
            stored_as: The stored name of each field whose stored name differs, by field name.
            readers: The functions that convert stored values to field values, by field name, for
                fields that need conversion.
            inline: Codecs of nested records, by field name. Their fields are stored next to the
                outer record's fields.

        Raises:
            ValueError: A name is not a field of the dataclass.
        """
        stored: dict[str, Field[Any]] = {field.name: field for field in fields(cast("Any", kind))}
        mentioned = {*stored_as, *readers, *inline, *([id_field] if id_field else [])}
        if unknown := mentioned - stored.keys():
            raise ValueError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
        for name in (*inline, *([id_field] if id_field else [])):
            del stored[name]
        self._kind = kind
        self._id_field = id_field
        self._inline = inline
        self._fields = stored
        # Annotations are text, such as `tuple[str, ...]`, in modules with postponed evaluation.
        types = {name: str(field.type).partition("[")[0] for name, field in stored.items()}
        collections = {name: _COLLECTIONS.get(kind) for name, kind in types.items()}
        self._readers = {**collections, **readers}
        self.names = {name: stored_as.get(name, name) for name in stored}

    @property
    def stored_names(self) -> tuple[str, ...]:
        """The names to select in a query that reads whole records."""
        inline = [name for codec in self._inline.values() for name in codec.stored_names]
        return (*inline, *self.names.values())

    def read(self, document_id: str, data: Mapping[str, Any]) -> RecordT:
        """Read a record from a document. See `load`."""
        return self.load(data, **({self._id_field: document_id} if self._id_field else {}))

    def load(self, data: Mapping[str, Any], **unstored: Any) -> RecordT:
        """Read a record from fields. Unknown fields, written by a newer version, are ignored.

        A field that is missing or null gets its default. If it has no default, null becomes None.

        Args:
            data: The stored fields, by stored name.
            unstored: Values of the fields that are not stored in the document.

        Raises:
            KeyError: A field without a default is missing.
        """
        values = unstored | {name: codec.load(data) for name, codec in self._inline.items()}
        for name, field in self._fields.items():
            value = data.get(self.names[name])
            if value is not None:
                reader = self._readers[name]
                values[name] = reader(value) if reader else value
            elif not _has_default(field):
                values[name] = data[self.names[name]]
        return self._kind(**values)

    def write(self, record: object, only: Collection[str] | None = None) -> dict[str, Any]:
        """Return the stored fields of a record."""
        stored_values = {
            stored_name: _to_stored_value(getattr(record, name))
            for name, stored_name in self.names.items()
            if (only is None or name in only) and not self._is_absent(name, record)
        }
        for name, codec in self._inline.items():
            if only is None or name in only:
                stored_values |= codec.write(getattr(record, name))
        return stored_values

    def list_absent_names(self, record: object, only: Collection[str] | None = None) -> list[str]:
        """Return the stored names of the added fields that `write` omits. See `added_field`."""
        return [
            stored_name
            for name, stored_name in self.names.items()
            if (only is None or name in only) and self._is_absent(name, record)
        ]

    def _is_absent(self, name: str, record: object) -> bool:
        """Return whether a document omits a field: an added field that is None."""
        return _ADDED_MARK in self._fields[name].metadata and getattr(record, name) is None


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _to_stored_value(value: Any) -> Any:  # noqa: PLR0911 - one return for each kind of value
    """Convert a value to a form that Firestore accepts."""
    match value:
        case Enum():
            return value.value
        case date() if not isinstance(value, datetime):
            return value.isoformat()
        case dict():
            return {key: _to_stored_value(item) for key, item in value.items()}
        case tuple() | list():
            return [_to_stored_value(item) for item in value]
        case AbstractSet():
            return sorted(_to_stored_value(item) for item in value)
        case _ if is_dataclass(value):
            return {
                field.name: _to_stored_value(getattr(value, field.name)) for field in fields(value)
            }
    return value
