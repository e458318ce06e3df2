"""Sends requests to Google's REST APIs, signed in as the person at this machine.

Errors have the form `{"error": {"code", "message", "status", "details"}}`. A detail with the type
`google.rpc.ErrorInfo` contains the reason (https://cloud.google.com/apis/design/errors).

Google's libraries are imported late, so that commands that do not need them start fast.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from infra.cloud.errors import CommandFailed, GoogleApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ADDRESS: Final = "https://{service}.googleapis.com"
"""The template of the base URLs of Google's APIs."""
SIGN_IN: Final = "gcloud auth application-default login"
"""The command with which a person signs in to Google on this machine."""
TIMEOUT_SECONDS: Final = 60.0
"""A response is awaited for this long."""
MAX_POLLS: Final = 60
"""An operation or a newly enabled API is polled this often: for five minutes."""
POLL_SECONDS: Final = 5.0
"""The pause between two polls."""
_MAX_RETRIES: Final = 5
"""A GET request is retried this often after transient errors, for about 15 seconds."""
_BACKOFF_FACTOR: Final = 0.5
"""With this factor, urllib3 pauses for 0, 1, 2, 4 and 8 seconds before the retries."""
_TRANSIENT: Final = (429, 500, 502, 503, 504)
"""The HTTP statuses of transient errors."""
_NOT_FOUND: Final = 404
_OK: Final = 200


class GoogleApi:
    """Sends requests to Google's REST APIs."""

    def __init__(
        self,
        session: Any,
        address: str = ADDRESS,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Use a session. No request is sent yet.

        Args:
            session: A `google.auth.transport.requests.AuthorizedSession`, which sends requests.
            address: The template of the APIs' base URLs.
            sleep: Waits for a number of seconds.
        """
        self._session = session
        self._address = address
        self.sleep = sleep

    def get(
        self, service: str, path: str, params: Mapping[str, str | list[str]] | None = None
    ) -> dict[str, Any]:
        """Get a resource.

        Raises:
            GoogleApiError: Google rejected the request.
            CommandFailed: The sign-in is not valid, or Google does not answer.
        """
        return self._send("GET", service, path, params=params)

    def find(self, service: str, path: str) -> dict[str, Any] | None:
        """Get a resource, or return None if it does not exist."""
        try:
            return self.get(service, path)
        except GoogleApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def get_all(
        self, service: str, path: str, field: str, params: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """Get all resources of a paged list.

        Args:
            service: The name of the service.
            path: The path of the list.
            field: The field of each page that contains its resources.
            params: The parameters of the query.
        """
        items: list[dict[str, Any]] = []
        query: dict[str, str | list[str]] = dict(params or {})
        while True:
            page = self.get(service, path, query)
            items += page.get(field, [])
            if not page.get("nextPageToken"):
                return items
            query["pageToken"] = page["nextPageToken"]

    def post(self, service: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a POST request. Secrets belong in the body, never in the URL."""
        return self._send("POST", service, path, json=body)

    def await_operation(self, service: str, operation: dict[str, Any]) -> None:
        """Wait for a long-running operation (`google.longrunning.Operation`).

        Raises:
            CommandFailed: The operation failed or takes too long.
        """
        for _ in range(MAX_POLLS):
            if operation.get("done"):
                break
            self.sleep(POLL_SECONDS)
            operation = self.get(service, f"v1/{operation['name']}")
        else:
            raise CommandFailed(
                f"{service} is still working on {operation['name']}. Run the command again."
            )
        if "error" in operation:
            raise CommandFailed(f"{service}: {operation['error'].get('message', 'an error')}")

    def _send(self, method: str, service: str, path: str, **options: Any) -> dict[str, Any]:
        """Send a request, and return the JSON of the response. See `get` for the errors."""
        from google.auth.exceptions import GoogleAuthError, TransportError
        from requests import RequestException

        url = f"{self._address.format(service=service)}/{path}"
        try:
            response = self._session.request(method, url, timeout=TIMEOUT_SECONDS, **options)
        except (TransportError, RequestException) as error:
            message = f"{service}.googleapis.com does not answer. Try again later."
            raise CommandFailed(message) from error
        except GoogleAuthError as error:
            raise CommandFailed(f"Your sign-in to Google is not valid. Next: {SIGN_IN}") from error
        if response.status_code != _OK:
            raise _parse_error(service, response)
        answer: dict[str, Any] = response.json() if response.content else {}
        return answer


def open_google_session(project: str) -> Any:
    """Open a session with Application Default Credentials, which uses the project's quota.

    Raises:
        CommandFailed: There are no credentials.
    """
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError
    from google.auth.transport.requests import AuthorizedSession

    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
    default: Any = google.auth.default
    try:
        credentials, _ = default(scopes=scopes, quota_project_id=project)
    except DefaultCredentialsError as error:
        raise CommandFailed(f"This machine has no Google credentials. Next: {SIGN_IN}") from error
    return retry_transient_errors(AuthorizedSession(credentials))


def retry_transient_errors(session: Any) -> Any:
    """Configure a session to retry GET requests after transient errors, and return it."""
    from requests.adapters import HTTPAdapter
    from urllib3.util.retry import Retry

    retry = Retry(
        total=_MAX_RETRIES,
        status_forcelist=_TRANSIENT,
        allowed_methods=("GET",),
        backoff_factor=_BACKOFF_FACTOR,
        raise_on_status=False,
    )
    session.mount("https://", HTTPAdapter(max_retries=retry))
    return session


def _parse_error(service: str, response: Any) -> GoogleApiError:
    """Make an error from a response, which may lack any part of the usual form."""
    try:
        error = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        error = {}
    reasons = [detail["reason"] for detail in error.get("details", []) if "reason" in detail]
    explanation = error.get("message") or "no reason given"
    message = (
        f"{service}.googleapis.com rejected the request ({response.status_code}): {explanation}"
    )
    return GoogleApiError(message, response.status_code, reasons[0] if reasons else "")
