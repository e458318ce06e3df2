"""The caller of a tool, which the gateway derives from a credential and never from arguments."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

USER_ID_FORMAT: Final = (
    "an e-mail address or a name: up to 128 lower-case letters, digits and . + @ _ -, beginning"
    " with a letter or a digit"
)
_USER: Final = re.compile(r"[a-z0-9][a-z0-9.+@_-]{0,127}")


class Tier(StrEnum):
    """Who may call a tool: anyone, or only signed-in users."""

    PUBLIC = "public"
    REGISTERED = "registered"


class Scope(StrEnum):
    """What a credential allows. From `READ` on, each scope includes those before it."""

    SAVE = "carrel:save"
    """Save pages from a browser, and nothing else."""
    READ = "carrel:read"
    WRITE = "carrel:write"
    CURATE = "carrel:curate"


class Role(StrEnum):
    """What a user may do to the knowledge base. Each role includes those before it.

    A reader reads, an editor also saves notes and changes their own, and an owner changes and
    forgets everything. Private data and traces need no role.
    """

    READER = "reader"
    EDITOR = "editor"
    OWNER = "owner"

    def includes(self, role: Role) -> bool:
        """Return whether this role allows whatever `role` allows."""
        roles = list(Role)
        return roles.index(self) >= roles.index(role)


_INCLUSIVE_SCOPES: Final = (Scope.READ, Scope.WRITE, Scope.CURATE)
FULL_ACCESS: Final = frozenset(_INCLUSIVE_SCOPES)
"""The scopes that a program may ask for."""


def parse_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Convert stored names to scopes."""
    return frozenset(map(Scope, names))


def add_implied_scopes(scopes: frozenset[Scope]) -> frozenset[Scope]:
    """Add the implied scopes: curating implies writing, and writing implies reading.

    `SAVE` is never combined: a key that has it can do nothing else.
    """
    if Scope.SAVE in scopes:
        return frozenset({Scope.SAVE})
    highest = max(map(_INCLUSIVE_SCOPES.index, scopes), default=-1)
    return frozenset(_INCLUSIVE_SCOPES[: highest + 1])


def list_grantable(scopes: frozenset[Scope]) -> frozenset[Scope]:
    """Return the scopes that a key may get from a person with these scopes."""
    return scopes | {Scope.SAVE} if Scope.WRITE in scopes else scopes


class Caller(BaseModel):
    """The person or agent on whose behalf a call runs.

    Attributes:
        user_id: The user whose private data the call may use, or None for an anonymous caller.
        task: The task in which the call works, if the credential names one.
        client: The name of the calling program, as registered, or that of its key, if known; else
            what the program says of itself.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    user_id: str | None = None
    tier: Tier = Tier.PUBLIC
    scopes: frozenset[Scope] = frozenset({Scope.READ})
    role: Role = Role.READER
    task: str | None = None
    client: str | None = None

    @classmethod
    def of(
        cls,
        user_id: str,
        scopes: frozenset[Scope] = FULL_ACCESS,
        task: str | None = None,
        *,
        role: Role = Role.READER,
        client: str | None = None,
    ) -> Caller:
        """Make a registered caller."""
        return cls(
            user_id=user_id,
            tier=Tier.REGISTERED,
            scopes=scopes,
            role=role,
            task=task,
            client=client,
        )

    def has_tier(self, tier: Tier) -> bool:
        """Return whether the caller may call tools of `tier`."""
        return tier is Tier.PUBLIC or self.tier is Tier.REGISTERED

    def may_call(self, tier: Tier, scope: Scope, role: Role = Role.READER) -> bool:
        """Return whether the caller may call a tool of `tier` that needs `scope` and `role`."""
        return self.has_tier(tier) and scope in self.scopes and self.role.includes(role)


def is_user_id(text: str) -> bool:
    """Return whether a text has the form of a user id."""
    return _USER.fullmatch(text) is not None


def require_user_id(user_id: str) -> str:
    """Check a user id, which also serves as a document id, and return it.

    Raises:
        InvalidInput: The text is not a user id.
    """
    if not is_user_id(user_id):
        raise InvalidInput(f"{user_id[:128]!r} is not a user id. Use {USER_ID_FORMAT}.")
    return user_id
