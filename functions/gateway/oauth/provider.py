"""The provider behind the SDK's OAuth handlers: clients, codes and refresh tokens.

A refresh token is a signature by the deployment's keyring over its grant and generation, and is not
stored, not even hashed. So a token that was forged, or issued to another program, is rejected
without a database read.
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

from functions.gateway.auth.access_tokens import ACCESS_TOKEN_LIFETIME
from functions.gateway.oauth.authorization import (
    CONSENT_PATH,
    AuthorizationRequest,
    parse_code,
    seal,
)
from functions.gateway.oauth.consent_page import sanitize_name
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import Scope
from shared.core.errors import Unauthorized

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from mcp.server.auth.provider import AuthorizationParams
    from mcp.shared.auth import OAuthClientInformationFull

    from functions.gateway.auth.access_tokens import AccessTokens
    from functions.gateway.oauth.clients import Client, ClientRegistry
    from shared.accounts.account import Account
    from shared.accounts.grant import Grant, Proof
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.firestore.connection import Connection

    ProofCheck = Callable[[Proof], bool]
    """A function that returns whether a person who signed in with Google is still allowed."""

MAX_STATE_LENGTH: Final = 2_000
"""The maximum length of a request's `state`, in characters. It is sent in a URL."""
_DEFAULT_PORTS: Final = {"https": ":443", "http": ":80"}
_CHALLENGE_FORMAT: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_REFRESH_PURPOSE: Final = "refresh token"
_NETWORK_PURPOSE: Final = "network of a sign-in"
_REFRESH_TOKEN_FORMAT: Final = re.compile(r"([0-9a-f]{32})\.([1-9][0-9]{0,8})\.([A-Za-z0-9_-]{43})")
_SIGN_IN_ENDED_MESSAGE: Final = "This sign-in has ended. Sign in again."


