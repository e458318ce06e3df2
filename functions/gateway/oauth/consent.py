"""The person decides: the consent page, what they answer, and their way over Google and back.

Nothing here makes a code. `Approvals` does, for whoever brings a proof, and a proof comes from two
places only: a key that `Callers` found valid, or a person whom `Google` let in.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from starlette.responses import Response
from starlette.routing import Route, request_response

from functions.gateway.auth.client_address import client_address
from functions.gateway.auth.public_url import issuer_of, origins_of
from functions.gateway.oauth.authorization import CONSENT_PATH, unseal
from functions.gateway.oauth.consent_page import SAFE_HEADERS, consent_page, message_page
from functions.gateway.oauth.google import CALLBACK_PATH
from functions.gateway.oauth.http import bounded, parameters_of
from shared.accounts.grant import Proof
from shared.core.caller import EVERYTHING
from shared.core.errors import CarrelError, Forbidden, InvalidInput
from shared.core.log import log

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.gateway.auth.callers import Callers
    from functions.gateway.oauth.authorization import Approvals, AuthorizationRequest
    from functions.gateway.oauth.google import Google
    from functions.gateway.rate_limits import AddressLimit
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.core.settings import Settings

_FORM_PURPOSE: Final = "consent form"
_COOKIE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_SAME_SITE: Final = ("same-origin", "none")
"""What `Sec-Fetch-Site` says of a form on our page, and of what a person reloads."""
_OTHER_BROWSER: Final = (
    "This answer does not come from the page that you were shown in this browser. Allow cookies for"
    " this site, and start again from the program that sent you here."
)


@dataclass(frozen=True)
class Consent:
    """Answers a person's browser, and keeps nothing between its requests.

    Attributes:
        settings: The public address, and how many proxies stand before it.
        keyring: Signs forms, and verifies requests.
        callers: Knows keys.
        approvals: Makes codes.
        clock: What time it is.
        login_limit: Is told of each try; going to Google and coming back are two.
        google: Where people prove who they are; without it they do so here, by access key.
    """

    _: KW_ONLY
    settings: Settings
    keyring: Keyring
    callers: Callers
    approvals: Approvals
    clock: Clock
    login_limit: AddressLimit
    google: Google | None

    def routes(self) -> list[Route]:
        """Where the pages are."""
        pages = [
            Route(CONSENT_PATH, self.ask, methods=["GET"]),
            Route(CONSENT_PATH, bounded(request_response(self.answer)), methods=["POST"]),
        ]
        if self.google:
            callback = partial(self.callback, self.google)
            pages.append(Route(CALLBACK_PATH, callback, methods=["GET"]))
        return pages

    async def ask(self, request: Request) -> Response:
        """Show who asks for what."""
        try:
            return self._page(request, _one(request, "request"))
        except CarrelError as error:
            return message_page("There is nothing to decide here", error)

    async def answer(self, request: Request) -> Response:
        """Do as the person decided, once it is sure that they did."""
        try:
            fields = await parameters_of(request)
            self._browser_check.verify_form(request, fields)
            authorization = self._unsealed(fields["request"])
        except CarrelError as error:
            return message_page("Your answer was not taken", error)
        try:
            return _redirect(await self._decided(request, fields, authorization))
        except CarrelError as error:
            _log_refusal(error)
            return self._page(request, fields["request"], error)

    async def callback(self, google: Google, request: Request) -> Response:
        """Approve for whoever comes back from Google, if they left from here."""
        back = None
        try:
            state, browser_id = _one(request, "state"), self._browser_check.known_id(request)
            sealed = google.request_in(state, browser_id)
            authorization = self._unsealed(sealed)
            back = f"{CONSENT_PATH}?request={sealed}"
            await self._count_try(request)
            proof = await google.proof(_code(request), state, browser_id)
            return _redirect(await self.approvals.approve(authorization, proof, EVERYTHING))
        except CarrelError as error:
            _log_refusal(error)
            return message_page("You are not signed in", error, back)

    async def _decided(
        self, request: Request, fields: dict[str, str], authorization: AuthorizationRequest
    ) -> str:
        """Where the browser goes next."""
        match fields.get("decision"):
            case "deny":
                return self.approvals.deny(authorization)
            case "allow":
                await self._count_try(request)
            case _:
                raise InvalidInput("Press one of the buttons.")
        if self.google:
            return await self.google.address(
                fields["request"], self._browser_check.browser_id(request)
            )
        return await self._by_key(fields.get("key", "").strip(), authorization)

    async def _by_key(self, text: str, authorization: AuthorizationRequest) -> str:
        key, account = await self.callers.key(text)
        proof = Proof(
            user_id=account.user_id, kind="key", key_id=key.key_id, expires_at=key.expires_at
        )
        return await self.approvals.approve(authorization, proof, key.scopes)

    async def _count_try(self, request: Request) -> None:
        await self.login_limit(client_address(request.scope, self.settings.proxies))

    def _page(self, request: Request, sealed: str, error: CarrelError | None = None) -> Response:
        authorization = self._unsealed(sealed)
        browser_id = self._browser_check.browser_id(request)
        form = self._browser_check.form_token(browser_id, sealed)
        source = self.google.source if self.google else None
        page = consent_page(authorization, sealed, form, google_source=source, error=error)
        self._browser_check.set_cookie(page, browser_id)
        return page

    def _unsealed(self, sealed: str) -> AuthorizationRequest:
        return unseal(self.keyring, sealed, self.clock)

    @cached_property
    def _browser_check(self) -> _BrowserCheck:
        return _BrowserCheck(self.settings, self.keyring)


class _BrowserCheck:
    """Makes sure that the browser that was shown a page is the one that answers (CSRF, login CSRF).

    Whoever lures a person's browser into sending a form, or into coming back from Google, does not
    know the random value that this browser keeps in a cookie, and so cannot make what belongs to
    it.
    """

    def __init__(self, settings: Settings, keyring: Keyring) -> None:
        """Speak for the public address; over plain HTTP, which stays on a laptop, more weakly."""
        self._secure = issuer_of(settings).lower().startswith("https:")
        # Of this prefix, browsers take no cookie that a neighbouring host or plain HTTP set.
        self._cookie = "__Host-carrel" if self._secure else "carrel"
        self._origins = origins_of(settings)
        self._keyring = keyring

    def browser_id(self, request: Request) -> str:
        """What tells this browser from others; a new one gets a new id."""
        return self.known_id(request) or secrets.token_urlsafe(32)

    def known_id(self, request: Request) -> str:
        """The same if the browser was here before, else nothing."""
        value = request.cookies.get(self._cookie, "")
        return value if _COOKIE.fullmatch(value) else ""

    def set_cookie(self, response: Response, browser_id: str) -> None:
        """Have the browser keep its id until it is closed."""
        response.set_cookie(
            self._cookie, browser_id, path="/", secure=self._secure, httponly=True, samesite="lax"
        )

    def form_token(self, browser_id: str, sealed: str) -> str:
        """What the form with this request must bring back."""
        return self._keyring.sign(_FORM_PURPOSE, f"{browser_id}.{sealed}")

    def verify_form(self, request: Request, fields: dict[str, str]) -> None:
        """Make sure that a form was filled in on our page, in this browser.

        Raises:
            Forbidden: It was not.
        """
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "same-origin")
        browser_id, sealed = self.known_id(request), fields.get("request", "")
        if (
            not browser_id
            or (origin is not None and origin not in self._origins)
            or site not in _SAME_SITE
            or not self._keyring.verifies(
                _FORM_PURPOSE, f"{browser_id}.{sealed}", fields.get("form", "")
            )
        ):
            raise Forbidden(_OTHER_BROWSER)


def _one(request: Request, name: str) -> str:
    values = request.query_params.getlist(name)
    if len(values) != 1:
        raise InvalidInput("Start from the program that wants access to Carrel: it leads you here.")
    return values[0]


def _code(request: Request) -> str:
    if "error" in request.query_params:
        raise Forbidden("You did not finish signing in at Google.")
    return _one(request, "code")


def _redirect(address: str) -> Response:
    return Response(status_code=303, headers={**SAFE_HEADERS, "location": address})


def _log_refusal(error: CarrelError) -> None:
    log.warning("sign_in_refused", code=error.code)
