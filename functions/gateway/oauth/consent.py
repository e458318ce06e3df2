"""Consent: the page, the person's answer, and the round trip to Google.

This module issues no authorization codes. `Approvals` does, in exchange for a proof of identity,
which is either a key that `Callers` verified or a sign-in with `GoogleSignIn`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, request_response

from functions.gateway.auth.client_address import get_client_address
from functions.gateway.oauth.authorization import CONSENT_PATH, unseal
from functions.gateway.oauth.browser_check import BrowserCheck
from functions.gateway.oauth.consent_page import SAFE_HEADERS, make_consent_page, make_message_page
from functions.gateway.oauth.google import CALLBACK_PATH
from functions.gateway.oauth.http import limit_body, read_parameters
from shared.accounts.grant import Proof
from shared.core.caller import FULL_ACCESS
from shared.core.errors import CarrelError, Forbidden, InvalidInput
from shared.core.log import log

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.gateway.auth.callers import Callers
    from functions.gateway.oauth.authorization import Approvals, AuthorizationRequest
    from functions.gateway.oauth.google import GoogleSignIn
    from functions.gateway.rate_limits import AddressLimit
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.core.settings import Settings


@dataclass(frozen=True)
class Consent:
    """The pages and the callback of sign-in, without state between requests.

    Attributes:
        login_limit: Counts sign-in attempts. A sign-in with Google counts twice, before and after.
        google: Sign-in with Google, or None if people sign in with an access key.
    """

    _: KW_ONLY
    settings: Settings
    keyring: Keyring
    callers: Callers
    approvals: Approvals
    clock: Clock
    login_limit: AddressLimit
    google: GoogleSignIn | None

    def routes(self) -> list[Route]:
        """Make the routes of the pages."""
        pages = [
            Route(CONSENT_PATH, self.show, methods=["GET"]),
            Route(CONSENT_PATH, limit_body(request_response(self.submit)), methods=["POST"]),
        ]
        if self.google:
            callback = partial(self.callback, self.google)
            pages.append(Route(CALLBACK_PATH, callback, methods=["GET"]))
        return pages

    async def show(self, request: Request) -> Response:
        """Show the consent page."""
        try:
            return self._render_page(request, _get_single_parameter(request, "request"))
        except CarrelError as error:
            return make_message_page("This page is not valid", error)

    async def submit(self, request: Request) -> Response:
        """Verify the form and follow the person's decision."""
        try:
            fields = await read_parameters(request)
            self._browser_check.verify_form(request, fields)
            authorization = self._unseal(fields["request"])
        except CarrelError as error:
            return make_message_page("Your answer was not accepted", error)
        try:
            return _redirect(await self._apply_decision(request, fields, authorization))
        except CarrelError as error:
            _log_rejection(error)
            return self._render_page(request, fields["request"], error)

    async def callback(self, google: GoogleSignIn, request: Request) -> Response:
        """Approve the request when the person returns from Google."""
        retry_url = None
        try:
            state = _get_single_parameter(request, "state")
            browser_id = self._browser_check.get_existing_id(request)
            sealed_request = google.verify_state(state, browser_id)
            authorization = self._unseal(sealed_request)
            retry_url = f"{CONSENT_PATH}?request={sealed_request}"
            await self._count_attempt(request)
            proof = await google.authenticate(_get_code(request), state, browser_id)
            return _redirect(await self.approvals.approve(authorization, proof, FULL_ACCESS))
        except CarrelError as error:
            _log_rejection(error)
            return make_message_page("You are not signed in", error, retry_url)

    async def _apply_decision(
        self, request: Request, fields: dict[str, str], authorization: AuthorizationRequest
    ) -> str:
        match fields.get("decision"):
            case "deny":
                return self.approvals.deny(authorization)
            case "allow":
                await self._count_attempt(request)
            case _:
                raise InvalidInput("Press one of the buttons.")
        if self.google:
            return await self.google.make_authorization_url(
                fields["request"], self._browser_check.get_browser_id(request)
            )
        return await self._approve_by_key(fields.get("key", "").strip(), authorization)

    async def _approve_by_key(self, text: str, authorization: AuthorizationRequest) -> str:
        key, account = await self.callers.verify_key(text)
        proof = Proof(
            user_id=account.user_id, kind="key", key_id=key.key_id, expires_at=key.expires_at
        )
        return await self.approvals.approve(authorization, proof, key.scopes)

    async def _count_attempt(self, request: Request) -> None:
        await self.login_limit(get_client_address(request.scope, self.settings.proxy_count))

    def _render_page(
        self, request: Request, sealed_request: str, error: CarrelError | None = None
    ) -> Response:
        authorization = self._unseal(sealed_request)
        browser_id = self._browser_check.get_browser_id(request)
        form = self._browser_check.make_form_token(browser_id, sealed_request)
        source = self.google.csp_source if self.google else None
        page = make_consent_page(
            authorization, sealed_request, form, google_source=source, error=error
        )
        self._browser_check.set_cookie(page, browser_id)
        return page

    def _unseal(self, sealed_request: str) -> AuthorizationRequest:
        return unseal(self.keyring, sealed_request, self.clock)

    @cached_property
    def _browser_check(self) -> BrowserCheck:
        return BrowserCheck(self.settings, self.keyring)


def _get_single_parameter(request: Request, name: str) -> str:
    values = request.query_params.getlist(name)
    if len(values) != 1:
        raise InvalidInput(
            "Start from the program that you want to connect to Carrel; it opens this page."
        )
    return values[0]


def _get_code(request: Request) -> str:
    if "error" in request.query_params:
        raise Forbidden("You did not finish signing in with Google.")
    return _get_single_parameter(request, "code")


def _redirect(address: str) -> Response:
    return RedirectResponse(address, 303, SAFE_HEADERS)


def _log_rejection(error: CarrelError) -> None:
    log.warning("sign_in_refused", code=error.code)
