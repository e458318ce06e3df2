"""What a program asks a person for. It travels, signed, in the address of the consent page.

So nothing is stored before somebody has approved, and nobody fills the database by asking.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.core.base64url import from_base64url, to_base64url
from shared.core.caller import Scope
from shared.core.dates import from_microseconds, microseconds
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock

CONSENT_PATH: Final = "/consent"
"""Where a person decides; the request is its parameter `request`."""
LIFETIME: Final = timedelta(minutes=10)
_PURPOSE: Final = "authorization request"


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
    """A text for an address, which only we can make and which holds for ten minutes."""
    asked_at = microseconds(clock())
    fields = asdict(request) | {"scopes": sorted(request.scopes), "asked_at": asked_at}
    plain = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    body = to_base64url(plain.encode())
    return f"{body}.{keyring.sign(_PURPOSE, body)}"


def unseal(keyring: Keyring, text: str, clock: Clock) -> AuthorizationRequest:
    """The request that `seal` made this text of.

    Raises:
        InvalidInput: It was not made by us, or longer than ten minutes ago.
    """
    body, _, signature = text.partition(".")
    if not keyring.verifies(_PURPOSE, body, signature):
        raise InvalidInput("This address is damaged. Start again from the program that sent you.")
    fields = json.loads(from_base64url(body))
    if clock() - from_microseconds(fields.pop("asked_at")) > LIFETIME:
        raise InvalidInput("This page waited too long. Start again from the program that sent you.")
    scopes = frozenset(Scope(each) for each in fields.pop("scopes"))
    return AuthorizationRequest(**fields, scopes=scopes)
