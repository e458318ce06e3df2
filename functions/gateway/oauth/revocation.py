"""`/revoke`: a program gives back what it got (RFC 7009). The SDK's handler refuses public ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.server.auth.middleware.client_auth import AuthenticationError, ClientAuthenticator
from starlette.responses import Response

from functions.gateway.oauth.failing import NO_STORE, failure
from functions.gateway.oauth.forms import parameters_of, with_form
from functions.gateway.oauth.tickets import with_newest_secret

if TYPE_CHECKING:
    from starlette.requests import Request

    from functions.gateway.oauth.provider import Provider


class Revocation:
    """Ends sign-ins."""

    def __init__(self, provider: Provider) -> None:
        """Ask this provider."""
        self._provider = provider
        self._authenticator = ClientAuthenticator(provider)

    async def handle(self, request: Request) -> Response:
        """End the sign-in of a token, whichever it is; an unknown one has none."""
        asked = await parameters_of(request)
        shown = with_newest_secret(self._provider.keyring, asked)
        try:
            client = await self._authenticator.authenticate_request(with_form(request, shown))
        except AuthenticationError as error:
            return failure(401, "invalid_client", error.message)
        token = asked.get("token")
        if token is None:
            return failure(400, "invalid_request", "Send the token that is to be revoked.")
        await self._provider.sign_ins.end(token, client.client_id)
        return Response(status_code=200, headers=NO_STORE)
