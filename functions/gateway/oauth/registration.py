"""`/register`: programs register by themselves (RFC 7591). Anybody may, so it is limited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.settings import ClientRegistrationOptions

from functions.gateway.auth.client_address import client_address
from functions.gateway.oauth.failing import NO_STORE

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from functions.gateway.oauth.authorize import AddressLimit
    from functions.gateway.oauth.provider import Provider


class Registration:
    """Lets programs register."""

    def __init__(self, provider: Provider, limit: AddressLimit, trusted_proxies: int) -> None:
        """Ask this provider, as often as `limit` lets an address."""
        self._handler = RegistrationHandler(provider, ClientRegistrationOptions(enabled=True))
        self._limit = limit
        self._trusted_proxies = trusted_proxies

    async def handle(self, request: Request) -> Response:
        """Answer a program's request."""
        await self._limit(client_address(request.scope, self._trusted_proxies))
        response = await self._handler.handle(request)
        response.headers.update(NO_STORE)
        return response
