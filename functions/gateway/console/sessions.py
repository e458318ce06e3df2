"""Sessions of the console: sign-in, sign-out, and the check that a form is from the own page.

The console is a program of this server like any other, with a client id of its own. A person signs
in on the consent page, and the console gets a code. The grant of that code is the session: it is
stored in the database `access`, and revoked like any other grant. The cookie contains the grant's
id and a signature, so a forged cookie costs no read. It opens only the console, because `/mcp` and
`/token` read no cookies.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from functions.gateway.auth.client_address import get_client_address
from functions.gateway.auth.middleware import require_direct
from functions.gateway.auth.public_url import get_issuer_url
from functions.gateway.auth.visitor import Visitor
from functions.gateway.console.rendering import redirect
from functions.gateway.oauth.authorization import (
    CONSENT_PATH,
    CONSOLE_CLIENT_ID,
    KEY_CLIENT_ID,
    AuthorizationRequest,
    seal,
)
from functions.gateway.oauth.browser_check import BrowserCheck
from functions.gateway.oauth.routes import make_sign_ins
from shared.accounts.grant import IDLE_LIFETIME
from shared.core.base64url import to_base64url
from shared.core.caller import FULL_ACCESS, Caller
from shared.core.errors import Forbidden, InvalidInput, Unauthorized

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from functions.gateway.access import Access
    from shared.accounts.grant import Grant
    from shared.core.caller import Scope

ARRIVAL_PATH: Final = "/session"
"""The path to which the consent page sends the browser with the code of a sign-in."""
SIGN_IN_PATH: Final = "/session/new"
SIGN_OUT_PATH: Final = "/session/end"
KEY_PATH: Final = "/you/key"
"""The path of the form that asks for a key, and of the page that makes it after the proof."""
MAX_PATH_LENGTH: Final = 1_000
"""After sign-in, the browser returns to no longer path than this, in characters."""
_COOKIE_PURPOSE: Final = "console session"
_CHALLENGE_PURPOSE: Final = "console sign-in"
_FORM_PURPOSE: Final = "console form"
_KEY_PURPOSE: Final = "console key"
_COOKIE_FORMAT: Final = re.compile(r"([0-9a-f]{32})\.([A-Za-z0-9_-]{43})")
"""The id of a grant, and its signature."""
_OWN_PATH: Final = re.compile(r"/([^/\\\s][^\\\s]*)?")
CONSOLE_NAME: Final = "Carrel's console"
"""The client's name in what the console saves and changes."""
_ANONYMOUS: Final = "anonymous"
"""Stands for the grant id in the form tokens of visitors who have not signed in."""
_FORM_MESSAGE: Final = (
    "This form was not sent from a page of this session. Go back, reload the page and try again."
)


@dataclass(frozen=True, slots=True)
class Session:
    """The session of a visitor.

    Attributes:
        grant_id: The id of the session's grant, or None if the visitor has not signed in.
    """

    visitor: Visitor
    grant_id: str | None
    form_token: str


