"""`/authorize`: the SDK's handler decides what is asked for; here is what it leaves out.

An error that goes back to the program says whose error it is (RFC 9207), and one that cannot goes
to the person, in words, if a browser asks.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mcp.server.auth.handlers.authorize import AuthorizationHandler

from functions.gateway.auth.client_address import client_address
from functions.gateway.oauth.approval import answer_at
from functions.gateway.oauth.authorization import CONSENT_PATH
from functions.gateway.oauth.clients import One, has_document
from functions.gateway.oauth.failing import refuse
from functions.gateway.oauth.forms import parameters_of, with_query
from functions.gateway.oauth.page import message_page
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from functions.gateway.oauth.provider import Provider
    from shared.core.errors import CarrelError

    AddressLimit = Callable[[str], Awaitable[None]]
    """Counts a try from a network address; raises RateLimited where there were too many."""

_UNSAID_METHOD: Final = "plain"
"""What a client means that names no `code_challenge_method` (RFC 7636, 4.3); it is refused."""


_UNKNOWN: Final = (
    "This server does not know the program that sent you, or not any more. In the program, remove"
    " Carrel and add it again."
)


class Authorize:
    """Sends a person's browser to the consent page, or back."""

    def __init__(self, provider: Provider, limit: AddressLimit, trusted_proxies: int) -> None:
        """Ask this provider; `limit` counts those who have us look up a client's document."""
        self._provider = provider
        self._limit = limit
        self._trusted_proxies = trusted_proxies

    async def handle(self, request: Request) -> Response:
        """Answer a request of a person's browser.

        Raises:
            CarrelError: There is nowhere to send the browser with what is wrong.
        """
        asked = {"code_challenge_method": _UNSAID_METHOD, **await parameters_of(request)}
        client_id = asked.get("client_id", "")
        if has_document(client_id):
            await self._limit(client_address(request.scope, self._trusted_proxies))
        # Looked up here, so that the SDK has no failure to log, whose words may be anybody's.
        client = await self._provider.get_client(client_id)
        if client is None:
            raise InvalidInput(_UNKNOWN)
        handler = AuthorizationHandler(replace(self._provider, clients=One(client)))
        response = await handler.handle(with_query(request, asked))
        location = response.headers.get("location")
        if location is None:
            raise InvalidInput(json.loads(bytes(response.body))["error_description"])
        if not location.startswith(f"{self._provider.issuer}{CONSENT_PATH}?"):
            one_line = location.replace("%0A", "+")  # RFC 6749 allows no new line in a description
            response.headers["location"] = answer_at(one_line, iss=self._provider.issuer)
        return response


def tell(request: Request, error: CarrelError) -> Response:
    """Say what is wrong: to a person in words, if a browser asks."""
    if "text/html" in request.headers.get("accept", ""):
        title = "right now" if error.retry_after else "this way"
        return message_page(f"You cannot sign in {title}", error)
    return refuse(request, error)
