"""Keys for scripts and local clients, and for signing in without Google."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

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
