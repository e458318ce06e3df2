"""The person decides: the consent page, what they answer, and their way over Google and back.

Nothing here makes a code. `Approvals` does, for whoever brings a proof, and a proof comes from two
places only: a key that `Callers` found good, or a person whom `Google` let in.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route, request_response

from functions.gateway.auth.client_address import client_address
from functions.gateway.oauth.authorization import CONSENT_PATH, unseal
from functions.gateway.oauth.browsers import Browsers
from functions.gateway.oauth.forms import bounded, parameters_of
from functions.gateway.oauth.google import CALLBACK_PATH
from functions.gateway.oauth.page import SAFE_HEADERS, consent_page, message_page
from shared.accounts.grant import Proof
from shared.core.caller import EVERYTHING
from shared.core.errors import CarrelError, Forbidden, InvalidInput
from shared.core.log import log

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.gateway.auth.callers import Callers
    from functions.gateway.oauth.approval import Approvals
    from functions.gateway.oauth.authorization import AuthorizationRequest
    from functions.gateway.oauth.authorize import AddressLimit
    from functions.gateway.oauth.google import Google
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.core.settings import Settings


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
            come_back = partial(self.come_back, self.google)
            pages.append(Route(CALLBACK_PATH, come_back, methods=["GET"]))
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
            self._browsers.check(request, fields)
            asked = self._unsealed(fields["request"])
        except CarrelError as error:
            return message_page("Your answer was not taken", error)
        try:
            return _redirect(await self._decided(request, fields, asked))
        except CarrelError as error:
            _log_refusal(error)
            return self._page(request, fields["request"], error)

    async def come_back(self, google: Google, request: Request) -> Response:
        """Approve for whoever comes back from Google, if they left from here."""
        back = None
        try:
            state, mark = _one(request, "state"), self._browsers.known(request)
            sealed = google.request_in(state, mark)
            asked = self._unsealed(sealed)
            back = f"{CONSENT_PATH}?request={sealed}"
            await self._count_try(request)
            proof = await google.proof(_code(request), state, mark)
            return _redirect(await self.approvals.approve(asked, proof, EVERYTHING))
        except CarrelError as error:
            _log_refusal(error)
            return message_page("You are not signed in", error, back)

    async def _decided(
        self, request: Request, fields: dict[str, str], asked: AuthorizationRequest
    ) -> str:
        """Where the browser goes next."""
        match fields.get("decision"):
            case "deny":
                return self.approvals.deny(asked)
            case "allow":
                await self._count_try(request)
            case _:
                raise InvalidInput("Press one of the buttons.")
        if self.google:
            return await self.google.address(fields["request"], self._browsers.mark(request))
        return await self._by_key(fields.get("key", "").strip(), asked)

    async def _by_key(self, text: str, asked: AuthorizationRequest) -> str:
        key, account = await self.callers.key(text)
        proof = Proof(
            user_id=account.user_id, kind="key", key_id=key.key_id, expires_at=key.expires_at
        )
        return await self.approvals.approve(asked, proof, key.scopes)

    async def _count_try(self, request: Request) -> None:
        await self.login_limit(client_address(request.scope, self.settings.proxies))

    def _page(self, request: Request, sealed: str, error: CarrelError | None = None) -> Response:
        asked = self._unsealed(sealed)
        mark = self._browsers.mark(request)
        form = self._browsers.form(mark, sealed)
        source = self.google.source if self.google else None
        page = consent_page(asked, sealed, form, google_source=source, error=error)
        self._browsers.remember(page, mark)
        return page

    def _unsealed(self, sealed: str) -> AuthorizationRequest:
        return unseal(self.keyring, sealed, self.clock)

    @cached_property
    def _browsers(self) -> Browsers:
        return Browsers(self.settings, self.keyring)


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
