"""The only place where an authorization code is made, and nobody gets here without a proof."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from functions.gateway.oauth.tickets import code_of
from shared.accounts.grant import CODE_LIFETIME, Grant, Proof
from shared.accounts.repositories.access_store import AccessStore
from shared.core.errors import Forbidden, Unauthorized

if TYPE_CHECKING:
    from functions.gateway.oauth.authorization import AuthorizationRequest
    from shared.accounts.keyring import Keyring
    from shared.core.caller import Scope
    from shared.core.dates import Clock
    from shared.firestore.database import Connection

_ID_BYTES: Final = 16


class Approvals:
    """Turns what a person decided into the address where their browser goes next."""

    def __init__(self, keyring: Keyring, access: Connection, issuer: str, clock: Clock) -> None:
        """Keep grants through `access`, in the name of `issuer`."""
        self._keyring = keyring
        self._access = access
        self._issuer = issuer
        self._clock = clock

    async def approve(
        self, request: AuthorizationRequest, proof: Proof, held: frozenset[Scope]
    ) -> str:
        """Grant what was asked, and return the address that takes the code to the program.

        Whether the key of a proof still holds is looked up again with every exchange.

        Args:
            request: What was asked.
            proof: Who grants it.
            held: What they may hand on: no key hands on more than it allows itself.

        Raises:
            Unauthorized: There is no proof.
            Forbidden: They may hand on nothing of what was asked.
            Unavailable: The database does not answer; nothing was granted.
        """
        if not isinstance(proof, Proof):
            raise Unauthorized("Nobody has proved who they are.")
        scopes = request.scopes & held
        if not scopes:
            raise Forbidden("This key allows nothing of what the program asks for.")
        now = self._clock()
        grant = Grant(
            grant_id=secrets.token_hex(_ID_BYTES),
            user_id=proof.user_id,
            client_id=request.client_id,
            scopes=scopes,
            code_challenge=request.code_challenge,
            redirect_uri=request.redirect_uri,
            redirect_uri_given=request.redirect_uri_given,
            proof=proof,
            created_at=now,
            expires_at=now + CODE_LIFETIME,
        )
        await AccessStore(self._access).grants.add(grant)
        code = code_of(self._keyring, grant.grant_id, grant.client_id)
        return answer_at(request.redirect_uri, code=code, state=request.state, iss=self._issuer)

    def deny(self, request: AuthorizationRequest) -> str:
        """The address that tells the program that the person refused."""
        return answer_at(
            request.redirect_uri,
            error="access_denied",
            error_description="The person refused.",
            state=request.state,
            iss=self._issuer,
        )


def answer_at(redirect_uri: str, **answer: str | None) -> str:
    """The redirect address with an answer in its query, beside what stood there before."""
    told = urlencode({name: value for name, value in answer.items() if value is not None})
    return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{told}"
