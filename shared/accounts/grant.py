"""OAuth clients, and the grants that people give them.

An OAuth client is a program that is registered with this server. A grant is one sign-in, by which a
person allows a client to act on their behalf. A grant goes through generations: generation 0 has an
authorization code that waits to be exchanged, and every later generation has one refresh token. A
grant contains no secret, because codes and tokens are signatures of the grant's id and generation
(`functions/gateway/oauth`).

The sessions of a program on one computer share a refresh token, and some keep a copy in memory. So
a token that comes back after its exchange was either kept or stolen, and the token alone does not
tell which. `Grant.refresh` decides by how far behind the token is, how long ago the exchange was,
and whether both came from one network.

| the token that comes | the answer |
|---|---|
| current | the next token |
| previous, at most a minute after its exchange | the current token again |
| previous, later, from the network of the exchange | the current token again |
| previous, later, from another network | the next token; the unused current token loses its value |
| that lost token, or the one before it, from the network of the last exchange | the current token |
| that lost token, or the one before it, from another network | the sign-in ends |
| any older one, so that its successor was exchanged too | the sign-in ends |

A laptop that slept wakes up with the previous token, on the same network or another one, and all
its sessions go on. A thief elsewhere who refreshed first loses at the victim's next refresh: either
the thief's token loses its value, or the sign-in ends because the thief has already used it. For
any older token, a session that was idle for too long and the victim of such a thief look the same,
so the sign-in ends, as RFC 9700 (4.14.2) requires.
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
        has_secret: Whether the program authenticates with a secret, unlike a public client.
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
"""The previous refresh token is valid from any network for this long after its exchange, because
sessions that refresh at the same time may run on servers in several networks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A person's proof of identity.

    Attributes:
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
        code_challenge: The SHA-256 of the client's code verifier (RFC 7636, S256).
        redirect_uri: The address to which the code was sent.
        redirect_uri_given: Whether the client's request named this address. If it did, the exchange
            of the code must name the same address (RFC 6749, 4.1.3).
        created_at: When the person signed in.
        generation: The number of exchanges so far, of the code and of refresh tokens.
        oldest_generation: The oldest generation whose token may still get the current one: the
            previous generation, or the one before it if the current token replaces a lost one.
        rotated_at: When the code or a refresh token was last exchanged, or None before the first
            exchange.
        network: A keyed hash of the network that last exchanged a refresh token, or empty before
            the first exchange.
        client_name: The name under which the client was registered when the person signed in.
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
    oldest_generation: int = 0
    rotated_at: datetime | None = None
    network: str = ""
    ended_at: datetime | None = None
    client_name: str | None = None

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
        if self.generation > 0:
            return self.end(now)
        return self._advance_from(0, now, self.network)

    def refresh(self, generation: int, now: datetime, network: str) -> Grant:
        """Exchange the refresh token of a generation, by the table of this module.

        Returns:
            The grant. The answer is its current token, unless the grant has ended.
        """
        if not self.is_valid(now):
            return self
        if generation == self.generation > 0:  # generation 0 has no refresh token
            return self._advance_from(generation, now, network)
        if not 0 < self.oldest_generation <= generation < self.generation:
            return self.end(now)
        if network == self.network:
            return self
        has_lost_token = self.oldest_generation < self.generation - 1
        if has_lost_token:
            return self.end(now)
        return self if self._has_just_rotated(now) else self._advance_from(generation, now, network)

    def _advance_from(self, generation: int, now: datetime, network: str) -> Grant:
        """Return the next generation, which replaces the token of this one."""
        return replace(
            self,
            generation=self.generation + 1,
            oldest_generation=generation,
            rotated_at=now,
            network=network,
            expires_at=now + IDLE_LIFETIME,
        )

    def _has_just_rotated(self, now: datetime) -> bool:
        return self.rotated_at is not None and now <= self.rotated_at + ROTATION_OVERLAP
