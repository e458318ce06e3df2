"""OAuth clients, and the grants that people give them.

An OAuth client is a program that is registered with this server. A grant is one sign-in, by which a
person allows a client to act on their behalf. A grant goes through generations: generation 0 has an
authorization code that waits to be exchanged, and every later generation has one refresh token. A
grant contains no secret, because codes and tokens are signatures of the grant's id and generation
(`functions/gateway/oauth`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from datetime import datetime

    from shared.core.caller import Scope

UNUSED_LIFETIME: Final = timedelta(days=1)
"""A registration is valid for this long before its first sign-in. The time is short, because anyone
can register."""
USED_LIFETIME: Final = timedelta(days=90)
"""A registration is valid for this long after its last token was issued, and so outlives its
grants (see `IDLE_LIFETIME`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """A program's registration, whose contents are not verified.

    Attributes:
        client_id: The program's id.
        name: The program's name for itself.
        redirect_uris: The addresses to which codes may be sent.
        has_secret: Whether the program authenticates with a secret, unlike a public client.
        created_at: When the program registered.
        expires_at: When the registration expires unless it is used.
    """

    client_id: str
    name: str | None
    redirect_uris: tuple[str, ...]
    has_secret: bool
    created_at: datetime
    expires_at: datetime


CODE_LIFETIME: Final = timedelta(minutes=5)
"""An authorization code is valid for this long. RFC 6749, 4.1.2, recommends at most 10 minutes."""
IDLE_LIFETIME: Final = timedelta(days=30)
"""A grant is valid for this long after its last exchange."""
MAX_TOKEN_REMAINDER: Final = timedelta(minutes=61)
"""An access token outlives its ended grant by at most this long: the hour for which the token is
valid, and a minute for clock skew and the duration of the request."""
ROTATION_OVERLAP: Final = timedelta(seconds=60)
"""The previous refresh token is still valid for this long after it was exchanged, because parallel
sessions of a program share a token and may refresh it at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A person's proof of identity.

    Attributes:
        user_id: The user.
        kind: How the person proved their identity: with an access key, or by a sign-in with Google.
        key_id: The id of the access key, or None for a sign-in with Google.
        email: The e-mail address that Google verified, or None for an access key.
        expires_at: When the key expires, or None if the proof does not expire.
    """

    user_id: str
    kind: Literal["key", "google"]
    key_id: str | None = None
    email: str | None = None
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        """Reject an incomplete proof.

        Raises:
            ValueError: The user is missing, or the fields do not fit the kind: a key has only a
                `key_id`, and a sign-in with Google only an `email`.
        """
        match self.kind:
            case "key":
                is_complete = bool(self.key_id) and self.email is None
            case "google":
                is_complete = bool(self.email) and self.key_id is None
            case _:
                is_complete = False
        if not self.user_id or not is_complete:
            raise ValueError("a proof needs a user, and either a key id or an e-mail address")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One sign-in, by which a person allows a client to act on their behalf.

    Attributes:
        grant_id: The id, which codes and tokens contain.
        user_id: The user who gave the grant.
        client_id: The id of the client that received the grant.
        scopes: The granted scopes.
        code_challenge: The SHA-256 of the client's code verifier (RFC 7636, S256).
        redirect_uri: The address to which the code was sent.
        redirect_uri_given: Whether the client's request named this address. If it did, the exchange
            of the code must name the same address (RFC 6749, 4.1.3).
        proof: The person's proof of identity.
        created_at: When the person signed in.
        expires_at: When the grant expires.
        generation: The number of exchanges so far, of the code and of refresh tokens.
        rotated_at: When the code or a refresh token was last exchanged, or None before the first
            exchange.
        ended_at: When the grant was ended early, or None.
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

    def is_valid(self, now: datetime) -> bool:
        """Return whether the grant has neither expired nor been ended."""
        return self.ended_at is None and now < self.expires_at

    def end(self, now: datetime) -> Grant:
        """Return the ended grant. A grant that has already ended does not change."""
        return self if self.ended_at else replace(self, ended_at=now)

    def exchange_code(self, now: datetime) -> Grant:
        """Exchange the code for the first refresh token.

        A second exchange ends the grant, because it shows that two parties have the code and one of
        them stole it (RFC 6749, 4.1.2).
        """
        if not self.is_valid(now):
            return self
        return self.end(now) if self.generation else self._advance_generation(now)

    def refresh(self, generation: int, now: datetime) -> Grant:
        """Exchange the refresh token of a generation for the next one.

        For `ROTATION_OVERLAP` after an exchange, the previous token changes nothing, and its bearer
        receives the current token. An even older token, or the previous one after the overlap, ends
        the grant, because two parties have it and one of them stole it (RFC 9700, 4.14.2).
        """
        if not self.is_valid(now):
            return self
        if generation == self.generation and generation:  # generation 0 has no refresh token
            return self._advance_generation(now)
        return self if self._overlaps(generation, now) else self.end(now)

    def _advance_generation(self, now: datetime) -> Grant:
        return replace(
            self, generation=self.generation + 1, rotated_at=now, expires_at=now + IDLE_LIFETIME
        )

    def _overlaps(self, generation: int, now: datetime) -> bool:
        """Return whether a token is the previous one, and was exchanged only just before."""
        just_rotated = self.rotated_at is not None and now <= self.rotated_at + ROTATION_OVERLAP
        return 0 < generation == self.generation - 1 and just_rotated
