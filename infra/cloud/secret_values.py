"""Reads and adds values of secrets in Secret Manager.

Terraform creates the secrets but never sees their values, because its state would contain them in
plain text. They are sent in bodies of requests, never in URLs or on command lines.

Google's libraries are imported late, so that commands that do not need them start fast.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import click

ACCESS_SECRETS: Final = "ACCESS_SECRETS"
"""The name of the secret by which the gateway signs tokens and keys."""
ADDRESS: Final = "https://secretmanager.googleapis.com"
_SIGN_IN: Final = "gcloud auth application-default login"
_TIMEOUT_SECONDS: Final = 60.0
_OK: Final = 200
_NOT_FOUND: Final = 404


class SecretValues:
    """The values of one project's secrets.

    Every method raises `ClickException` if Google rejects a request or does not answer.
    """

    def __init__(self, project: str, *, session: Any = None, address: str = ADDRESS) -> None:
        """Use the secrets of a project. No request is sent yet.

        Args:
            project: The id of the project.
            session: A `google.auth.transport.requests.AuthorizedSession`; by default, one with the
                credentials of the person at this machine.
            address: The base URL of the API.
        """
        self._session = session or _open_session(project)
        self._parent = f"{address}/v1/projects/{project}/secrets"

    def has(self, name: str) -> bool:
        """Return whether a secret has a value that functions can read.

        https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/list
        """
        query = {"filter": "state:ENABLED", "pageSize": "1"}
        page = self._send("GET", f"{name}/versions", params=query)
        return bool(page and page.get("versions"))

    def read(self, name: str) -> str:
        """Read the newest value of a secret, which must exist."""
        version = self._send("GET", f"{name}/versions/latest:access")
        if version is None:
            raise click.ClickException(f"The secret {name} does not exist or has no value.")
        return base64.b64decode(version["payload"]["data"]).decode()

    def add(self, name: str, value: str) -> None:
        """Add a value to an existing secret. Functions read it when an instance starts."""
        data = base64.b64encode(value.encode()).decode()
        if self._send("POST", f"{name}:addVersion", json={"payload": {"data": data}}) is None:
            raise click.ClickException(f"The secret {name} does not exist.")

    def _send(self, method: str, path: str, **options: Any) -> dict[str, Any] | None:
        """Send a request, and return the JSON of the response, or None if nothing is there."""
        from google.auth.exceptions import GoogleAuthError, TransportError
        from requests import RequestException

        url = f"{self._parent}/{path}"
        try:
            response = self._session.request(method, url, timeout=_TIMEOUT_SECONDS, **options)
        except (TransportError, RequestException) as error:
            message = "Secret Manager does not answer. Try again later."
            raise click.ClickException(message) from error
        except GoogleAuthError as error:
            message = f"Your sign-in to Google is not valid. Next: {_SIGN_IN}"
            raise click.ClickException(message) from error
        if response.status_code == _NOT_FOUND:
            return None
        if response.status_code != _OK:
            message = f"Secret Manager rejected the request ({response.status_code})"
            raise click.ClickException(f"{message}: {response.text}")
        content: dict[str, Any] = response.json()
        return content


def _open_session(project: str) -> Any:
    """Open a session with Application Default Credentials, which uses the project's quota."""
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError
    from google.auth.transport.requests import AuthorizedSession

    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
    default: Any = google.auth.default
    try:
        credentials, _ = default(scopes=scopes, quota_project_id=project)
    except DefaultCredentialsError as error:
        message = f"This machine has no Google credentials. Next: {_SIGN_IN}"
        raise click.ClickException(message) from error
    return AuthorizedSession(credentials)
