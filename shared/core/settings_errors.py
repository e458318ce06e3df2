"""What is wrong with settings, in words that quote no value: it may be a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_EXPECTED: Final = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a JSON object",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
    "string_type": "text, not JSON",
    "tuple_type": "a JSON list",
}
"""By pydantic's types of errors, what a setting must be instead."""


def problems(error: ValidationError) -> list[tuple[str, str]]:
    """For each problem the variable, empty where it is several, and a clause that names it."""
    return [_problem(detail) for detail in error.errors(include_url=False, include_input=False)]


def _problem(error: ErrorDetails) -> tuple[str, str]:
    name = str(error["loc"][0]).upper() if error["loc"] else ""
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] in _EXPECTED:
        expected = _EXPECTED[error["type"]].format(**error.get("ctx", {}))
        each = "Each value in " if len(error["loc"]) > 1 else ""
        return name, f"{each}{name} must be {expected}"
    if error["type"] == "extra_forbidden":
        return name, f"{name} is no setting"
    return name, message if name in message else f"{name}: {message}"
