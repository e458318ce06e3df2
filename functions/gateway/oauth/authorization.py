"""Authorization requests, and the codes that programs receive when a person approves.

The signed request travels in the URL of the consent page. So nothing is stored before a person
approves, and requests alone cannot fill the database.

A code is a signature by the deployment's keyring over the id of its grant, and is not stored, not
even hashed. So a stolen database contains no codes, and a code that was forged, cut or issued to
another program is rejected without a database read.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.gateway.oauth.redirect_uris import add_query
from shared.accounts.grant import CODE_LIFETIME, Grant, Proof
from shared.accounts.repositories.access_store import AccessStore
from shared.core.base64url import from_base64url, to_base64url
from shared.core.caller import Scope, list_grantable
from shared.core.dates import from_microseconds, to_microseconds
from shared.core.errors import Forbidden, InvalidInput, Unauthorized

if TYPE_CHECKING:
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock
    from shared.firestore.connection import Connection

CONSENT_PATH: Final = "/consent"
"""The path of the consent page. Its parameter `request` is the sealed request."""
CONSOLE_CLIENT_ID: Final = "console"
"""The client id of the web console, which is this server's own program: nobody can register it."""
KEY_CLIENT_ID: Final = "console-key"
"""The client id with which the console asks for proof before it makes a key.

Codes for this client start no session, and codes for a session make no key."""
REQUEST_LIFETIME: Final = timedelta(minutes=10)
"""How long a person has to decide."""
_GRANT_ID_BYTES: Final = 16
"""The number of random bytes in the id of a grant, so that ids cannot be guessed."""
_REQUEST_PURPOSE: Final = "authorization request"
_CODE_PURPOSE: Final = "authorization code"
_START_AGAIN_HINT: Final = "Start again from the program that sent you here."
_CODE_FORMAT: Final = re.compile(r"([0-9a-f]{32})\.([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRequest:
    """A request whose client, redirect URI, scopes and code challenge were validated.

    Attributes:
        client_name: The program's unverified name for itself.
        redirect_uri_given: Whether the request named that URI. If not, it is the client's only one.
        state: The program's own value, which the response repeats.
        code_challenge: The SHA-256 of the program's secret verifier (RFC 7636).
    """

    client_id: str
    client_name: str | None
    redirect_uri: str
    redirect_uri_given: bool
    scopes: frozenset[Scope]
    state: str | None
    code_challenge: str


def seal(keyring: Keyring, request: AuthorizationRequest, clock: Clock) -> str:
    """Serialize and sign a request for a URL. It is valid for `REQUEST_LIFETIME`."""
    asked_at = to_microseconds(clock())
    fields = asdict(request) | {"scopes": sorted(request.scopes), "asked_at": asked_at}
    payload = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    body = to_base64url(payload.encode())
    return f"{body}.{keyring.sign(_REQUEST_PURPOSE, body)}"


def unseal(keyring: Keyring, text: str, clock: Clock) -> AuthorizationRequest:
    """Verify a sealed request, and return it.

    Raises:
        InvalidInput: This server did not seal it, or it has expired.
    """
    body, _, signature = text.partition(".")
    if not keyring.verify(_REQUEST_PURPOSE, body, signature):
        raise InvalidInput(f"This address is not valid. {_START_AGAIN_HINT}")
    fields = json.loads(from_base64url(body))
    if clock() - from_microseconds(fields.pop("asked_at")) > REQUEST_LIFETIME:
        raise InvalidInput(f"This page has expired. {_START_AGAIN_HINT}")
    scopes = frozenset(Scope(name) for name in fields.pop("scopes"))
    return AuthorizationRequest(**fields, scopes=scopes)


class Approvals:
    """Turns a person's decision into the URL that their browser goes to next.

    It is the only place that makes codes, and it requires a proof of identity.
    """

    def __init__(self, keyring: Keyring, database: Connection, issuer: str, clock: Clock) -> None:
        self._keyring = keyring
        self._database = database
        self._issuer = issuer
        self._clock = clock

    async def approve(
        self, request: AuthorizationRequest, proof: Proof, allowed_scopes: frozenset[Scope]
    ) -> str:
        """Store a grant, and return the URL that takes the code to the program.

        Every later exchange checks again whether the key of the proof is valid.

        Args:
            allowed_scopes: The scopes that the person may grant, at most those of their key.

        Raises:
            Unauthorized: There is no proof.
            Forbidden: The person may grant none of the requested scopes.
            Unavailable: The database does not answer, and nothing was granted.
        """
        if not isinstance(proof, Proof):
            raise Unauthorized("The sign-in has no proof of identity.")
        scopes = request.scopes & list_grantable(allowed_scopes)
        if not scopes:
            raise Forbidden("This key has none of the scopes that the program requests.")
        now = self._clock()
        grant = Grant(
            grant_id=secrets.token_hex(_GRANT_ID_BYTES),
            user_id=proof.user_id,
            client_id=request.client_id,
            client_name=request.client_name,
            scopes=scopes,
            code_challenge=request.code_challenge,
            redirect_uri=request.redirect_uri,
            redirect_uri_given=request.redirect_uri_given,
            proof=proof,
            created_at=now,
            expires_at=now + CODE_LIFETIME,
        )
        await AccessStore(self._database).grants.add(grant)
        code = make_code(self._keyring, grant.grant_id, grant.client_id)
        return add_query(request.redirect_uri, code=code, state=request.state, iss=self._issuer)

    def deny(self, request: AuthorizationRequest) -> str:
        """Return the URL that tells the program that the person denied access."""
        return add_query(
            request.redirect_uri,
            error="access_denied",
            error_description="The person denied access.",
            state=request.state,
            iss=self._issuer,
        )


def make_code(keyring: Keyring, grant_id: str, client_id: str) -> str:
    """Make the code of a grant, for its program."""
    return f"{grant_id}.{keyring.sign(_CODE_PURPOSE, f'{grant_id}.{client_id}')}"


def parse_code(keyring: Keyring, code: str, client_id: str) -> str | None:
    """Return the grant id of a code, or None if this server did not issue it to this program."""
    match = _CODE_FORMAT.fullmatch(code)
    if not match or not keyring.verify(_CODE_PURPOSE, f"{match[1]}.{client_id}", match[2]):
        return None
    return match[1]
