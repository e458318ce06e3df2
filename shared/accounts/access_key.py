"""Creates and verifies access keys: long-lived secrets with which scripts act for a user.

The text of a key is `carrel_{key id}_{secret}{checksum}`. The checksum is part of a signature, so a
guessed key is rejected without a database read.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.caller import require_user_id

if TYPE_CHECKING:
    from datetime import datetime

    from shared.accounts.keyring import Keyring
    from shared.core.caller import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    """What is stored of a key. The key's text is shown once and never stored.

    Attributes:
        key_id: The id, which is part of the key's text.
        text_hash: The HMAC of the text under the deployment's secret, so that a copy of the
            database alone is not enough to test guesses.
        expires_at: When the key expires, or None if it never does.
        used_at: When the key was last used, to the hour, or None if it was never used.
    """

    key_id: str
    user_id: str
    name: str
    scopes: frozenset[Scope]
    text_hash: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    used_at: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Return whether the key has neither expired nor been revoked."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


KEY_PREFIX: Final = "carrel_"
"""The text of every key begins with this prefix, by which secret scanners recognize it."""
_ID_LENGTH: Final = 12
"""The id of a key has this many hexadecimal digits."""
_RANDOM_BYTES: Final = 32
"""The secret of a key is derived from this many random bytes unless the request has an id."""
_CHECKSUM_LENGTH: Final = 8
"""The checksum has this many characters of base64url (48 bits)."""
_KEY_FORMAT: Final = re.compile(r"carrel_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
"""The text of a key before the checksum. The first group is the id."""
_HASH_PURPOSE: Final = "access key"
"""The purpose of the signature of a key's text, which is stored as `text_hash`."""
_CHECKSUM_PURPOSE: Final = "access key check"
_SECRET_PURPOSE: Final = "access key secret"  # noqa: S105 - not a secret


def new_key(  # noqa: PLR0913 - a key has this many independent fields
    keyring: Keyring,
    user_id: str,
    name: str,
    scopes: frozenset[Scope],
    *,
    created_at: datetime,
    expires_at: datetime | None = None,
    request_id: str | None = None,
) -> tuple[str, AccessKey]:
    """Create a key, and return its text, to show once, and its record, to store.

    Args:
        request_id: An unguessable id of the request for a key. A repeated request creates the same
            text and id. By default, they are random.
    """
    secret = keyring.sign(_SECRET_PURPOSE, request_id or secrets.token_urlsafe(_RANDOM_BYTES))
    key_id = hashlib.sha256(secret.encode()).hexdigest()[:_ID_LENGTH]
    body = f"{KEY_PREFIX}{key_id}_{secret}"
    text = body + keyring.sign(_CHECKSUM_PURPOSE, body)[:_CHECKSUM_LENGTH]
    key = AccessKey(
        key_id=key_id,
        user_id=require_user_id(user_id),
        name=name,
        scopes=scopes,
        text_hash=keyring.sign(_HASH_PURPOSE, text),
        created_at=created_at,
        expires_at=expires_at,
    )
    return text, key


def parse_key_id(keyring: Keyring, text: str) -> str | None:
    """Return the id in a key's text, or None if this deployment did not create the key.

    The key may have been revoked since, or may have expired: see `AccessKey.is_valid`.
    """
    body = text[:-_CHECKSUM_LENGTH]
    checksum = text[-_CHECKSUM_LENGTH:]
    match = _KEY_FORMAT.fullmatch(body)
    if not match or not keyring.verify(_CHECKSUM_PURPOSE, body, checksum, length=_CHECKSUM_LENGTH):
        return None
    return match[1]


def matches_key(keyring: Keyring, text: str, key: AccessKey) -> bool:
    """Return whether `text` is the text of the stored key. Takes the same time for any text."""
    return keyring.verify(_HASH_PURPOSE, text, key.text_hash)
