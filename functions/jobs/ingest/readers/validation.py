"""Parses JSON and validates values, with error messages for the owner of the file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from functions.jobs.ingest.readers.source_file import Unreadable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Model = TypeVar("Model", bound=BaseModel)
Location = tuple[int | str, ...]
"""The path to a value: the names of fields and the numbers of list items, outermost first."""
_MAX_FAULTS: Final = 3
"""The maximum number of faults that a message describes."""


class Fault(NamedTuple):
    """What is wrong with a value in a record."""

    location: Location
    message: str


def parse_json(text: str) -> Any:
    """Parse a JSON value.

    Raises:
        Unreadable: The text is not JSON, has a number with more digits than Python parses, or is
            nested more deeply than the interpreter's stack allows.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise Unreadable(f"is not JSON: {error.msg} ({line}column {error.colno})") from error
    except ValueError as error:
        raise Unreadable(f"has a number that is too long: {error}") from error
    except RecursionError as error:
        raise Unreadable("is nested too deeply") from error


def validate(
    model: type[Model], value: Any, optional: Collection[str] = ()
) -> tuple[Model, list[Fault]]:
    """Validate a value, and drop optional fields that are not valid.

    Args:
        value: The parsed value. Invalid optional fields are deleted from it.
        optional: The names of optional fields, at any depth.

    Returns:
        The validated value, and the faults of the fields that were dropped.

    Raises:
        Unreadable: Another field is missing or not valid; the message names the first few.
    """
    if not isinstance(value, dict):
        raise Unreadable("is not a JSON object")
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        faults = _list_faults(error)
        paths = {_find_optional_path(fault.location, optional) for fault in faults}
        if () in paths:
            raise Unreadable(_summarize_faults(faults)) from error
    for path in paths:
        _delete(value, path)
    # Checks of the whole model run only when its fields are valid, so there may be more faults.
    validated, more = validate(model, value, optional)
    return validated, faults + more


def _list_faults(error: ValidationError) -> list[Fault]:
    details = error.errors(include_url=False, include_input=False)
    # pydantic puts this prefix before the messages of our own validators.
    return [Fault(fault["loc"], fault["msg"].removeprefix("Value error, ")) for fault in details]


def _find_optional_path(location: Location, optional: Collection[str]) -> Location:
    """Return the path to the outermost optional field around a fault, or () if there is none."""
    for end, part in enumerate(location, start=1):
        if part in optional:
            return location[:end]
    return ()


def _delete(value: Any, path: Location) -> None:
    *parents, field = path
    for parent in parents:
        value = value[parent]
    del value[field]


def describe_faults(faults: Sequence[Fault]) -> tuple[str, ...]:
    """Return a warning about optional fields that were dropped; nothing if there are none."""
    if not faults:
        return ()
    ignored = "field ignored" if len(faults) == 1 else "fields ignored"
    return (f"{_summarize_faults(faults)}; {ignored}",)


def _summarize_faults(faults: Sequence[Fault]) -> str:
    messages = [
        f"{'.'.join(map(str, fault.location))}: {fault.message}" for fault in faults[:_MAX_FAULTS]
    ]
    more = len(faults) - len(messages)
    return "; ".join([*messages, f"and {more} more"] if more else messages)
