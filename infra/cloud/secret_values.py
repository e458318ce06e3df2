"""Reads and adds values of secrets in Secret Manager.

Terraform creates the secrets but never sees their values, because its state would contain them in
plain text.
"""

from __future__ import annotations

import base64
import json
import secrets
from typing import TYPE_CHECKING, Final

from infra.cloud.errors import GoogleApiError

if TYPE_CHECKING:
    from infra.cloud.google_api import GoogleApi

ACCESS_SECRETS: Final = "ACCESS_SECRETS"
"""The name of the secret by which the gateway signs tokens and keys."""
_SERVICE: Final = "secretmanager"
_NOT_FOUND: Final = 404
_RANDOM_BYTES: Final = 48
"""A generated secret has this many random bytes: 64 characters of base64."""


class SecretValues:
    """The values of one project's secrets."""

    def __init__(self, api: GoogleApi, project: str) -> None:
        """Use the secrets of a project. No request is sent yet."""
        self._api = api
        self._parent = f"v1/projects/{project}/secrets"

    def has(self, name: str) -> bool:
        """Return whether a secret has a value that functions can read.

        https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/list
        """
        query = {"filter": "state:ENABLED", "pageSize": "1"}
        try:
            page = self._api.get(_SERVICE, f"{self._parent}/{name}/versions", query)
        except GoogleApiError as error:
            if error.status == _NOT_FOUND:
                return False
            raise
        return bool(page.get("versions"))

    def read(self, name: str) -> str:
        """Read the newest value of a secret.

        Raises:
            GoogleApiError: The secret does not exist, has no value, or may not be read.
        """
        version = self._api.get(_SERVICE, f"{self._parent}/{name}/versions/latest:access")
        return base64.b64decode(version["payload"]["data"]).decode()

    def add(self, name: str, value: str) -> None:
        """Add a value to an existing secret. Functions read it when an instance starts."""
        data = base64.b64encode(value.encode()).decode()
        self._api.post(_SERVICE, f"{self._parent}/{name}:addVersion", {"payload": {"data": data}})


def generate_access_secrets() -> str:
    """Generate a value for ACCESS_SECRETS, which is a JSON list of one random secret."""
    return json.dumps([secrets.token_urlsafe(_RANDOM_BYTES)])