class Sessions:
    """Starts, finds and ends sessions."""

    def __init__(self, access: Access) -> None:
        settings = access.settings
        self._access = access
        self._sign_ins = make_sign_ins(access)
        self._browser_check = BrowserCheck(settings, access.keyring)
        self._secure = get_issuer_url(settings).lower().startswith("https:")
        self._cookie_name = "__Host-carrel-session" if self._secure else "carrel-session"

    async def find(self, request: Request) -> Session:
        """Return the session of a request. One with a signed-in visitor costs two round trips.

        Raises:
            Unauthorized: The visitor has not signed in, and this server requires it.
            Unavailable: The database does not answer.
        """
        settings = self._access.settings
        grant_id = None if settings.local_user else self._read_cookie(request)
        if grant_id and (session := await self._find_signed_in(grant_id)):
            return session
        require_direct(request.headers, settings)
        address = get_client_address(request.scope, settings.proxy_count)
        visitor = await self._access.callers.identify(None, address)
        caller = visitor.caller.model_copy(update={"client": CONSOLE_NAME})
        visitor = replace(visitor, caller=caller)
        return Session(visitor, None, self._sign_form(_ANONYMOUS))

    def begin(self, request: Request, path: str) -> Response:
        """Send the browser to the sign-in page, from which it returns to a path of the console."""
        browser_id = self._browser_check.get_browser_id(request)
        authorization = AuthorizationRequest(
            client_id=CONSOLE_CLIENT_ID,
            client_name=CONSOLE_NAME,
            redirect_uri=get_issuer_url(self._access.settings) + ARRIVAL_PATH,
            redirect_uri_given=True,
            scopes=FULL_ACCESS,
            state=_require_own_path(path),
            code_challenge=self._make_challenge(_CHALLENGE_PURPOSE, browser_id),
        )
        return self._open_consent_page(authorization, browser_id)

    async def complete(self, request: Request) -> Response:
        """Start the session of a browser that returns with a code.

        Raises:
            Forbidden: Another browser started the sign-in.
            Unauthorized: The code is not valid, or was used before.
            Unavailable: The database does not answer.
        """
        code = request.query_params.get("code", "")
        browser_id = self._browser_check.get_existing_id(request)
        grant = await self._sign_ins.find_by_code(code, CONSOLE_CLIENT_ID)
        if grant and grant.code_challenge != self._make_challenge(_CHALLENGE_PURPOSE, browser_id):
            raise Forbidden("This sign-in was started in another browser. Sign in again here.")
        grant = await self._sign_ins.redeem(code, CONSOLE_CLIENT_ID) if grant else None
        if grant is None or not grant.is_valid(self._access.clock()):
            raise Unauthorized("This sign-in has expired or was used before. Sign in again.")
        response = redirect(_require_own_path(request.query_params.get("state", "")))
        signature = self._access.keyring.sign(_COOKIE_PURPOSE, grant.grant_id)
        response.set_cookie(
            self._cookie_name,
            f"{grant.grant_id}.{signature}",
            max_age=int(IDLE_LIFETIME.total_seconds()),
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="lax",
        )
        return response

    def request_proof(
        self, request: Request, session: Session, *, name: str, scopes: frozenset[Scope], state: str
    ) -> Response:
        """Send the browser to the consent page, where the visitor proves their identity again.

        From there, it returns to KEY_PATH with a code.

        Args:
            state: Text that comes back with the code, unchanged.
        """
        authorization = AuthorizationRequest(
            client_id=KEY_CLIENT_ID,
            client_name=name,
            redirect_uri=get_issuer_url(self._access.settings) + KEY_PATH,
            redirect_uri_given=True,
            scopes=scopes,
            state=state,
            code_challenge=self._make_challenge(_KEY_PURPOSE, f"{session.grant_id}.{state}"),
        )
        return self._open_consent_page(authorization, self._browser_check.get_browser_id(request))

    async def verify_proof(self, session: Session, code: str, state: str) -> Grant:
        """Consume the code with which the consent page proves who asks for a key.

        Returns:
            The grant of the code: its user, and the scopes that the key may have.

        Raises:
            InvalidInput: The code is not valid, or was used before.
            Forbidden: The code is for another session or state, or for another user.
            Unavailable: The database does not answer.
        """
        grant = await self._sign_ins.consume(code, KEY_CLIENT_ID)
        if grant is None:
            raise InvalidInput(
                "This page was shown before, or its time is up. On the page of your account, revoke"
                " a key that you did not copy, and make another."
            )
        if grant.code_challenge != self._make_challenge(
            _KEY_PURPOSE, f"{session.grant_id}.{state}"
        ):
            raise Forbidden("Another browser asked for this key. Make the key again in this one.")
        user_id = session.visitor.caller.user_id
        if grant.user_id != user_id:
            raise Forbidden(
                f"You are signed in as {user_id}, but confirmed as {grant.user_id}. Make the key"
                f" again, and confirm as {user_id}."
            )
        return grant

    def _open_consent_page(self, authorization: AuthorizationRequest, browser_id: str) -> Response:
        sealed_request = seal(self._access.keyring, authorization, self._access.clock)
        response = redirect(f"{CONSENT_PATH}?{urlencode({'request': sealed_request})}")
        self._browser_check.set_cookie(response, browser_id)
        return response

    async def end(self, session: Session) -> Response:
        """End a session, and send the browser to the home page."""
        await self._sign_ins.end_grant(session.grant_id)
        response = redirect("/")
        response.delete_cookie(
            self._cookie_name, path="/", secure=self._secure, httponly=True, samesite="lax"
        )
        return response

    def verify_form(self, request: Request, session: Session, token: str) -> None:
        """Check that a form was sent from a page of this session.

        Raises:
            Forbidden: The token is not of this session, or there is no `Origin` header. `Visits`
                has already rejected foreign origins.
        """
        subject = session.grant_id or _ANONYMOUS
        is_own = self._access.keyring.verify(_FORM_PURPOSE, subject, token)
        if not is_own or "origin" not in request.headers:
            raise Forbidden(_FORM_MESSAGE)

    async def _find_signed_in(self, grant_id: str) -> Session | None:
        grant_and_account = await self._sign_ins.find_with_account(grant_id)
        if grant_and_account is None:
            return None
        grant, account = grant_and_account
        role = self._access.callers.get_role(account)
        caller = Caller.of(grant.user_id, grant.scopes, role=role, client=grant.client_name)
        visitor = Visitor(caller, f"user:{grant.user_id}")
        return Session(visitor, grant_id, self._sign_form(grant_id))

    def _read_cookie(self, request: Request) -> str | None:
        """Return the grant id in the cookie, or None if this server did not sign it."""
        match = _COOKIE_FORMAT.fullmatch(request.cookies.get(self._cookie_name, ""))
        keyring = self._access.keyring
        return match[1] if match and keyring.verify(_COOKIE_PURPOSE, match[1], match[2]) else None

    def _sign_form(self, subject: str) -> str:
        return self._access.keyring.sign(_FORM_PURPOSE, subject)

    def _make_challenge(self, purpose: str, subject: str) -> str:
        """Return the PKCE challenge that binds a code to a subject: a browser, or a session.

        Only this server can compute it, because its verifier is a signature.
        """
        verifier = self._access.keyring.sign(purpose, subject)
        return to_base64url(hashlib.sha256(verifier.encode()).digest())


def _require_own_path(path: str) -> str:
    """Return a path of this server unchanged, and the home page for any other address."""
    is_own = len(path) <= MAX_PATH_LENGTH and _OWN_PATH.fullmatch(path)
    return path if is_own else "/"
