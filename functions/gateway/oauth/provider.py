"""What the SDK's handlers ask, answered by our own parts."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlencode

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
)
from pydantic import AnyUrl

from functions.gateway.oauth.authorization import CONSENT_PATH, AuthorizationRequest, seal
from shared.core.caller import Scope

if TYPE_CHECKING:
    from mcp.server.auth.provider import AuthorizationParams
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

    from functions.gateway.oauth.client import Client
    from functions.gateway.oauth.clients import Clients, EveryClient
    from functions.gateway.oauth.sign_ins import SignIns
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock

LONGEST_STATE: Final = 2_000
_DEFAULT_PORTS: Final = {"https": ":443", "http": ":80"}
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Adapts to the SDK; it decides nothing about people.

    Attributes:
        issuer: Our name.
        resource: What access tokens are for.
        keyring: Signs requests on their way to the consent page.
        clock: What time it is.
        clients: Who is known at this endpoint.
        registry: Who registers.
        sign_ins: What people allowed.
    """

    issuer: str
    resource: str
    keyring: Keyring
    clock: Clock
    clients: Clients
    registry: EveryClient
    sign_ins: SignIns

    async def get_client(self, client_id: str) -> Client | None:
        """The program with this id."""
        return await self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Keep a new program."""
        await self.registry.register(client_info)

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        """The address of the page where the person decides. No code is made here.

        Raises:
            AuthorizeError: The request is for somebody else, or cannot be served.
        """
        if not is_ours(params.resource, self.resource):
            raise AuthorizeError("invalid_target", f"the resource here is {self.resource}")
        if not _CHALLENGE.fullmatch(params.code_challenge):
            raise AuthorizeError("invalid_request", "code_challenge is no SHA-256 in base64url")
        if params.state and len(params.state) > LONGEST_STATE:
            raise AuthorizeError("invalid_request", f"state takes {LONGEST_STATE} characters")
        request = AuthorizationRequest(
            client_id=client.client_id,
            client_name=client.client_name,
            redirect_uri=str(params.redirect_uri),
            redirect_uri_given=params.redirect_uri_provided_explicitly,
            scopes=frozenset(Scope(each) for each in params.scopes or []),
            state=params.state,
            code_challenge=params.code_challenge,
        )
        sealed = seal(self.keyring, request, self.clock)
        return f"{self.issuer}{CONSENT_PATH}?{urlencode({'request': sealed})}"

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        """What a code is bound to. A used one is loaded too: only its owner may end it by it."""
        grant = await self.sign_ins.of_code(authorization_code, client.client_id)
        if grant is None:
            return None
        return AuthorizationCode(
            code=authorization_code,
            scopes=sorted(grant.scopes),
            expires_at=math.inf,  # the grant is, and by our own clock
            client_id=grant.client_id,
            code_challenge=grant.code_challenge,
            redirect_uri=AnyUrl(grant.redirect_uri),
            redirect_uri_provided_explicitly=grant.redirect_uri_given,
        )

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        """Tokens for a code whose verifier was shown."""
        await self.registry.used(cast("Client", client))
        return await self.sign_ins.exchange(authorization_code.code, client.client_id)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        """What a refresh token allows; one that was used before too."""
        grant = await self.sign_ins.of_refresh_token(refresh_token, client.client_id)
        if grant is None:
            return None
        return RefreshToken(
            token=refresh_token, client_id=grant.client_id, scopes=sorted(grant.scopes)
        )

    async def exchange_refresh_token(
        self,
        client: OAuthClientInformationFull,
        refresh_token: RefreshToken,
        scopes: list[str],
    ) -> OAuthToken:
        """Tokens for a refresh token."""
        await self.registry.used(cast("Client", client))
        wanted = frozenset(Scope(each) for each in scopes)
        return await self.sign_ins.refresh(refresh_token.token, client.client_id, wanted)

    async def load_access_token(self, token: str) -> AccessToken | None:  # noqa: ARG002 - the SDK's
        """Nothing: `Callers` verifies access tokens, and no handler of ours asks here."""
        return None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """End the sign-in of a token."""
        await self.sign_ins.end(token.token, token.client_id)


def is_ours(resource: str | None, ours: str) -> bool:
    """Whether a request is for our resource, by name or by default (RFC 8707)."""
    return resource is None or _normalized(resource) == _normalized(ours)


def _normalized(uri: str) -> str:
    """A URI as others may write it too (RFC 3986, 6.2.2.1 and 6.2.3), without a slash at its end.

    The case of scheme and host does not matter, and the scheme's own port may be left out.
    """
    scheme, _, rest = uri.partition("://")
    host, _, path = rest.partition("/")
    scheme = scheme.lower()
    host = host.lower().removesuffix(_DEFAULT_PORTS.get(scheme, ""))
    return f"{scheme}://{host}/{path}".rstrip("/")
