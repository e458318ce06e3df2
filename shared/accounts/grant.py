"""Programs that registered for sign-in, and what people allowed them.

What a person allowed a program to do on their behalf: one sign-in, from code to last token.

A grant lives through generations. Generation 0 has a code that waits to be exchanged; each
generation after it has one refresh token. Nothing secret is part of a grant: codes and tokens are
signatures over its id and generation (`functions/gateway/oauth`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from datetime import datetime

    from shared.core.caller import Scope

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


CODE_LIFETIME: Final = timedelta(minutes=5)
IDLE_LIFETIME: Final = timedelta(days=30)
"""How long a sign-in lasts that nobody uses."""
TOKENS_OUTLIVE: Final = timedelta(minutes=61)
"""How long an access token may live at most once its grant has ended: an hour, and what clocks and
a request under way add to it."""
OVERLAP: Final = timedelta(seconds=60)
"""How long the refresh token of the last generation still works: one person's sessions run side by
side, and each of them may be about to refresh with the token that all of them know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How a person proved who they are.

    Attributes:
        user_id: Who they are.
        kind: By an access key, or by signing in with Google.
        key_id: The key.
        email: The e-mail address that Google vouches for.
        expires_at: When what they proved it with ends; None if it does not.
    """

    user_id: str
    kind: Literal["key", "google"]
    key_id: str | None = None
    email: str | None = None
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        """Refuse what proves nothing.

        Raises:
            ValueError: It names no user, or not what they proved it with.
        """
        by_key, by_google = (bool(self.key_id), self.email), (self.key_id, bool(self.email))
        shown = {"key": by_key == (True, None), "google": by_google == (None, True)}
        if not self.user_id or not shown.get(self.kind):
            raise ValueError(
                "a proof names a user, and either the key or the e-mail that proves it"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One sign-in.

    Attributes:
        grant_id: Names it; codes and tokens contain it.
        user_id: Whose it is.
        client_id: The program that it is given to.
        scopes: What it allows.
        code_challenge: What the program's verifier must hash to (RFC 7636, S256).
        redirect_uri: Where the code was sent.
        redirect_uri_given: Whether the program named that address when it asked.
        proof: How the person proved who they are.
        created_at: When they allowed it.
        expires_at: When it ends by itself.
        generation: How often a code or a refresh token of it was exchanged for the next.
        rotated_at: When that happened last.
        ended_at: When it was ended before its time; None if it was not.
    """

    grant_id: str
    user_id: str
    client_id: str
    scopes: frozenset[Scope]
    code_challenge: str
    redirect_uri: str
    redirect_uri_given: bool
    proof: Proof
    created_at: datetime
    expires_at: datetime
    generation: int = 0
    rotated_at: datetime | None = None
    ended_at: datetime | None = None

    def holds(self, now: datetime) -> bool:
        """Whether it neither expired nor was ended."""
        return self.ended_at is None and now < self.expires_at

    def ended(self, now: datetime) -> Grant:
        """This grant without any use; one that was ended before stays as it is."""
        return self if self.ended_at else replace(self, ended_at=now)

    def exchanged(self, now: datetime) -> Grant:
        """What an exchange of the code makes of it.

        A code that comes a second time has been stolen, or its first bringer stole it: the grant
        ends (RFC 6749, 4.1.2).
        """
        if not self.holds(now):
            return self
        return self.ended(now) if self.generation else self._next(now)

    def refreshed(self, generation: int, now: datetime) -> Grant:
        """What a refresh with the token of `generation` makes of it.

        The token before the current one changes nothing while both work: whoever brings it is
        given the current one, as the first bringer was. Later, or with an older one, the grant
        ends: two parties have the same token, and one of them stole it (RFC 9700, 4.14.2).
        """
        if not self.holds(now):
            return self
        if generation == self.generation and generation:
            return self._next(now)
        return self if self._overlaps(generation, now) else self.ended(now)

    def _next(self, now: datetime) -> Grant:
        return replace(
            self, generation=self.generation + 1, rotated_at=now, expires_at=now + IDLE_LIFETIME
        )

    def _overlaps(self, generation: int, now: datetime) -> bool:
        just_rotated = self.rotated_at is not None and now <= self.rotated_at + OVERLAP
        return 0 < generation == self.generation - 1 and just_rotated
