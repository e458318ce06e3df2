"""The browser that was shown a page is the one that answers it (CSRF, login CSRF).

Whoever lures a person's browser into sending a form, or into coming back from Google, does not know
the random value that this browser keeps in a cookie, and so cannot make what belongs to it.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Final

from functions.gateway.auth.public_url import issuer_of, origins_of
from shared.core.errors import Forbidden

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from shared.accounts.keyring import Keyring
    from shared.core.settings import Settings

_FORM: Final = "consent form"
_COOKIE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_OURS: Final = ("same-origin", "none")
"""What `Sec-Fetch-Site` says of a form on our page, and of what a person reloads."""
_NOT_OURS: Final = (
    "This answer does not come from the page that you were shown in this browser. Allow cookies for"
    " this site, and start again from the program that sent you here."
)


class Browsers:
    """Knows browsers again."""

    def __init__(self, settings: Settings, keyring: Keyring) -> None:
        """Speak for the public address; over plain HTTP, which stays on a laptop, more weakly."""
        self._secure = issuer_of(settings).lower().startswith("https:")
        # Of this prefix, browsers take no cookie that a neighbouring host or plain HTTP set.
        self._cookie = "__Host-carrel" if self._secure else "carrel"
        self._origins = origins_of(settings)
        self._keyring = keyring

    def mark(self, request: Request) -> str:
        """What tells this browser from others; a new one gets a new mark."""
        return self.known(request) or secrets.token_urlsafe(32)

    def known(self, request: Request) -> str:
        """The same if the browser was here before, else nothing."""
        value = request.cookies.get(self._cookie, "")
        return value if _COOKIE.fullmatch(value) else ""

    def remember(self, response: Response, mark: str) -> None:
        """Have the browser keep its mark until it is closed."""
        response.set_cookie(
            self._cookie, mark, path="/", secure=self._secure, httponly=True, samesite="lax"
        )

    def form(self, mark: str, sealed: str) -> str:
        """What the form with this request must bring back."""
        return self._keyring.sign(_FORM, f"{mark}.{sealed}")

    def check(self, request: Request, fields: dict[str, str]) -> None:
        """Make sure that a form was filled in on our page, in this browser.

        Raises:
            Forbidden: It was not.
        """
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "same-origin")
        mark, sealed = self.known(request), fields.get("request", "")
        if (
            not mark
            or (origin is not None and origin not in self._origins)
            or site not in _OURS
            or not self._keyring.verifies(_FORM, f"{mark}.{sealed}", fields.get("form", ""))
        ):
            raise Forbidden(_NOT_OURS)