class SignInService:
    """Exchanges codes and refresh tokens, and ends sign-ins."""

    def __init__(
        self,
        keyring: Keyring,
        tokens: AccessTokens,
        database: Connection,
        clock: Clock,
        is_still_allowed: ProofCheck,
    ) -> None:
        self._keyring = keyring
        self._tokens = tokens
        self._database = database
        self._clock = clock
        self._is_still_allowed = is_still_allowed

    async def find_by_code(self, code: str, client_id: str) -> Grant | None:
        """Find the valid sign-in of a code, even if the code was used already."""
        return await self._load_valid_grant(parse_code(self._keyring, code, client_id))

    async def find_with_account(self, grant_id: str) -> tuple[Grant, Account] | None:
        """Find a valid sign-in, and the account of its user. Costs two round trips."""
        store = AccessStore(self._database)
        grant = await store.grants.get(grant_id)
        if grant is None or not grant.is_valid(self._clock()):
            return None
        account, proof_start = await asyncio.gather(
            store.accounts.get(grant.user_id), self._load_proof_start(store, grant)
        )
        is_valid = (
            proof_start
            and account.accepts(proof_start)
            and account.accepts(grant.created_at, grant_id)
        )
        return (grant, account) if is_valid else None

    async def find_by_refresh_token(self, token: str, client_id: str) -> Grant | None:
        """Find the valid sign-in of a refresh token, even if the token was used already."""
        grant_id, _ = parse_refresh_token(self._keyring, token, client_id) or (None, 0)
        return await self._load_valid_grant(grant_id)

    async def exchange(self, code: str, client_id: str) -> OAuthToken:
        """Exchange a code for tokens. A second exchange ends the sign-in.

        Raises:
            TokenError: The sign-in has ended.
            Unavailable: The database does not answer.
        """
        return self._issue_tokens(await self.redeem(code, client_id))

    async def redeem(self, code: str, client_id: str) -> Grant | None:
        """Exchange a code, and return its sign-in. A second exchange ends the sign-in.

        Raises:
            Unavailable: The database does not answer.
        """
        now = self._clock()
        grant_id = parse_code(self._keyring, code, client_id)
        return await self._change(grant_id, lambda grant: grant.exchange_code(now))

    async def consume(self, code: str, client_id: str) -> Grant | None:
        """Use a code only as a proof of identity: return its sign-in, and end it.

        Costs three round trips, and one for a code that is not valid.

        Raises:
            Unavailable: The database does not answer.
        """
        grant = await self.find_by_code(code, client_id)
        if grant is not None:
            await self.end_grant(grant.grant_id)
        return grant

    async def refresh(
        self, token: str, client_id: str, scopes: frozenset[Scope], address: str
    ) -> OAuthToken:
        """Exchange a refresh token for new tokens, by the rules of `Grant.refresh`.

        Args:
            scopes: The scopes of the new access token.

        Raises:
            TokenError: The sign-in has ended.
            Unavailable: The database does not answer.
        """
        grant_id, generation = parse_refresh_token(self._keyring, token, client_id) or (None, 0)
        now = self._clock()
        # A hash per sign-in, so that the database tells neither an address nor who shares it.
        network = self._keyring.sign(_NETWORK_PURPOSE, f"{grant_id}.{address}")
        grant = await self._change(
            grant_id, lambda current: current.refresh(generation, now, network)
        )
        return self._issue_tokens(grant, scopes)

    async def end(self, token: str, client_id: str) -> None:
        """End the sign-in of an access or refresh token that was issued to this program."""
        grant_and_generation = parse_refresh_token(self._keyring, token, client_id)
        grant_id = (
            grant_and_generation[0]
            if grant_and_generation
            else self._find_grant_of_access_token(token, client_id)
        )
        await self.end_grant(grant_id)

    async def end_grant(self, grant_id: str | None) -> None:
        """End a sign-in by its id."""
        now = self._clock()
        await self._change(grant_id, lambda grant: grant.end(now))

    def _find_grant_of_access_token(self, text: str, client_id: str) -> str | None:
        """Return the id of the grant of a client's access token, or None if it is not valid."""
        try:
            token = self._tokens.verify(text)
        except Unauthorized:
            return None
        return token.grant_id if token.client_id == client_id else None

    async def _change(self, grant_id: str | None, decide: Callable[[Grant], Grant]) -> Grant | None:
        if grant_id is None:
            return None
        return await AccessStore(self._database).grants.change(grant_id, decide)

    def _issue_tokens(
        self, grant: Grant | None, scopes: frozenset[Scope] | None = None
    ) -> OAuthToken:
        now = self._clock()
        if grant is None or not grant.is_valid(now):
            raise TokenError("invalid_grant", _SIGN_IN_ENDED_MESSAGE)
        allowed_scopes = grant.scopes if scopes is None else grant.scopes & scopes
        latest_expiry = now + ACCESS_TOKEN_LIFETIME
        expires_at = min(latest_expiry, grant.proof.expires_at or latest_expiry)
        access_token = self._tokens.issue(
            user_id=grant.user_id,
            client_id=grant.client_id,
            scopes=allowed_scopes,
            grant_id=grant.grant_id,
            client_name=grant.client_name,
            until=expires_at,
        )
        refresh_token = make_refresh_token(
            self._keyring, grant.grant_id, grant.generation, grant.client_id
        )
        return OAuthToken(
            access_token=access_token,
            expires_in=int((expires_at - now).total_seconds()),
            scope=" ".join(sorted(allowed_scopes)),
            refresh_token=refresh_token,
        )

    async def _load_valid_grant(self, grant_id: str | None) -> Grant | None:
        """Load a grant if it is valid and its person is still allowed. Costs two round trips."""
        grant_and_account = await self.find_with_account(grant_id) if grant_id else None
        return grant_and_account[0] if grant_and_account else None

    async def _load_proof_start(self, store: AccessStore, grant: Grant) -> datetime | None:
        """Return the start of the proof's validity, or None if the proof is no longer valid."""
        proof = grant.proof
        if proof.key_id is None:
            return grant.created_at if self._is_still_allowed(proof) else None
        key = await store.keys.get(proof.key_id)
        is_valid = key and key.user_id == proof.user_id and key.is_valid(self._clock())
        return key.created_at if key and is_valid else None


