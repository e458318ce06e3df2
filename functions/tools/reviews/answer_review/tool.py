"""Store when a passage comes back to be read again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pydantic import Field

from shared.core.caller import Tier
from shared.core.errors import NotFound
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.reviews import Answer, answer_review, build_review_write, load_reviews
from shared.runtime.schemas import DocumentId, IdempotentArguments, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.runtime.context import Context


class In(IdempotentArguments):
    """A passage, and the answer."""

    chunk_id: DocumentId = Field(description="The passage.")
    answer: Answer = Field(description="keep: back in 1 week, then 2, 4 ...; not_soon: in 8.")


class Out(Result):
    """When the passage comes back."""

    chunk_id: str = Field(description="The passage.")
    again: str = Field(description="The day from which it comes back, in TIME_ZONE.")


async def answer(args: In, ctx: Context) -> Out:
    """Store an answer. Another one on the same day replaces it.

    Costs two round trips: the read of the chunk and of the user's reviews, and the commit.
    """
    today = ctx.clock().astimezone(ctx.zone).date()

    async def attempt() -> Out:
        stored, chunks = await asyncio.gather(
            load_reviews(ctx.database, str(ctx.caller.user_id)),
            Chunks(ctx.database).get_all([args.chunk_id]),
        )
        if not chunks:
            raise NotFound(
                f"There is no chunk {args.chunk_id}. Ids change when a text is edited. Search again"
                " with search_kb.",
                details={"chunk_id": args.chunk_id},
            )
        review = answer_review(stored.by_chunk.get(args.chunk_id), args.answer, today)
        out = Out(chunk_id=args.chunk_id, again=review.due.isoformat())
        return await ctx.commit([build_review_write(stored, args.chunk_id, review)], out)

    return await ctx.database.retry_on_conflict(attempt)


TOOL = Tool(
    name="answer_review",
    title="Answer for a passage",
    description=(
        "Store when a passage of get_review comes back. Another answer on that day replaces it."
    ),
    input=In,
    output=Out,
    run=answer,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
)
