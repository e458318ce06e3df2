"""Programs that registered by themselves to sign people in (RFC 7591)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

UNUSED_LIFETIME: Final = timedelta(days=1)
"""How long a registration lasts with which nobody ever signed in: anybody can make thousands."""
USED_LIFETIME: Final = timedelta(days=90)
"""How long it lasts after its last token: longer than any sign-in that it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """What a program told of itself. Nobody has verified any of it.

    Attributes:
        client_id: Names it.
        name: What it calls itself.
        redirect_uris: Where codes may be sent.
        has_secret: Whether it authenticates with one; public clients cannot keep any.
        created_at: When it registered.
        expires_at: When the registration ends, unless it is used.
    """

    client_id: str
    name: str | None
    redirect_uris: tuple[str, ...]
    has_secret: bool
    created_at: datetime
    expires_at: datetime
