"""Values of secrets: they go straight to Secret Manager, in the body of a request.

Terraform makes the secrets and never sees a value, since its state would keep it in the clear.
"""

from __future__ import annotations

import base64
import json
import secrets
from typing import TYPE_CHECKING, Final

from infra.cloud.failures import Refused

if TYPE_CHECKING:
    from infra.cloud.google_api import GoogleApi

ACCESS_SECRETS: Final = "ACCESS_SECRETS"
_SERVICE: Final = "secretmanager"
_NOT_FOUND: Final = 404
_RANDOM_BYTES: Final = 48


class SecretValues:
    """The secrets of one project."""

    def __init__(self, api: GoogleApi, project: str) -> None:
        """Reach them through this API."""
        self._api = api
        self._parent = f"v1/projects/{project}/secrets"

    def has(self, name: str) -> bool:
        """Whether a secret has a value that functions can read.

        https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/list
        """
        asked = {"filter": "state:ENABLED", "pageSize": "1"}
        try:
            found = self._api.get(_SERVICE, f"{self._parent}/{name}/versions", asked)
        except Refused as refusal:
            if refusal.status == _NOT_FOUND:
                return False
            raise
        return bool(found.get("versions"))

    def read(self, name: str) -> str:
        """The newest value."""
        found = self._api.get(_SERVICE, f"{self._parent}/{name}/versions/latest:access")
        return base64.b64decode(found["payload"]["data"]).decode()

    def add(self, name: str, value: str) -> None:
        """Give a secret a new value; functions take it up when they start anew."""
        data = base64.b64encode(value.encode()).decode()
        self._api.post(_SERVICE, f"{self._parent}/{name}:addVersion", {"payload": {"data": data}})


def random_access_secrets() -> str:
    """A value for ACCESS_SECRETS: a JSON list of one secret that nobody guesses."""
    return json.dumps([secrets.token_urlsafe(_RANDOM_BYTES)])
