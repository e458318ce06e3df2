"""Reads the settings of a deployment once at start, into one frozen object."""

from __future__ import annotations

import inspect
import json
import os
from typing import TYPE_CHECKING, Any, Final

from pydantic import ConfigDict, ValidationError

from shared.core.errors import InvalidInput
from shared.core.setting_groups import (
    AccessSettings,
    DatabaseSettings,
    EmbeddingSettings,
    GenerationSettings,
    IngestSettings,
    KeyInfoSettings,
    LimitSettings,
    SettingGroup,
    SignInSettings,
    TelemetrySettings,
    ToolSettings,
)

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

KNOWLEDGE_DATABASE: Final = "(default)"
"""The Firestore database of the knowledge base and of users' data, which tools and jobs use."""
ACCESS_DATABASE: Final = "access"
"""The Firestore database of credentials, accounts, calls and limits, which the gateway uses."""
_EXPECTED_VALUES: Final = {
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
"""A description of the values that a setting may have, by the type of pydantic's error."""


class Settings(
    TelemetrySettings,
    IngestSettings,
    GenerationSettings,
    EmbeddingSettings,
    KeyInfoSettings,
    ToolSettings,
    LimitSettings,
    SignInSettings,
    AccessSettings,
    DatabaseSettings,
):
    """The settings of all groups, from arguments, else environment variables, else defaults.

    An environment variable has the field's name in capitals; lists and objects are written as
    JSON. `FIRESTORE_EMULATOR_HOST` is missing here, because Google's client reads it itself.
    `pydantic-settings` would do the same, but would add an import to every cold start.
    """

    model_config = ConfigDict(defer_build=False)

    def __init__(self, **arguments: Any) -> None:
        """Read the settings.

        Raises:
            InvalidInput: Some settings are not valid. The message names them and quotes no values.
        """
        try:
            super().__init__(**(_read_environment() | arguments))
        except ValidationError as error:
            sentences = (
                f"{problem}{_format_example(name)}." for name, problem in describe_problems(error)
            )
            raise InvalidInput(" ".join(sentences)) from None


def list_setting_groups() -> dict[str, type[SettingGroup]]:
    """Return the groups of settings by title, in the order of the documentation."""
    groups = [group for group in reversed(Settings.__bases__) if issubclass(group, SettingGroup)]
    return {(inspect.getdoc(group) or "").partition("\n")[0].rstrip("."): group for group in groups}


def describe_problems(error: ValidationError) -> list[tuple[str, str]]:
    """Describe what is wrong with the settings, without quoting values, which may be secrets.

    Returns:
        For each problem, the name of the variable and a clause that describes the problem. The name
        is empty if the problem concerns several variables.
    """
    return [
        _describe_problem(detail) for detail in error.errors(include_url=False, include_input=False)
    ]


def _describe_problem(error: ErrorDetails) -> tuple[str, str]:
    name = str(error["loc"][0]).upper() if error["loc"] else ""
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] in _EXPECTED_VALUES:
        expected = _EXPECTED_VALUES[error["type"]].format(**error.get("ctx", {}))
        subject = f"Each value in {name}" if len(error["loc"]) > 1 else name
        return name, f"{subject} must be {expected}"
    if error["type"] == "extra_forbidden":
        return name, f"{name} is not a setting"
    return name, message if name in message else f"{name}: {message}"


def parse_value(text: str) -> Any:
    """Parse the value of a variable if it is a JSON list or object; otherwise return the text."""
    if text[0] not in "[{":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_environment() -> dict[str, Any]:
    """Return the settings in the environment. An empty variable counts as not set."""
    variables = {name: os.environ.get(name.upper(), "") for name in Settings.model_fields}
    return {name: parse_value(text) for name, text in variables.items() if text}


def _format_example(name: str) -> str:
    """Return an example of a setting whose value is JSON, as a clause, or an empty string."""
    field = Settings.model_fields.get(name.lower())
    return f", such as {name}='{json.dumps(field.examples[0])}'" if field and field.examples else ""
