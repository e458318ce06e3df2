"""Who is calling. The gateway makes it from a credential; an argument never does."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Tier(StrEnum):
    """Who may call a tool: anybody the gateway lets in, or only people it knows."""

    PUBLIC = "public"
    REGISTERED = "registered"


class Caller(BaseModel):
    """The person or agent on whose behalf a call runs.

    Attributes:
        user_id: The user whose private data the call may touch; None for the anonymous.
        tier: The highest tier whose tools they may call.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    user_id: str | None = None
    tier: Tier = Tier.PUBLIC

    def may_call(self, tier: Tier) -> bool:
        """Whether tools of `tier` are open to this caller."""
        return tier is Tier.PUBLIC or self.tier is Tier.REGISTERED
