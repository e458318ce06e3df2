"""Google's REST APIs, in the name of whoever is signed in on this machine.

Errors come as `{"error": {"code", "message", "status", "details"}}`, with the reason in a detail
of the type `google.rpc.ErrorInfo` (https://cloud.google.com/apis/design/errors).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from infra.cloud.failures import NotDone, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ADDRESS: Final = "https://{service}.googleapis.com"
SIGN_IN: Final = "gcloud auth application-default login"
SECONDS: Final = 60.0
"""How long one answer may take."""
PATIENCE: Final = 60
"""How often an operation is looked at, or a service that was just switched on is tried."""
PAUSE: Final = 5.0
_TRIES: Final = 5
_TRANSIENT: Final = (429, 500, 502, 503, 504)
_NOT_FOUND: Final = 404
_OK: Final = 200


class GoogleApi:
    """Sends requests, and words what is refused."""

    def __init__(
        self,
        session: Any,
        address: str = ADDRESS,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """Speak through a `google.auth.transport.requests.AuthorizedSession`.

        Args:
            session: Signs the requests.
            address: Where the APIs are, with the place of a service's name.
            pause: How to let seconds pass.
        """
        self._session = session
        self._address = address
        self.pause = pause

    def get(
        self, service: str, path: str, params: Mapping[str, str | list[str]] | None = None
    ) -> dict[str, Any]:
        """What is at a path.

        Raises:
            Refused: Google says no.
            NotDone: Nobody is signed in, or Google does not answer.
        """
        return self._sent("GET", service, path, params=params)

    def find(self, service: str, path: str) -> dict[str, Any] | None:
        """What is at a path; None where nothing is."""
        try:
            return self.get(service, path)
        except Refused as refusal:
            if refusal.status == _NOT_FOUND:
                return None
            raise

    def all(
        self, service: str, path: str, field: str, params: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """The whole list, page by page."""
        found: list[dict[str, Any]] = []
        asked: dict[str, str | list[str]] = dict(params or {})
        while True:
            page = self.get(service, path, asked)
            found += page.get(field, [])
            if not page.get("nextPageToken"):
                return found
            asked["pageToken"] = page["nextPageToken"]

    def post(self, service: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Have something made or done. What is secret stands in the body, never in the address."""
        return self._sent("POST", service, path, json=body)

    def await_done(self, service: str, operation: dict[str, Any]) -> None:
        """Wait for a long-running operation (`google.longrunning.Operation`).

        Raises:
            NotDone: It failed, or takes too long.
        """
        for _ in range(PATIENCE):
            if operation.get("done"):
                break
            self.pause(PAUSE)
            operation = self.get(service, f"v1/{operation['name']}")
        else:
            raise NotDone(f"{service} is still at work: {operation['name']}. Try again later.")
        if "error" in operation:
            raise NotDone(f"{service}: {operation['error'].get('message', 'an error')}")

    def _sent(self, method: str, service: str, path: str, **what: Any) -> dict[str, Any]:
        from google.auth.exceptions import GoogleAuthError, TransportError
        from requests import RequestException

        url = f"{self._address.format(service=service)}/{path}"
        try:
            response = self._session.request(method, url, timeout=SECONDS, **what)
        except (TransportError, RequestException) as error:
            raise NotDone(f"{service}.googleapis.com does not answer: try again later.") from error
        except GoogleAuthError as error:
            raise NotDone(f"Your sign-in to Google is not valid. Next: {SIGN_IN}") from error
        if response.status_code != _OK:
            raise _refused(service, response)
        answer: dict[str, Any] = response.json() if response.content else {}
        return answer


def signed_in(project: str) -> Any:
    """A session in the name of the Application Default Credentials, on the project's own quota.

    Raises:
        NotDone: There are none.
    """
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError
    from google.auth.transport.requests import AuthorizedSession

    scopes = ["https://www.googleapis.com/auth/cloud-platform"]
    default: Any = google.auth.default
    try:
        credentials, _ = default(scopes=scopes, quota_project_id=project)
    except DefaultCredentialsError as error:
        raise NotDone(f"This machine has no Google credentials. Next: {SIGN_IN}") from error
    return patient(AuthorizedSession(credentials))  # type: ignore[no-untyped-call]  # the library has no types


def patient(session: Any) -> Any:
    """Have a session ask again where Google is down for a moment."""
    from requests.adapters import HTTPAdapter
    from urllib3.util.retry import Retry

    retry = Retry(
        total=_TRIES,
        status_forcelist=_TRANSIENT,
        allowed_methods=("GET",),
        backoff_factor=0.5,
        raise_on_status=False,
    )
    session.mount("https://", HTTPAdapter(max_retries=retry))
    return session


def _refused(service: str, response: Any) -> Refused:
    try:
        error = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        error = {}
    reasons = [detail["reason"] for detail in error.get("details", []) if "reason" in detail]
    said = error.get("message") or "no reason given"
    message = f"{service}.googleapis.com refused ({response.status_code}): {said}"
    return Refused(message, response.status_code, reasons[0] if reasons else "")
