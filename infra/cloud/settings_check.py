"""Validates a deployment's settings, as its functions do, before anything is deployed.

A function with invalid settings does not start, and only its log gives the reason.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from infra.cloud.errors import CommandFailed
from shared.core.errors import InvalidInput
from shared.core.setting_groups import MIN_SECRET_LENGTH
from shared.core.settings import Settings, describe_problems, parse_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PROVIDERS: Final = ("vertex", "openai")
"""The embedding providers of functions. No bundle contains the model of the local provider."""
_SAMPLE_URL: Final = "https://carrel-gateway-123456789012.europe-west1.run.app"
"""A URL of the form that Cloud Run assigns, for a setting that functions require."""


def require_valid_settings(
    settings: Mapping[str, str], secrets: Iterable[str], public_url: str | None, file_name: str
) -> None:
    """Validate settings as a function does, with placeholders for the secrets.

    Args:
        settings: The values of settings by the names of their environment variables.
        secrets: The names of the settings whose values are in Secret Manager.
        public_url: The gateway's URL, or None for the URL that Cloud Run assigns.
        file_name: The name of the deployment file, for error messages.

    Raises:
        CommandFailed: A function would not start. The message says what to write instead.
    """
    if settings.get("EMBEDDING_PROVIDER") not in _PROVIDERS:
        providers = " or ".join(f'"{provider}"' for provider in _PROVIDERS)
        raise CommandFailed(
            f"{file_name}: settings.EMBEDDING_PROVIDER: write {providers}; functions support no"
            " other provider"
        )
    if unknown := sorted(settings.keys() - _get_setting_names()):
        raise CommandFailed(
            f"{file_name}: settings.{unknown[0]}: there is no such setting;"
            " shared/core/setting_groups.py lists them; write their names in capitals"
        )
    try:
        _validate(_parse_values(settings, secrets) | {"public_url": public_url or _SAMPLE_URL})
    except InvalidInput as error:
        raise CommandFailed(f"{file_name}: settings: {error.message}") from None
    except ValidationError as error:
        sentences = (
            f"{problem}{format_example(name)}" for name, problem in describe_problems(error)
        )
        raise CommandFailed(f"{file_name}: settings: {'; '.join(sentences)}") from None


def format_example(name: str) -> str:
    """Format an example of a setting's value, or return an empty string if there is no example.

    The settings with examples are lists and objects. In the deployment file, their values are JSON
    within a JSON string.
    """
    field = Settings.model_fields.get(name.lower())
    if not field or not field.examples:
        return ""
    return f'; for example, "{name}": {json.dumps(json.dumps(field.examples[0]))}'


def _get_setting_names() -> set[str]:
    return {name.upper() for name in Settings.model_fields}


def _parse_values(settings: Mapping[str, str], secrets: Iterable[str]) -> dict[str, Any]:
    """Return the values of the fields of `Settings`, with placeholders for secrets."""
    values: dict[str, Any] = {
        name.lower(): parse_value(text) for name, text in settings.items() if text
    }
    values |= dict.fromkeys(map(str.lower, secrets), "a-placeholder")
    return values | {"access_secrets": ["x" * MIN_SECRET_LENGTH]}


def _validate(values: dict[str, Any]) -> None:
    # The initializer of `Settings` would read this process's environment, too.
    BaseModel.__init__(Settings.__new__(Settings), **values)
