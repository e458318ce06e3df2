"""Access tokens: JSON Web Tokens (RFC 9068), verified without a database read.

The functions import `jwt` themselves because its import is slow, and a call without a token does
not need it.
"""

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

ACCESS_TOKEN_LIFETIME: Final = timedelta(hours=1)
"""A token is valid for at most this long after it was issued."""
_ALGORITHM: Final = "HS256"
_JWT_TYPE: Final = "at+jwt"
_DOT_COUNT: Final = 2
"""The number of dots in a JSON Web Token."""
_KEY_PURPOSE: Final = "access token"
"""The purpose of the key that signs tokens; see `Keyring`."""
_REQUIRED_CLAIMS: Final = ["iss", "aud", "exp", "iat", "sub", "client_id", "scope", "sid"]
"""The claims without which a token is not valid. `sid` is the id of the grant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedToken:
    """The content of a verified access token."""

    user_id: str
    client_id: str
    scopes: frozenset[Scope]
    grant_id: str
    issued_at: datetime
    client_name: str | None = None


class AccessTokens:
    """Issues and verifies the access tokens of a deployment."""

    def __init__(self, keyring: Keyring, issuer: str, resource: str, clock: Clock) -> None:
        self._keyring = keyring
        self._issuer = issuer
        self._resource = resource
        self._clock = clock

    def issue(  # noqa: PLR0913 - a claim each
        self,
        *,
        user_id: str,
        client_id: str,
        scopes: frozenset[Scope],
        grant_id: str,
        client_name: str | None = None,
        until: datetime | None = None,
    ) -> str:
        """Issue a token that is valid for an hour, or until the given moment if that is sooner."""
        import jwt

        now = self._clock()
        latest_expiry = now + ACCESS_TOKEN_LIFETIME
        claims = {
            "iss": self._issuer,
            "aud": self._resource,
            "sub": user_id,
            "client_id": client_id,
            "client_name": client_name,
            "scope": " ".join(sorted(scopes)),
            "sid": grant_id,
            "iat": int(now.timestamp()),
            "exp": int(min(latest_expiry, until or latest_expiry).timestamp()),
            "jti": uuid.uuid4().hex,
        }
        secret_id = self._keyring.newest_id
        key = self._keyring.derive_key(_KEY_PURPOSE, secret_id)
        headers = {"kid": secret_id, "typ": _JWT_TYPE}
        return jwt.encode(claims, key, algorithm=_ALGORITHM, headers=headers)

    def verify(self, text: str) -> VerifiedToken:
        """Verify a token and return its content.

        Raises:
            Unauthorized: The token has expired, or this server did not issue it for this resource.
        """
        import jwt

        if text.count(".") != _DOT_COUNT:
            raise Unauthorized("This is not a key or a token. Copy it in full, without quotes.")
        try:
            return _parse_claims(self._decode_token(text))
        except jwt.ExpiredSignatureError:
            raise Unauthorized("The access token has expired. Refresh it.") from None
        # The header is read before the signature is verified, so anybody may have written it:
        # parts of it may be missing or of any type. A claim may be of the wrong type, too.
        except (jwt.PyJWTError, AttributeError, KeyError, TypeError, ValueError):
            raise Unauthorized("This access token is not valid here. Sign in again.") from None

    def _decode_token(self, text: str) -> dict[str, Any]:
        """Verify a token, and return its claims, whose types are not checked yet."""
        import jwt

        header = jwt.get_unverified_header(text)
        if header["typ"] != _JWT_TYPE:
            raise ValueError(header["typ"])
        claims: dict[str, Any] = jwt.decode(
            text,
            self._keyring.derive_key(_KEY_PURPOSE, header["kid"]),
            algorithms=[_ALGORITHM],
            audience=self._resource,
            issuer=self._issuer,
            # The expiry is checked below, against this object's clock, which tests replace.
            options={"require": _REQUIRED_CLAIMS, "verify_exp": False, "verify_iat": False},
        )
        if self._clock().timestamp() >= claims["exp"]:
            raise jwt.ExpiredSignatureError
        return claims


def _parse_claims(claims: dict[str, Any]) -> VerifiedToken:
    return VerifiedToken(
        user_id=claims["sub"],
        client_id=claims["client_id"],
        scopes=frozenset(Scope(name) for name in claims["scope"].split()),
        grant_id=claims["sid"],
        issued_at=datetime.fromtimestamp(claims["iat"], UTC),
        client_name=claims.get("client_name"),
    )
