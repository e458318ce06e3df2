"""Signs and verifies with the deployment's secrets, so that only this deployment can sign.

Each kind of token is signed for its own purpose, a text such as "access key", so that a signature
made for one purpose is not valid for another. The key for a purpose is the HMAC-SHA-256 of that
text under the secret. Several secrets allow rotation: the first secret signs, and all verify.
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
"""The id of a secret has this many hexadecimal digits, enough to tell a deployment's few secrets
apart."""


class Keyring:
    """The secrets of a deployment, newest first."""

    def __init__(self, secrets: Sequence[SecretStr]) -> None:
        """Index the secrets by the ids that are derived from them.

        Raises:
            InvalidInput: No secret is configured.
        """
        if not secrets:
            raise InvalidInput(
                "ACCESS_SECRETS is not set: a JSON list of secrets of at least 32 random"
                " characters. Make one with: openssl rand -base64 32"
            )
        values = [secret.get_secret_value().encode() for secret in secrets]
        self._secrets = {hashlib.sha256(value).hexdigest()[:_ID_LENGTH]: value for value in values}

    @property
    def newest_id(self) -> str:
        """The id of the secret that makes new signatures."""
        return next(iter(self._secrets))

    def derive_key(self, purpose: str, secret_id: str) -> bytes:
        """Derive the 32-byte key for a purpose from a secret.

        Raises:
            KeyError: The secret is unknown or was removed.
        """
        return hmac.digest(self._secrets[secret_id], purpose.encode(), "sha256")

    def sign(self, purpose: str, message: str) -> str:
        """Sign a message for one purpose. The signature has 43 characters and is safe in URLs."""
        return self._compute_signature(purpose, message, self.newest_id)

    def verify(
        self, purpose: str, message: str, signature: str, *, length: int | None = None
    ) -> bool:
        """Return in constant time whether one of the secrets made this signature.

        Args:
            signature: The untrusted signature.
            length: How many characters of the signature are compared, if it was truncated. By
                default, all are.
        """
        # Signatures are compared as bytes, because `compare_digest` rejects text outside ASCII. All
        # are compared, so that the time does not tell which secret matched.
        signature_bytes = signature.encode("utf-8", "surrogatepass")
        signatures = [
            self._compute_signature(purpose, message, secret_id) for secret_id in self._secrets
        ]
        matches = [
            hmac.compare_digest(text[:length].encode(), signature_bytes) for text in signatures
        ]
        return any(matches)

    def _compute_signature(self, purpose: str, message: str, secret_id: str) -> str:
        key = self.derive_key(purpose, secret_id)
        digest = hmac.digest(key, message.encode("utf-8", "surrogatepass"), "sha256")
        return to_base64url(digest)