@dataclass(frozen=True, slots=True)
class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """The adapter to the SDK's interface.

    Attributes:
        find_client: Looks up a client, which differs between endpoints. Returns None if it is
            unknown or has expired.
        address: The network address of the request that is being answered.
    """

    issuer: str
    resource: str
    keyring: Keyring
    clock: Clock
    find_client: Callable[[str], Awaitable[Client | None]]
    registry: ClientRegistry
    sign_ins: SignInService
    address: str = ""

    async def get_client(self, client_id: str) -> Client | None:
        """Return the client with this id, or None if it is unknown or has expired."""
        return await self.find_client(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Register a client."""
        await self.registry.register(client_info)

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        """Return the URL of the consent page. No code is made here.

        Raises:
            AuthorizeError: The request is for another resource, or its parameters are not valid.
        """
        if not is_same_resource(params.resource, self.resource):
            raise AuthorizeError("invalid_target", f"the resource must be {self.resource}")
        if not _CHALLENGE_FORMAT.fullmatch(params.code_challenge):
            raise AuthorizeError(
                "invalid_request", "code_challenge must be a SHA-256 hash in base64url"
            )
        if params.state and len(params.state) > MAX_STATE_LENGTH:
            raise AuthorizeError(
                "invalid_request", f"state may have up to {MAX_STATE_LENGTH} characters"
            )
        request = AuthorizationRequest(
            client_id=client.client_id,
            client_name=sanitize_name(client.client_name or "") or None,
            redirect_uri=str(params.redirect_uri),
            redirect_uri_given=params.redirect_uri_provided_explicitly,
            scopes=frozenset(Scope(name) for name in params.scopes or []),
            state=params.state,
            code_challenge=params.code_challenge,
        )
        sealed_request = seal(self.keyring, request, self.clock)
        return f"{self.issuer}{CONSENT_PATH}?{urlencode({'request': sealed_request})}"

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        """Load an authorization code, even a used one, so that its exchange ends the grant."""
        grant = await self.sign_ins.find_by_code(authorization_code, client.client_id)
        if grant is None:
            return None
        return AuthorizationCode(
            code=authorization_code,
            scopes=sorted(grant.scopes),
            expires_at=math.inf,  # the grant expires instead, by this server's clock
            client_id=grant.client_id,
            code_challenge=grant.code_challenge,
            redirect_uri=AnyUrl(grant.redirect_uri),
            redirect_uri_provided_explicitly=grant.redirect_uri_given,
        )

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        """Exchange a code whose verifier was checked."""
        await self.registry.extend(cast("Client", client))
        return await self.sign_ins.exchange(authorization_code.code, client.client_id)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        """Load a refresh token, even a used one, so that its exchange may end the grant."""
        grant = await self.sign_ins.find_by_refresh_token(refresh_token, client.client_id)
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
        """Exchange a refresh token."""
        await self.registry.extend(cast("Client", client))
        requested_scopes = frozenset(Scope(name) for name in scopes)
        return await self.sign_ins.refresh(
            refresh_token.token, client.client_id, requested_scopes, self.address
        )

    async def load_access_token(self, token: str) -> AccessToken | None:  # noqa: ARG002 - the SDK's signature
        """Return nothing: `Callers` verifies access tokens, and no handler calls this."""
        return None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """End the sign-in of a token."""
        await self.sign_ins.end(token.token, token.client_id)


def is_same_resource(requested: str | None, resource: str) -> bool:
    """Return whether a request is for this resource, by name or by default (RFC 8707)."""
    return requested is None or _normalize(requested) == _normalize(resource)


def _normalize(uri: str) -> str:
    """Normalize a URI (RFC 3986, 6.2.2.1 and 6.2.3), and remove a trailing slash.

    The scheme and the host become lower-case, and the scheme's default port is removed.
    """
    scheme, _, host_and_path = uri.partition("://")
    host, _, path = host_and_path.partition("/")
    scheme = scheme.lower()
    host = host.lower().removesuffix(_DEFAULT_PORTS.get(scheme, ""))
    return f"{scheme}://{host}/{path}".rstrip("/")


def make_refresh_token(keyring: Keyring, grant_id: str, generation: int, client_id: str) -> str:
    """Make the refresh token of a grant's generation, for its program."""
    signature = keyring.sign(_REFRESH_PURPOSE, f"{grant_id}.{generation}.{client_id}")
    return f"{grant_id}.{generation}.{signature}"


def parse_refresh_token(keyring: Keyring, token: str, client_id: str) -> tuple[str, int] | None:
    """Verify a refresh token, and return its grant id and generation.

    Returns:
        The grant id and generation, or None if this server did not issue the token to this program.
    """
    match = _REFRESH_TOKEN_FORMAT.fullmatch(token)
    if not match:
        return None
    grant_id, generation, signature = match.groups()
    signed = f"{grant_id}.{generation}.{client_id}"
    if not keyring.verify(_REFRESH_PURPOSE, signed, signature):
        return None
    return grant_id, int(generation)
