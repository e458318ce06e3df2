"""`/token`: the SDK's handler exchanges; here is what it leaves out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import ClientAuthenticator

from functions.gateway.oauth.failing import failure
from functions.gateway.oauth.forms import parameters_of, with_form
from functions.gateway.oauth.provider import is_ours
from functions.gateway.oauth.tickets import with_newest_secret

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from functions.gateway.oauth.provider import Provider

GRANT_TYPES: Final = ("authorization_code", "refresh_token")
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class Exchange:
    """Exchanges codes and refresh tokens for tokens."""

    def __init__(self, provider: Provider) -> None:
        """Ask this provider."""
        self._provider = provider
        self._handler = TokenHandler(provider, ClientAuthenticator(provider))

    async def handle(self, request: Request) -> Response:
        """Answer a program's request."""
        asked = await parameters_of(request)
        if asked.get("grant_type", GRANT_TYPES[0]) not in GRANT_TYPES:
            return failure(400, "unsupported_grant_type", f"There are {' and '.join(GRANT_TYPES)}.")
        if not is_ours(asked.get("resource"), self._provider.resource):
            return failure(400, "invalid_target", f"The resource here is {self._provider.resource}")
        verifier = asked.get("code_verifier")
        if verifier and not _VERIFIER.fullmatch(verifier):
            return failure(400, "invalid_grant", "code_verifier has 43 to 128 characters.")
        shown = with_newest_secret(self._provider.keyring, asked)
        answer: Response = await self._handler.handle(with_form(request, shown))
        return answer
