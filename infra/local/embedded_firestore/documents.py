"""Changes of a document: field paths, masks and transforms, on protobuf messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from infra.local.embedded_firestore.errors import invalid_argument
from infra.local.embedded_firestore.protos import ValueProto
from infra.local.embedded_firestore.values import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

Path = tuple[str, ...]
"""A field path: the names of fields from the outside in."""

_SEGMENT: Final = re.compile(r"`((?:[^`\\]|\\.)*)`|([^.`]+)")
_SIMPLE: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")
_TOP: Final = 2**63 - 1
_BOTTOM: Final = -(2**63)


def parse_path(text: str) -> Path:
    """Split a field path, whose names may stand in back quotes."""
    names = text.split(".")
    if "`" not in text and all(names):
        return tuple(names)
    names = []
    position = 0
    while True:
        match = _SEGMENT.match(text, position)
        if not match:
            raise invalid_argument(f'Invalid property path "{text}".')
        quoted, plain = match.groups()
        names.append(re.sub(r"\\(.)", r"\1", quoted) if plain is None else plain)
        position = match.end()
        if position == len(text):
            return tuple(names)
        if text[position] != ".":
            raise invalid_argument(f'Invalid property path "{text}".')
        position += 1


def format_path(path: Path) -> str:
    """Return a field path as text, with back quotes where they are needed."""
    return ".".join(
        name if _SIMPLE.match(name) else "`" + re.sub(r"([`\\])", r"\\\1", name) + "`"
        for name in path
    )


def get_value(fields: Any, path: Path) -> Any | None:
    """Return the value at a path, or None if there is none."""
    *outer, last = path
    for name in outer:
        if name not in fields or fields[name].WhichOneof("value_type") != "map_value":
            return None
        fields = fields[name].map_value.fields
    return fields[last] if last in fields else None  # noqa: SIM401 - `get` makes an entry


def set_value(fields: Any, path: Path, value: Any) -> None:
    """Set the value at a path. What stands in the way becomes a map."""
    *outer, last = path
    for name in outer:
        if name not in fields or fields[name].WhichOneof("value_type") != "map_value":
            fields[name].Clear()
            fields[name].map_value.SetInParent()
        fields = fields[name].map_value.fields
    fields[last].CopyFrom(value)


def delete_value(fields: Any, path: Path) -> None:
    """Delete the value at a path, if there is one."""
    *outer, last = path
    for name in outer:
        if name not in fields or fields[name].WhichOneof("value_type") != "map_value":
            return
        fields = fields[name].map_value.fields
    if last in fields:
        del fields[last]


def select(source: Any, paths: Iterable[Path], target: Any) -> None:
    """Copy the values at some paths to other fields."""
    for path in paths:
        value = get_value(source, path)
        if value is not None:
            set_value(target, path, value)


def apply_mask(fields: Any, new_fields: Any, paths: Iterable[Path]) -> None:
    """Set the values at some paths to those of `new_fields`, or delete them."""
    for path in paths:
        value = get_value(new_fields, path)
        if value is None:
            delete_value(fields, path)
        else:
            set_value(fields, path, value)


def apply_transform(fields: Any, path: Path, transform: Any, now: Any) -> Any:
    """Apply a transform to the value at its path, and return its result."""
    old = get_value(fields, path)
    result = ValueProto()
    match transform.WhichOneof("transform_type"):
        case "set_to_server_value":
            result.timestamp_value.CopyFrom(now)
        case "append_missing_elements":
            result = _union(old, transform.append_missing_elements.values)
        case "remove_all_from_array":
            result = _remove(old, transform.remove_all_from_array.values)
            set_value(fields, path, result)
            return ValueProto(null_value=0)
        case "increment":
            result = _increment(old, transform.increment)
        case "maximum":
            result = _choose(old, transform.maximum, greater=True)
        case "minimum":
            result = _choose(old, transform.minimum, greater=False)
    set_value(fields, path, result)
    if transform.WhichOneof("transform_type") == "append_missing_elements":
        return ValueProto(null_value=0)
    return result


def _union(old: Any, values: Iterable[Any]) -> Any:
    result = ValueProto()
    result.array_value.SetInParent()
    if old is not None and old.WhichOneof("value_type") == "array_value":
        result.CopyFrom(old)
    encodings = {encode(value) for value in result.array_value.values}
    for value in values:
        encoded = encode(value)
        if encoded not in encodings:
            encodings.add(encoded)
            result.array_value.values.append(value)
    return result


def _remove(old: Any, values: Iterable[Any]) -> Any:
    result = ValueProto()
    result.array_value.SetInParent()
    if old is not None and old.WhichOneof("value_type") == "array_value":
        removed = {encode(value) for value in values}
        result.array_value.values.extend(
            value for value in old.array_value.values if encode(value) not in removed
        )
    return result


def get_number(value: Any) -> float | int | None:
    """Return the number if the value is one."""
    match value.WhichOneof("value_type"):
        case "integer_value":
            return int(value.integer_value)
        case "double_value":
            return float(value.double_value)
    return None


def _increment(old: Any, operand: Any) -> Any:
    added = get_number(operand)
    if added is None:
        raise invalid_argument("The operand of an increment is a number.")
    number = None if old is None else get_number(old)
    if number is None:
        return operand
    total = number + added
    if isinstance(total, int):
        return ValueProto(integer_value=max(_BOTTOM, min(_TOP, total)))
    return ValueProto(double_value=total)


def _choose(old: Any, operand: Any, *, greater: bool) -> Any:
    """Return the greater or lesser number. Of equal ones, the old stays."""
    new = get_number(operand)
    if new is None:
        raise invalid_argument("The operand of maximum and minimum is a number.")
    number = None if old is None else get_number(old)
    if number is None:
        return operand
    if new != new or number != number:  # noqa: PLR0124 - NaN
        return ValueProto(double_value=float("nan"))
    is_chosen = new > number if greater else new < number
    return operand if is_chosen else old
