"""What a program asks a person for, and the authorization code that it gets if they agree.

The request travels, signed, in the address of the consent page. So nothing is stored before
somebody has approved, and nobody fills the database by asking.

A code is a signature by the deployment's keyring over the id of its grant, and is not stored, not
even hashed. So a stolen database opens nothing, and a code that was forged, cut or given to another
program is known without a look into it.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.gateway.oauth.redirect_uris import redirect_with
from shared.accounts.grant import CODE_LIFETIME, Grant, Proof
from shared.accounts.repositories.access_store import AccessStore
from shared.core.base64url import from_base64url, to_base64url
from shared.core.caller import Scope
from shared.core.dates import from_microseconds, to_microseconds
from shared.core.errors import Forbidden, InvalidInput, Unauthorized

if TYPE_CHECKING:
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.firestore.database import Connection

CONSENT_PATH: Final = "/consent"
"""Where a person decides; the request is its parameter `request`."""
LIFETIME: Final = timedelta(minutes=10)
"""How long a person may take to decide."""
_GRANT_ID_BYTES: Final = 16
_REQUEST_PURPOSE: Final = "authorization request"
_CODE_PURPOSE: Final = "authorization code"
_CODE: Final = re.compile(r"([0-9a-f]{32})\.([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRequest:
    """A request whose client, redirect address, scopes and code challenge were checked.

    Attributes:
        client_id: The program that asks.
        client_name: What it calls itself; nobody has verified that.
        redirect_uri: Where the answer goes.
        redirect_uri_given: Whether the program named that address, or it was the only one.
        scopes: What it asks for.
        state: What it wants to get back with the answer.
        code_challenge: The SHA-256 of its secret verifier (RFC 7636).
    """

    client_id: str
    client_name: str | None
    redirect_uri: str
    redirect_uri_given: bool
    scopes: frozenset[Scope]
    state: str | None
    code_challenge: str


def seal(keyring: Keyring, request: AuthorizationRequest, clock: Clock) -> str:
    """A text for an address, which only we can make and which is valid for ten minutes."""
    asked_at = to_microseconds(clock())
    fields = asdict(request) | {"scopes": sorted(request.scopes), "asked_at": asked_at}
    plain = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    body = to_base64url(plain.encode())
    return f"{body}.{keyring.sign(_REQUEST_PURPOSE, body)}"


def unseal(keyring: Keyring, text: str, clock: Clock) -> AuthorizationRequest:
    """The request that `seal` made this text of.

    Raises:
        InvalidInput: It was not made by us, or longer than ten minutes ago.
    """
    body, _, signature = text.partition(".")
    if not keyring.verifies(_REQUEST_PURPOSE, body, signature):
        raise InvalidInput("This address is damaged. Start again from the program that sent you.")
    fields = json.loads(from_base64url(body))
    if clock() - from_microseconds(fields.pop("asked_at")) > LIFETIME:
        raise InvalidInput("This page waited too long. Start again from the program that sent you.")
    scopes = frozenset(Scope(name) for name in fields.pop("scopes"))
    return AuthorizationRequest(**fields, scopes=scopes)


class Approvals:
    """Turns what a person decided into the address where their browser goes next.

    Codes are made nowhere else, and nobody gets one without a proof.
    """

    def __init__(self, keyring: Keyring, access: Connection, issuer: str, clock: Clock) -> None:
        """Keep grants through `access`, in the name of `issuer`."""
        self._keyring = keyring
        self._access = access
        self._issuer = issuer
        self._clock = clock

    async def approve(
        self, request: AuthorizationRequest, proof: Proof, allowed: frozenset[Scope]
    ) -> str:
        """Grant what was asked, and return the address that takes the code to the program.

        Whether the key of a proof is still valid is looked up again with every exchange.

        Args:
            request: What was asked.
            proof: Who grants it.
            allowed: What they may hand on: no key hands on more than it allows itself.

        Raises:
            Unauthorized: There is no proof.
            Forbidden: They may hand on nothing of what was asked.
            Unavailable: The database does not answer; nothing was granted.
        """
        if not isinstance(proof, Proof):
            raise Unauthorized("Nobody has proved who they are.")
        scopes = request.scopes & allowed
        if not scopes:
            raise Forbidden("This key allows nothing of what the program asks for.")
        now = self._clock()
        grant = Grant(
            grant_id=secrets.token_hex(_GRANT_ID_BYTES),
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
        return redirect_with(request.redirect_uri, code=code, state=request.state, iss=self._issuer)

    def deny(self, request: AuthorizationRequest) -> str:
        """The address that tells the program that the person refused."""
        return redirect_with(
            request.redirect_uri,
            error="access_denied",
            error_description="The person refused.",
            state=request.state,
            iss=self._issuer,
        )


def code_of(keyring: Keyring, grant_id: str, client_id: str) -> str:
    """The code of a grant, for the program that it was given to."""
    return f"{grant_id}.{keyring.sign(_CODE_PURPOSE, f'{grant_id}.{client_id}')}"


def grant_of_code(keyring: Keyring, code: str, client_id: str) -> str | None:
    """The id of the grant whose code this is; None if we did not make it for this program."""
    match = _CODE.fullmatch(code)
    if not match or not keyring.verifies(_CODE_PURPOSE, f"{match[1]}.{client_id}", match[2]):
        return None
    return match[1]
