"""Return the passages to read again today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from functions.tools.reviews.get_review.choice import Why, choose_passages
from shared.core.caller import Tier
from shared.knowledge.reviews import Answer
from shared.knowledge.views import Passage, to_passage
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.runtime.context import Context


class In(Arguments):
    """No arguments."""


class ReviewPassage(Passage):
    """A passage to read again."""

    content: str = Field(description="The whole text.")
    why: Why = Field(description="Why it was chosen.")
    answer: Answer | None = Field(description="Today's answer, if any.")
    again: str | None = Field(description="The day it comes back, if it was answered today.")


class Out(Result):
    """The passages of the day."""

    passages: list[ReviewPassage] = Field(description="Up to five.")


async def get_review(_args: In, ctx: Context) -> Out:
    """Return the passages of the day, with the answers that were given today.

    Costs two round trips, or one if nothing is due. Reads the user's reviews and at most 40 chunks.
    """
    passages = [
        to_passage(
            ReviewPassage,
            chunk,
            ctx.zone,
            snippet=None,
            content=chunk.content,
            why=why,
            answer=review.answer if review else None,
            again=review.due.isoformat() if review else None,
        )
        for chunk, why, review in await choose_passages(ctx)
    ]
    return Out(passages=passages)


TOOL = Tool(
    name="get_review",
    title="Get five passages to read again",
    description=(
        "Get the user's five passages of today to read again. Store each answer with answer_review."
    ),
    input=In,
    output=Out,
    run=get_review,
    effect=Effect.READ,
    tier=Tier.REGISTERED,
)
