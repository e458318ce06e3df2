"""Whether the settings of a deployment are such as its functions can start with.

A function with settings that do not hold does not start, and says so in its log alone. So they are
looked at here as a function does, before anything is made.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from infra.cloud.failures import NotDone
from shared.core.errors import InvalidInput
from shared.core.setting_groups import MIN_SECRET_LENGTH
from shared.core.settings import Settings, parse_value, problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PROVIDERS: Final = ("vertex", "openai")
"""The local one is a model file, which is in no bundle."""
_ADDRESS: Final = "https://carrel-gateway-123456789012.europe-west1.run.app"


def expect_valid_settings(
    settings: Mapping[str, str], secrets: Iterable[str], public_url: str | None, place: str
) -> None:
    """Read the settings as a function does, whose secrets are there.

    Args:
        settings: Their values, by names in capitals.
        secrets: The names of those that are kept in Secret Manager.
        public_url: The address of the gateway; None: the one that Cloud Run gives.
        place: What to call the file in errors.

    Raises:
        NotDone: It would not start with them; the message names the setting and what to write.
    """
    provider = settings.get("EMBEDDING_PROVIDER")
    if provider not in _PROVIDERS:
        wanted = " or ".join(f'"{each}"' for each in _PROVIDERS)
        said = f"write {wanted}, since functions have no other"
        raise NotDone(f"{place}: settings.EMBEDDING_PROVIDER: {said}")
    if unknown := sorted(settings.keys() - _names()):
        said = f"{place}: settings.{unknown[0]}: there is none of this name"
        raise NotDone(f"{said}; shared/core/settings.py says what there is, here it is in capitals")
    try:
        _read(_values(settings, secrets) | {"public_url": public_url or _ADDRESS})
    except InvalidInput as error:
        raise NotDone(f"{place}: settings: {error.message}") from None
    except ValidationError as error:
        sentences = (f"{problem}{example(name)}" for name, problem in problems(error))
        raise NotDone(f"{place}: settings: {'; '.join(sentences)}") from None


def example(name: str) -> str:
    """How a setting is written that is a list or an object."""
    field = Settings.model_fields.get(name.lower())
    if not field or not field.examples:
        return ""
    return f'; write it as in "{name}": {json.dumps(json.dumps(field.examples[0]))}'


def _names() -> set[str]:
    return {name.upper() for name in Settings.model_fields}


def _values(settings: Mapping[str, str], secrets: Iterable[str]) -> dict[str, Any]:
    values: dict[str, Any] = {
        name.lower(): parse_value(text) for name, text in settings.items() if text
    }
    values |= dict.fromkeys(map(str.lower, secrets), "a-placeholder")
    return values | {"access_secrets": ["x" * MIN_SECRET_LENGTH]}


def _read(values: dict[str, Any]) -> None:
    # Its own initializer would read the environment of this process, too.
    BaseModel.__init__(Settings.__new__(Settings), **values)
