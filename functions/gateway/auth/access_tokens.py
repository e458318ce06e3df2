"""Access tokens: JSON Web Tokens as RFC 9068 has them, verified without a look into a database."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from shared.core.caller import Scope
from shared.core.errors import Unauthorized

if TYPE_CHECKING:
    from shared.accounts.keyring import Keyring
    from shared.core.dates import Clock

LIFETIME: Final = timedelta(hours=1)
_ALGORITHM: Final = "HS256"
_TYPE: Final = "at+jwt"
_DOTS: Final = 2
_PURPOSE: Final = "access token"
_CLAIMS: Final = ["iss", "aud", "exp", "iat", "sub", "client_id", "scope", "sid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """What a token says.

    Attributes:
        user_id: On whose behalf it acts.
        client_id: The program it was given to.
        scopes: What it allows.
        grant_id: The sign-in that it comes from.
        made_at: When it was made.
    """

    user_id: str
    client_id: str
    scopes: frozenset[Scope]
    grant_id: str
    made_at: datetime


class AccessTokens:
    """Makes and verifies the tokens of one gateway."""

    def __init__(self, keyring: Keyring, issuer: str, resource: str, clock: Clock) -> None:
        """Speak for `issuer`; tokens are good for `resource` alone."""
        self._keyring = keyring
        self._issuer = issuer
        self._resource = resource
        self._clock = clock

    def issue(
        self,
        *,
        user_id: str,
        client_id: str,
        scopes: frozenset[Scope],
        grant_id: str,
        until: datetime | None = None,
    ) -> str:
        """A token for the next hour, or until then where that is sooner."""
        import jwt

        now = self._clock()
        claims = {
            "iss": self._issuer,
            "aud": self._resource,
            "sub": user_id,
            "client_id": client_id,
            "scope": " ".join(sorted(scopes)),
            "sid": grant_id,
            "iat": int(now.timestamp()),
            "exp": int(min(now + LIFETIME, until or now + LIFETIME).timestamp()),
            "jti": uuid.uuid4().hex,
        }
        secret_id = self._keyring.newest
        key = self._keyring.key(_PURPOSE, secret_id)
        headers = {"kid": secret_id, "typ": _TYPE}
        return jwt.encode(claims, key, algorithm=_ALGORITHM, headers=headers)

    def read(self, text: str) -> AccessToken:
        """What a token says.

        Raises:
            Unauthorized: It was not issued by this server, is for somebody else, or is over.
        """
        import jwt

        if text.count(".") != _DOTS:
            raise Unauthorized("This is neither a key nor a token: copy it without quotes.")
        try:
            return _token(self._verified(text))
        except jwt.ExpiredSignatureError:
            raise Unauthorized("The access token has expired. Refresh it.") from None
        except (jwt.PyJWTError, AttributeError, KeyError, TypeError, ValueError):
            raise Unauthorized("This access token is not valid here. Sign in again.") from None

    def _verified(self, text: str) -> dict[str, Any]:
        import jwt

        header = jwt.get_unverified_header(text)
        if header["typ"] != _TYPE:
            raise ValueError(header["typ"])
        claims: dict[str, Any] = jwt.decode(
            text,
            self._keyring.key(_PURPOSE, header["kid"]),
            algorithms=[_ALGORITHM],
            audience=self._resource,
            issuer=self._issuer,
            # Our own clock decides below: a test brings its own.
            options={"require": _CLAIMS, "verify_exp": False, "verify_iat": False},
        )
        if self._clock().timestamp() >= claims["exp"]:
            raise jwt.ExpiredSignatureError
        return claims


def _token(claims: dict[str, Any]) -> AccessToken:
    return AccessToken(
        user_id=claims["sub"],
        client_id=claims["client_id"],
        scopes=frozenset(Scope(name) for name in claims["scope"].split()),
        grant_id=claims["sid"],
        made_at=datetime.fromtimestamp(claims["iat"], UTC),
    )
