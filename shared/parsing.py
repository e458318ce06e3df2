"""Arguments as a client sent them, checked against what takes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pydantic_core import ErrorDetails

    from shared.tool import Arguments

    ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)

MOST_ARGUMENTS: Final = 100
MAX_REPORTED_PROBLEMS: Final = 20
"""Problems that are told: a model learns nothing from more, and a stranger may cause thousands."""
LONGEST_NAME: Final = 80
"""Characters of a field's name that are quoted."""


def parse(kind: type[ArgumentsT], arguments: dict[str, Any], name: str) -> ArgumentsT:
    """Check arguments.

    Args:
        kind: What they must be.
        arguments: As they were sent.
        name: Of what takes them, for the error: a tool.

    Raises:
        InvalidInput: With one entry per offending field in `details`.
    """
    try:
        # As JSON, strictly: "5" is no number and true is no 1, but an enumeration is its string.
        return kind.model_validate_json(json.dumps(_whole(arguments)), strict=True)
    except _TooMany:
        message = f"an object has more than {MOST_ARGUMENTS} fields"
        raise invalid(name, {"arguments": message}) from None
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        details = {
            field_name(each["loc"]): _problem(kind, name, each)
            for each in problems[:MAX_REPORTED_PROBLEMS]
        }
        raise invalid(name, details, more=len(problems) - len(details)) from None


class _TooMany(Exception):
    """An object has so many fields that only telling of them would take a second."""


def invalid(name: str, details: dict[str, str], more: int = 0) -> InvalidInput:
    """The error that says what is wrong with the arguments of `name`, field by field."""
    wrong = "; ".join(f"{field}: {message}" for field, message in details.items())
    wrong += f"; and {more} more" if more else ""
    message = f"{name} was not run. {wrong}. Correct this and call {name} again."
    return InvalidInput(message, details=details)


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: 5.0 is an integer too, and some clients write it so."""
    match value:
        case dict() if len(value) > MOST_ARGUMENTS:
            raise _TooMany
        case dict():
            return {name: _whole(each) for name, each in value.items()}
        case list():
            return [_whole(each) for each in value]
        case float() if value.is_integer():
            return int(value)
    return value


def _problem(kind: type[BaseModel], name: str, problem: ErrorDetails) -> str:
    match problem["type"]:
        case "extra_forbidden":
            *path, _ = problem["loc"]
            where = ".".join(map(str, path)) or name
            known = ", ".join(_fields_at(kind, path)) or "none"
            return f"not a parameter; {where} takes {known}"
        case "missing":
            return "required, but missing"
        case "string_pattern_mismatch":
            return "not of the form that other answers have it in: copy it from one of them"
        case _:
            return problem["msg"]


def _fields_at(model: type[BaseModel], path: Sequence[int | str]) -> Iterable[str]:
    """The fields that there are at a place in a tool's input."""
    for name in path:
        if field := model.model_fields.get(str(name)):
            model = next(_models(field.annotation), model)
    return model.model_fields


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that an annotation speaks of, such as that of `list[Filter] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def field_name(location: Sequence[int | str]) -> str:
    """A place in the arguments, as errors name it."""
    return ".".join(str(part)[:LONGEST_NAME] for part in location) or "arguments"
