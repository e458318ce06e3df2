"""What only this deployment knows: signatures and hashes that nobody else can make.

One secret serves every purpose, since a key of its own is derived for each: the HMAC-SHA-256 of
the purpose under the secret. Several secrets at once are a rotation: the first makes, all verify.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from shared.core.base64url import to_base64url
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import SecretStr

_ID_LENGTH: Final = 8


class Keyring:
    """The secrets of a deployment, newest first."""

    def __init__(self, secrets: Sequence[SecretStr]) -> None:
        """Hold these secrets.

        Raises:
            InvalidInput: There is none.
        """
        if not secrets:
            raise InvalidInput(
                "ACCESS_SECRETS is not set: a JSON list of secrets of at least 32 random"
                " characters. This makes one: openssl rand -base64 32"
            )
        values = [secret.get_secret_value().encode() for secret in secrets]
        self._secrets = {hashlib.sha256(each).hexdigest()[:_ID_LENGTH]: each for each in values}

    @property
    def newest(self) -> str:
        """The id of the secret that makes new signatures and hashes."""
        return next(iter(self._secrets))

    def key(self, purpose: str, secret_id: str) -> bytes:
        """The key for one purpose under a secret, 32 bytes.

        Raises:
            KeyError: The secret was dropped, or never was.
        """
        return hmac.digest(self._secrets[secret_id], purpose.encode(), "sha256")

    def sign(self, purpose: str, message: str) -> str:
        """A signature of `message` that holds for this purpose only: 43 characters, URL-safe."""
        return self._signature(purpose, message, self.newest)

    def verifies(
        self, purpose: str, message: str, signature: str, *, length: int | None = None
    ) -> bool:
        """Whether `sign` made this signature, under whichever secret, in constant time.

        Args:
            purpose: What it must have been made for.
            message: What it must sign.
            signature: Anything.
            length: How many of its characters were kept; by default, all.
        """
        # All are compared, and as bytes: a stranger's text may hold any characters.
        told = signature.encode("utf-8", "surrogatepass")
        wanted = [self._signature(purpose, message, each)[:length] for each in self._secrets]
        found = [hmac.compare_digest(each.encode(), told) for each in wanted]
        return any(found)

    def _signature(self, purpose: str, message: str, secret_id: str) -> str:
        key = self.key(purpose, secret_id)
        digest = hmac.digest(key, message.encode("utf-8", "surrogatepass"), "sha256")
        return to_base64url(digest)
