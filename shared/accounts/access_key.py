"""Access keys: how they look, and how they are made and checked."""

from __future__ import annotations

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
    """What is known of a key. The key itself is shown once and kept nowhere.

    Attributes:
        key_id: Names it; the key's text contains it.
        user_id: On whose behalf it acts.
        name: What its owner calls it.
        scopes: What it allows.
        text_hash: Of its text, with the deployment's secret as pepper.
        created_at: When it was made.
        expires_at: When it ends; None if never.
        revoked_at: When it was revoked; None if it was not.
        used_at: About when it was last used; None if never.
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

    def holds(self, now: datetime) -> bool:
        """Whether it neither expired nor was revoked."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


PREFIX: Final = "carrel_"
_SECRET_BYTES: Final = 32
_CHECK_LENGTH: Final = 8
_FORM: Final = re.compile(r"carrel_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_HASH, _CHECK = "access key", "access key check"


def new_key(  # noqa: PLR0913 - each says something of its own
    keyring: Keyring,
    user_id: str,
    name: str,
    scopes: frozenset[Scope],
    *,
    created_at: datetime,
    expires_at: datetime | None = None,
) -> tuple[str, AccessKey]:
    """Make a key: its text, to be shown once, and what to keep of it.

    The text ends with a signature, so that a guess costs no look into the database.
    """
    key_id = secrets.token_hex(6)
    body = f"{PREFIX}{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    text = body + keyring.sign(_CHECK, body)[:_CHECK_LENGTH]
    key = AccessKey(
        key_id=key_id,
        user_id=require_user_id(user_id),
        name=name,
        scopes=scopes,
        text_hash=keyring.sign(_HASH, text),
        created_at=created_at,
        expires_at=expires_at,
    )
    return text, key


def key_id_of(keyring: Keyring, text: str) -> str | None:
    """The id of the key with this text, if we may have made it."""
    body, check = text[:-_CHECK_LENGTH], text[-_CHECK_LENGTH:]
    form = _FORM.fullmatch(body)
    known = form and keyring.verifies(_CHECK, body, check, length=_CHECK_LENGTH)
    return form[1] if form and known else None


def is_text_of(keyring: Keyring, text: str, key: AccessKey) -> bool:
    """Whether this is the text of that key."""
    return keyring.verifies(_HASH, text, key.text_hash)
