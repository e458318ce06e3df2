"""What a program gets for a code or a refresh token, and when it gets nothing any more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mcp.server.auth.provider import TokenError
from mcp.shared.auth import OAuthToken

from functions.gateway.auth.access_tokens import LIFETIME
from functions.gateway.oauth.tickets import (
    grant_of_code,
    grant_of_refresh_token,
    refresh_token_of,
)
from shared.accounts.repositories.access_store import AccessStore
from shared.core.errors import Unauthorized

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from functions.gateway.auth.access_tokens import AccessTokens
    from shared.accounts.grant import Grant, Proof
    from shared.accounts.keyring import Keyring
    from shared.core.caller import Scope
    from shared.core.dates import Clock
    from shared.firestore.database import Connection

    StillAllowed = Callable[[Proof], bool]
    """Whether a person who proved themselves with Google may still sign in."""

_OVER: Final = "This sign-in is over. Sign in again."


class SignIns:
    """Exchanges codes and refresh tokens, and ends sign-ins.

    What is forged, or was made for another program, costs no look into the database.
    """

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
        return await self._standing(grant_of_code(self._keyring, code, client_id))

    async def of_refresh_token(self, token: str, client_id: str) -> Grant | None:
        """The sign-in with this refresh token, old or new; None if nobody gets anything for it."""
        ticket = grant_of_refresh_token(self._keyring, token, client_id)
        return await self._standing(ticket and ticket[0])

    async def exchange(self, code: str, client_id: str) -> OAuthToken:
        """What one bringer of a code gets. At the second the sign-in ends, for both.

        Raises:
            TokenError: The sign-in is over.
            Unavailable: The database does not answer.
        """
        grant_id = grant_of_code(self._keyring, code, client_id)
        now = self._clock()
        return self._given(await self._changed(grant_id, lambda grant: grant.exchanged(now)))

    async def refresh(self, token: str, client_id: str, scopes: frozenset[Scope]) -> OAuthToken:
        """What the bringer of a refresh token gets; see `Grant.refreshed`.

        Raises:
            TokenError: The sign-in is over.
            Unavailable: The database does not answer.
        """
        ticket = grant_of_refresh_token(self._keyring, token, client_id)
        grant_id, generation = ticket or (None, 0)
        now = self._clock()
        grant = await self._changed(grant_id, lambda each: each.refreshed(generation, now))
        return self._given(grant, scopes)

    async def end(self, text: str, client_id: str) -> None:
        """End the sign-in that this access or refresh token comes from, if it is the program's."""
        ticket = grant_of_refresh_token(self._keyring, text, client_id)
        grant_id = ticket[0] if ticket else self._of_access_token(text, client_id)
        now = self._clock()
        await self._changed(grant_id, lambda grant: grant.ended(now))

    def _of_access_token(self, text: str, client_id: str) -> str | None:
        try:
            token = self._tokens.read(text)
        except Unauthorized:
            return None
        return token.grant_id if token.client_id == client_id else None

    async def _changed(
        self, grant_id: str | None, decide: Callable[[Grant], Grant]
    ) -> Grant | None:
        if grant_id is None:
            return None
        return await AccessStore(self._access).grants.change(grant_id, decide)

    def _given(self, grant: Grant | None, scopes: frozenset[Scope] | None = None) -> OAuthToken:
        now = self._clock()
        if grant is None or not grant.holds(now):
            raise TokenError("invalid_grant", _OVER)
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

    async def _standing(self, grant_id: str | None) -> Grant | None:
        """The grant of this id, if it holds and its person may still be here: two round trips."""
        if grant_id is None:
            return None
        store = AccessStore(self._access)
        grant = await store.grants.get(grant_id)
        if grant is None or not grant.holds(self._clock()):
            return None
        account, proven_at = await asyncio.gather(
            store.accounts.get(grant.user_id), self._proven_at(store, grant)
        )
        holds = (
            proven_at and account.accepts(proven_at) and account.accepts(grant.created_at, grant_id)
        )
        return grant if holds else None

    async def _proven_at(self, store: AccessStore, grant: Grant) -> datetime | None:
        """Since when what the person proved themselves with has been good; None if it is not."""
        proof = grant.proof
        if proof.key_id is None:
            return grant.created_at if self._still_allowed(proof) else None
        key = await store.keys.get(proof.key_id)
        holds = key and key.user_id == proof.user_id and key.holds(self._clock())
        return key.created_at if key and holds else None
