"""Creates and verifies access keys."""

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
        user_id: The user on whose behalf the key acts.
        name: The owner's name for the key.
        scopes: The scopes of the key.
        text_hash: The hash of the text, with the deployment's secret as pepper.
        created_at: When the key was created.
        expires_at: When the key expires, or None if it never does.
        revoked_at: When the key was revoked, or None.
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
_ID_LENGTH: Final = 12
_REQUEST_BYTES: Final = 32
_CHECKSUM_LENGTH: Final = 8
_KEY_FORMAT: Final = re.compile(r"carrel_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_HASH_PURPOSE, _CHECKSUM_PURPOSE, _SECRET_PURPOSE = (
    "access key",
    "access key check",
    "access key secret",
)


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

    The text ends with a signature, so that a guessed key is rejected without a database read.

    Args:
        keyring: The deployment's secrets.
        user_id: The user on whose behalf the key acts.
        name: The owner's name for the key.
        scopes: The scopes of the key.
        created_at: The present time.
        expires_at: When the key expires, or None if it never does.
        request_id: Names the request for a key, with enough randomness that nobody else can. If it
            is repeated, the text and the id are the same. By default, they are random.
    """
    secret = keyring.sign(_SECRET_PURPOSE, request_id or secrets.token_urlsafe(_REQUEST_BYTES))
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
    """Return the id in a key's text, or None if this deployment did not create the key."""
    body = text[:-_CHECKSUM_LENGTH]
    checksum = text[-_CHECKSUM_LENGTH:]
    match = _KEY_FORMAT.fullmatch(body)
    if not match or not keyring.verify(_CHECKSUM_PURPOSE, body, checksum, length=_CHECKSUM_LENGTH):
        return None
    return match[1]


def matches_key(keyring: Keyring, text: str, key: AccessKey) -> bool:
    """Return whether this is the text of a key."""
    return keyring.verify(_HASH_PURPOSE, text, key.text_hash)
