"""Whether the settings of a deployment are such as its functions can start with.

A function with settings that do not hold does not start, and says so in its log alone. So they are
looked at here as a function does, before anything is made.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from infra.cloud.failures import NotDone
from shared.errors import InvalidInput
from shared.settings import LEAST_SECRET, Settings, value_of

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from infra.cloud.deployment import Deployment

_PROVIDERS: Final = ("vertex", "openai")
"""The local one is a model file, which is in no bundle."""
_ADDRESS: Final = "https://carrel-gateway-123456789012.europe-west1.run.app"
_EXAMPLES: Final[dict[str, object]] = {
    "ALLOWED_DOMAINS": ["example.com"],
    "ALLOWED_EMAILS": ["you@example.com"],
    "ALLOWED_ORIGINS": ["https://app.example.com"],
    "DISABLED_TOOLS": ["get_stats"],
    "TOOL_PRICES": {"search_kb": 500},
    "TOOL_TIMEOUTS": {"search_kb": 20},
    "TOPIC_ALIASES": {"llms": "language models"},
}


def expect_valid_settings(deployment: Deployment, place: str) -> None:
    """Read the settings as a function does, whose secrets are there.

    Raises:
        NotDone: It would not start with them; the message names the setting and what to write.
    """
    provider = deployment.settings.get("EMBEDDING_PROVIDER")
    if provider not in _PROVIDERS:
        wanted = " or ".join(f'"{each}"' for each in _PROVIDERS)
        said = f"write {wanted}, since functions have no other"
        raise NotDone(f"{place}: settings.EMBEDDING_PROVIDER: {said}")
    if unknown := sorted(deployment.settings.keys() - _names()):
        said = f"{place}: settings.{unknown[0]}: there is none of this name"
        raise NotDone(f"{said}; shared/settings.py says what there is, here it is in capitals")
    try:
        _read(_values(deployment))
    except InvalidInput as error:
        name = error.message.partition(" ")[0]
        raise NotDone(f"{place}: settings: {told(error.message, name)}") from None
    except ValidationError as error:
        said = "; ".join(map(_wrong, error.errors()))
        raise NotDone(f"{place}: {said}") from None


def told(said: str, name: str) -> str:
    """What is wrong, and of a setting that is a list or an object how it is written."""
    if name not in _EXAMPLES:
        return said
    return f'{said}; write it as in "{name}": {json.dumps(json.dumps(_EXAMPLES[name]))}'


def _names() -> set[str]:
    return {name.upper() for name in Settings.model_fields}


def _values(deployment: Deployment) -> dict[str, Any]:
    given = {
        name.lower(): value_of(name, text) for name, text in deployment.settings.items() if text
    }
    secrets: dict[str, Any] = {name.lower(): "a-placeholder" for name in deployment.secrets}
    secrets["access_secrets"] = ["x" * LEAST_SECRET]
    return given | secrets | {"public_url": deployment.public_url or _ADDRESS}


def _read(values: dict[str, Any]) -> None:
    # Its own initializer would read the environment of this process, too.
    BaseModel.__init__(Settings.__new__(Settings), **values)


def _wrong(error: ErrorDetails) -> str:
    name = str(error["loc"][0]).upper() if error["loc"] else ""
    said = error["msg"].removeprefix("Value error, ")
    return told(f"settings.{name}: {said}" if name else f"settings: {said}", name)
