"""What the SDK's handlers ask: who is known, and what a code or a refresh token is good for.

A refresh token is a signature by the deployment's keyring over its grant and generation, and is not
stored, not even hashed. So what was forged, or was made for another program, costs no look into the
database.
"""

from __future__ import annotations

import asyncio
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
    TokenError,
)
from mcp.shared.auth import OAuthToken
from pydantic import AnyUrl

from functions.gateway.auth.access_tokens import LIFETIME
from functions.gateway.oauth.authorization import (
    CONSENT_PATH,
    AuthorizationRequest,
    grant_of_code,
    seal,
)
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import Scope
from shared.core.errors import Unauthorized

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from mcp.server.auth.provider import AuthorizationParams
    from mcp.shared.auth import OAuthClientInformationFull

    from functions.gateway.auth.access_tokens import AccessTokens
    from functions.gateway.oauth.clients import Client, ClientRegistry, Clients
    from shared.accounts.grant import Grant, Proof
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.firestore.database import Connection

    StillAllowed = Callable[[Proof], bool]
    """Whether a person who proved themselves with Google may still sign in."""

MAX_STATE_LENGTH: Final = 2_000
_DEFAULT_PORTS: Final = {"https": ":443", "http": ":80"}
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_REFRESH_PURPOSE: Final = "refresh token"
_REFRESH_TOKEN: Final = re.compile(r"([0-9a-f]{32})\.([1-9][0-9]{0,8})\.([A-Za-z0-9_-]{43})")
_SIGN_IN_OVER: Final = "This sign-in is over. Sign in again."


