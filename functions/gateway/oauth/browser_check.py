"""Protection of forms against CSRF and login CSRF."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Final

from functions.gateway.auth.public_url import get_issuer_url, list_own_origins
from shared.core.errors import Forbidden

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from shared.accounts.keyring import Keyring
    from shared.core.settings import Settings

_FORM_PURPOSE: Final = "consent form"
_BROWSER_ID_FORMAT: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_TRUSTED_FETCH_SITES: Final = ("same-origin", "none")
"""The accepted values of `Sec-Fetch-Site`: a form on this server's page, or a page reload."""
_OTHER_BROWSER_MESSAGE: Final = (
    "This form was not opened in this browser, or cookies are blocked. Allow cookies for this site,"
    " and start again from the program that sent you here."
)


class BrowserCheck:
    """Checks that the browser that sends a form is the one that was shown the page.

    A cookie stores a random id in the browser, and the token in the form is bound to that id. An
    attacker who makes a browser send a form, or return from Google, does not know the id, and so
    cannot forge the token.
    """

    def __init__(self, settings: Settings, keyring: Keyring) -> None:
        """Choose the cookie. It protects less over plain HTTP, which only laptops use."""
        self._secure = get_issuer_url(settings).lower().startswith("https:")
        # Browsers reject a cookie with this prefix if another host or plain HTTP set it.
        self._cookie_name = "__Host-carrel" if self._secure else "carrel"
        self._origins = list_own_origins(settings)
        self._keyring = keyring

    def get_browser_id(self, request: Request) -> str:
        """Return the id of this browser, or a new id if it has none."""
        return self.get_existing_id(request) or secrets.token_urlsafe(32)

    def get_existing_id(self, request: Request) -> str:
        """Return the id in the cookie, or an empty string if it is missing or malformed."""
        value = request.cookies.get(self._cookie_name, "")
        return value if _BROWSER_ID_FORMAT.fullmatch(value) else ""

    def set_cookie(self, response: Response, browser_id: str) -> None:
        """Store the id in a session cookie."""
        response.set_cookie(
            self._cookie_name,
            browser_id,
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="lax",
        )

    def make_form_token(self, browser_id: str, sealed_request: str) -> str:
        """Return the CSRF token of the form with this request."""
        return self._keyring.sign(_FORM_PURPOSE, f"{browser_id}.{sealed_request}")

    def verify_form(self, request: Request, fields: dict[str, str]) -> None:
        """Verify that a form was submitted from this server's page, in this browser.

        Raises:
            Forbidden: The form came from another page or another browser.
        """
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "same-origin")
        browser_id = self.get_existing_id(request)
        sealed_request = fields.get("request", "")
        if (
            not browser_id
            or (origin is not None and origin not in self._origins)
            or site not in _TRUSTED_FETCH_SITES
            or not self._keyring.verify(
                _FORM_PURPOSE, f"{browser_id}.{sealed_request}", fields.get("form", "")
            )
        ):
            raise Forbidden(_OTHER_BROWSER_MESSAGE)
