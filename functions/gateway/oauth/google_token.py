"""Who signed in at Google: an ID token, verified (OpenID Connect Core 1.0, section 3.1.3.7)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from shared.core.errors import Unauthorized

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

ALGORITHM: Final = "RS256"
"""The only one: a token that names its own could name one that anybody can compute."""
SKEW: Final = timedelta(minutes=1)
"""How far apart Google's clock and ours may be."""
_CLAIMS: Final = ["iss", "aud", "exp", "iat", "sub", "nonce", "email", "email_verified"]


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody whom Google knows.

    Attributes:
        email: Their verified address, in lower case.
        domain: The Google Workspace that they belong to, in lower case; None if to none.
        nonce: What the sign-in was asked with, to be compared.
    """

    email: str
    domain: str | None
    nonce: str


async def read_id_token(
    text: str,
    key_of: Callable[[str], Awaitable[dict[str, Any]]],
    *,
    issuer: str,
    client_id: str,
    now: datetime,
) -> Person:
    """Verify a token.

    Args:
        text: As Google's token endpoint gave it.
        key_of: Finds a public key, as a JSON Web Key, by its id.
        issuer: Who must have made it.
        client_id: For whom it must be.
        now: The current time.

    Raises:
        Unauthorized: It is not valid.
    """
    import jwt

    try:
        header = jwt.get_unverified_header(text)
        key = jwt.PyJWK(await key_of(str(header["kid"])), ALGORITHM)
        claims = jwt.decode(
            text,
            key,
            algorithms=[ALGORITHM],
            audience=client_id,
            issuer=issuer,
            # Our own clock decides below: a test brings its own.
            options={
                "require": _CLAIMS,
                "strict_aud": True,
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
        return _person(claims, client_id, now)
    except (jwt.PyJWTError, KeyError, TypeError, ValueError) as error:
        raise Unauthorized("What Google sent about you is not valid. Try again.") from error


def _person(claims: dict[str, Any], client_id: str, now: datetime) -> Person:
    moment, skew = now.timestamp(), SKEW.total_seconds()
    if not claims["iat"] - skew <= moment < claims["exp"] + skew:
        raise ValueError("time")
    if claims.get("azp", client_id) != client_id:
        raise ValueError("azp")
    if claims["email_verified"] is not True:
        raise Unauthorized("Google has not verified the e-mail address of this account.")
    if not str(claims["email"]).isascii():  # in lower case, a Kelvin sign is a k
        raise ValueError("email")
    domain = claims.get("hd")
    return Person(
        str(claims["email"]).lower(), domain and str(domain).lower(), str(claims["nonce"])
    )
