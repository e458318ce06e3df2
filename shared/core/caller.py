"""Who is calling. The gateway makes it from a credential; an argument never does."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

USER_ID_FORMAT: Final = (
    "an e-mail address or a name: lower-case letters, digits and . + @ _ - up to 128, beginning"
    " with a letter or a digit"
)
_USER: Final = re.compile(r"[a-z0-9][a-z0-9.+@_-]{0,127}")


class Tier(StrEnum):
    """Who may call a tool: anybody the gateway lets in, or only people it knows."""

    PUBLIC = "public"
    REGISTERED = "registered"


class Scope(StrEnum):
    """What a credential allows. Who may write may read."""

    READ = "carrel:read"
    WRITE = "carrel:write"


FULL_ACCESS = frozenset(Scope)
"""All scopes."""


def parse_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """The scopes of these names, as they are stored."""
    return frozenset(map(Scope, names))


def with_implied_scopes(scopes: frozenset[Scope]) -> frozenset[Scope]:
    """These scopes, and what they imply: who may write may read."""
    return scopes | {Scope.READ} if Scope.WRITE in scopes else scopes


class Caller(BaseModel):
    """The person or agent on whose behalf a call runs.

    Attributes:
        user_id: The user whose private data the call may touch; None for the anonymous.
        tier: The highest tier whose tools they may call.
        scopes: What their credential allows.
        task: The task that the call works in, if the credential names one.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    user_id: str | None = None
    tier: Tier = Tier.PUBLIC
    scopes: frozenset[Scope] = frozenset({Scope.READ})
    task: str | None = None

    @classmethod
    def of(
        cls, user_id: str, scopes: frozenset[Scope] = FULL_ACCESS, task: str | None = None
    ) -> Caller:
        """Somebody whom the gateway knows."""
        return cls(user_id=user_id, tier=Tier.REGISTERED, scopes=scopes, task=task)

    def has_tier(self, tier: Tier) -> bool:
        """Whether tools of `tier` are open to this caller."""
        return tier is Tier.PUBLIC or self.tier is Tier.REGISTERED

    def may_call(self, tier: Tier, scope: Scope) -> bool:
        """Whether a tool of `tier` that needs `scope` is open to this caller."""
        return self.has_tier(tier) and scope in self.scopes


def is_user_id(text: str) -> bool:
    """Tell whether this is an id that a user may have."""
    return _USER.fullmatch(text) is not None


def require_user_id(user_id: str) -> str:
    """A user's id: an e-mail address or a name in lower case, which is a document's id as it is.

    Raises:
        InvalidInput: It is none.
    """
    if not is_user_id(user_id):
        raise InvalidInput(f"{user_id[:128]!r} is no user. Use {USER_ID_FORMAT}.")
    return user_id