class SignIns:
    """Exchanges codes and refresh tokens, and ends sign-ins."""

    def __init__(
        self,
        keyring: Keyring,
        tokens: AccessTokens,
        access: Connection,
        clock: Clock,
        still_allowed: StillAllowed,
    ) -> None:
        """Keep grants through `access`, and make `tokens`."""
        self._keyring = keyring
        self._tokens = tokens
        self._access = access
        self._clock = clock
        self._still_allowed = still_allowed

    async def of_code(self, code: str, client_id: str) -> Grant | None:
        """The sign-in with this code, used or not; None if nobody gets anything for it."""
        return await self._valid_grant(grant_of_code(self._keyring, code, client_id))

    async def of_refresh_token(self, token: str, client_id: str) -> Grant | None:
        """The sign-in with this refresh token, old or new; None if nobody gets anything for it."""
        grant_id, _ = grant_of_refresh_token(self._keyring, token, client_id) or (None, 0)
        return await self._valid_grant(grant_id)

    async def exchange(self, code: str, client_id: str) -> OAuthToken:
        """What one bringer of a code gets. At the second the sign-in ends, for both.

        Raises:
            TokenError: The sign-in is over.
            Unavailable: The database does not answer.
        """
        grant_id = grant_of_code(self._keyring, code, client_id)
        now = self._clock()
        return self._tokens_of(await self._change(grant_id, lambda grant: grant.exchanged(now)))

    async def refresh(self, token: str, client_id: str, scopes: frozenset[Scope]) -> OAuthToken:
        """What the bringer of a refresh token gets; see `Grant.refreshed`.

        Raises:
            TokenError: The sign-in is over.
            Unavailable: The database does not answer.
        """
        grant_id, generation = grant_of_refresh_token(self._keyring, token, client_id) or (None, 0)
        now = self._clock()
        grant = await self._change(grant_id, lambda current: current.refreshed(generation, now))
        return self._tokens_of(grant, scopes)

    async def end(self, text: str, client_id: str) -> None:
        """End the sign-in that this access or refresh token comes from, if it is the program's."""
        refreshing = grant_of_refresh_token(self._keyring, text, client_id)
        grant_id = refreshing[0] if refreshing else self._of_access_token(text, client_id)
        now = self._clock()
        await self._change(grant_id, lambda grant: grant.ended(now))

    def _of_access_token(self, text: str, client_id: str) -> str | None:
        try:
            token = self._tokens.read(text)
        except Unauthorized:
            return None
        return token.grant_id if token.client_id == client_id else None

    async def _change(self, grant_id: str | None, decide: Callable[[Grant], Grant]) -> Grant | None:
        if grant_id is None:
            return None
        return await AccessStore(self._access).grants.change(grant_id, decide)

    def _tokens_of(self, grant: Grant | None, scopes: frozenset[Scope] | None = None) -> OAuthToken:
        now = self._clock()
        if grant is None or not grant.holds(now):
            raise TokenError("invalid_grant", _SIGN_IN_OVER)
        allowed = grant.scopes if scopes is None else grant.scopes & scopes
        until = min(now + LIFETIME, grant.proof.expires_at or now + LIFETIME)
        access_token = self._tokens.issue(
            user_id=grant.user_id,
            client_id=grant.client_id,
            scopes=allowed,
            grant_id=grant.grant_id,
            until=until,
        )
        refresh_token = refresh_token_of(
            self._keyring, grant.grant_id, grant.generation, grant.client_id
        )
        return OAuthToken(
            access_token=access_token,
            expires_in=int((until - now).total_seconds()),
            scope=" ".join(sorted(allowed)),
            refresh_token=refresh_token,
        )

    async def _valid_grant(self, grant_id: str | None) -> Grant | None:
        """The grant of this id, if it is valid and its person still allowed: two round trips."""
        if grant_id is None:
            return None
        store = AccessStore(self._access)
        grant = await store.grants.get(grant_id)
        if grant is None or not grant.holds(self._clock()):
            return None
        account, proven_at = await asyncio.gather(
            store.accounts.get(grant.user_id), self._proven_at(store, grant)
        )
        is_valid = (
            proven_at and account.accepts(proven_at) and account.accepts(grant.created_at, grant_id)
        )
        return grant if is_valid else None

    async def _proven_at(self, store: AccessStore, grant: Grant) -> datetime | None:
        """Since when what the person proved themselves with has been good; None if it is not."""
        proof = grant.proof
        if proof.key_id is None:
            return grant.created_at if self._still_allowed(proof) else None
        key = await store.keys.get(proof.key_id)
        is_valid = key and key.user_id == proof.user_id and key.holds(self._clock())
        return key.created_at if key and is_valid else None


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
    registry: ClientRegistry
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
        if not is_our_resource(params.resource, self.resource):
            raise AuthorizeError("invalid_target", f"the resource here is {self.resource}")
        if not _CHALLENGE.fullmatch(params.code_challenge):
            raise AuthorizeError("invalid_request", "code_challenge is no SHA-256 in base64url")
        if params.state and len(params.state) > MAX_STATE_LENGTH:
            raise AuthorizeError("invalid_request", f"state takes {MAX_STATE_LENGTH} characters")
        request = AuthorizationRequest(
            client_id=client.client_id,
            client_name=client.client_name,
            redirect_uri=str(params.redirect_uri),
            redirect_uri_given=params.redirect_uri_provided_explicitly,
            scopes=frozenset(Scope(name) for name in params.scopes or []),
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
        requested = frozenset(Scope(name) for name in scopes)
        return await self.sign_ins.refresh(refresh_token.token, client.client_id, requested)

    async def load_access_token(self, token: str) -> AccessToken | None:  # noqa: ARG002 - the SDK's
        """Nothing: `Callers` verifies access tokens, and no handler of ours asks here."""
        return None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """End the sign-in of a token."""
        await self.sign_ins.end(token.token, token.client_id)


def is_our_resource(resource: str | None, ours: str) -> bool:
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


def refresh_token_of(keyring: Keyring, grant_id: str, generation: int, client_id: str) -> str:
    """The refresh token of a grant's generation, for the program that it was given to."""
    signature = keyring.sign(_REFRESH_PURPOSE, f"{grant_id}.{generation}.{client_id}")
    return f"{grant_id}.{generation}.{signature}"


def grant_of_refresh_token(keyring: Keyring, token: str, client_id: str) -> tuple[str, int] | None:
    """The grant's id and the generation; None if we did not make it for this program."""
    match = _REFRESH_TOKEN.fullmatch(token)
    if not match:
        return None
    grant_id, generation, signature = match.groups()
    signed = f"{grant_id}.{generation}.{client_id}"
    if not keyring.verifies(_REFRESH_PURPOSE, signed, signature):
        return None
    return grant_id, int(generation)
