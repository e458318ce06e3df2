"""Dataclasses as Firestore documents: a field is declared once, on its dataclass."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

RecordT = TypeVar("RecordT")
ADDED: Final = MappingProxyType({"added": True})
"""Metadata of an optional field that came after the first layout of its documents. While it is
None it is not written, so that documents without it stay as they are: no layout version rises."""
_COLLECTIONS: Final = MappingProxyType({"tuple": tuple, "frozenset": frozenset})
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Codec(Generic[RecordT]):
    """Reads and writes documents of one kind.

    Attributes:
        names: The stored name of each field, by the field's name; not of the id, nor of what is
            inline.
    """

    def __init__(
        self,
        kind: type[RecordT],
        id_field: str | None = None,
        *,
        stored_as: Mapping[str, str] = _NOTHING,
        read: Mapping[str, Callable[[Any], Any]] = _NOTHING,
        inline: Mapping[str, Codec[Any]] = _NOTHING,
    ) -> None:
        """Declare how records are stored.

        Args:
            kind: Their dataclass. What is annotated as a tuple or a frozenset is stored as a list.
            id_field: The field that holds a document's id, and is not stored in it; None: the id is
                no field, or is stored like any other.
            stored_as: Stored names that differ from the fields' names.
            read: What makes a field's value of the stored one, where that is no plain value.
            inline: Fields that hold a record whose own fields stand beside the others.

        Raises:
            ValueError: A name is no field of the dataclass.
        """
        stored: dict[str, Field[Any]] = {field.name: field for field in _fields(kind)}
        named = {*stored_as, *read, *inline, *([id_field] if id_field else [])}
        if unknown := named - stored.keys():
            raise ValueError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
        for name in (*inline, *([id_field] if id_field else [])):
            del stored[name]
        self._kind = kind
        self._id_field = id_field
        self._inline = inline
        self._fields = stored
        self._readers = {name: _collection(field) for name, field in stored.items()} | dict(read)
        self.names = {name: stored_as.get(name, name) for name in stored}

    @property
    def stored_names(self) -> tuple[str, ...]:
        """What to select in a query to read whole records."""
        inline = [name for codec in self._inline.values() for name in codec.stored_names]
        return (*inline, *self.names.values())

    def read(self, document_id: str, data: Mapping[str, Any]) -> RecordT:
        """Read a record with its id. See `load`."""
        return self.load(data, **({self._id_field: document_id} if self._id_field else {}))

    def load(self, data: Mapping[str, Any], **given: Any) -> RecordT:
        """Read a record; what is missing or null takes the field's default, if it has one.

        What a newer version of Carrel wrote beside it is passed over.

        Args:
            data: The fields as they are stored.
            given: Fields that are not stored there.

        Raises:
            KeyError: A field without a default is missing.
        """
        values = given | {name: codec.load(data) for name, codec in self._inline.items()}
        for name, field in self._fields.items():
            value = data.get(self.names[name])
            if value is not None:
                reader = self._readers[name]
                values[name] = reader(value) if reader else value
            elif not _has_default(field):
                values[name] = data[self.names[name]]
        return self._kind(**values)

    def write(self, record: object, only: Collection[str] | None = None) -> dict[str, Any]:
        """The fields of a record as they are stored, or only some of them.

        Args:
            record: A record, or anything that has the attributes.
            only: Names of fields; by default all.
        """
        values = {
            name: getattr(record, name) for name in self.names if only is None or name in only
        }
        written = {
            self.names[name]: _plain(value)
            for name, value in values.items()
            if value is not None or not self._fields[name].metadata.get("added")
        }
        for name, codec in self._inline.items():
            if only is None or name in only:
                written |= codec.write(getattr(record, name))
        return written


def _fields(kind: type[Any]) -> tuple[Field[Any], ...]:
    return fields(kind)


def _collection(field: Field[Any]) -> Callable[[Any], Any] | None:
    """What makes a collection of a list, by the annotation, which is a string at run time."""
    return _COLLECTIONS.get(str(field.type).partition("[")[0])


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _plain(value: Any) -> Any:  # noqa: PLR0911 - one for each kind
    """A value as Firestore takes it."""
    match value:
        case Enum():
            return value.value
        case date() if not isinstance(value, datetime):
            return value.isoformat()
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case tuple() | list():
            return [_plain(item) for item in value]
        case AbstractSet():
            return sorted(_plain(item) for item in value)
        case _ if is_dataclass(value):
            return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value
