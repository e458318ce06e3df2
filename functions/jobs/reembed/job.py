"""Move the knowledge base to the embedding model that is configured now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.index.embedding_space import EmbeddingSpace
from shared.pipeline.embedding.migration import announced, carry_on
from shared.pipeline.embedding.migration_repository import ReembeddingStore
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget


async def reembed(ctx: Context, budget: Budget) -> Report:
    """Embed everything anew with the configured model, if it is another one than before.

    Until that is done, words still find everything, and meaning is left out. The embed job goes on
    with what a run leaves; another run does too. Configured with the former model again, a run
    moves the base back.

    Raises:
        Unavailable: The embedding provider or the database is down.
    """
    report = Report()
    move = await announced(ctx)
    if move:
        await carry_on(move, ctx, budget, report)
    return report


async def documents(ctx: Context) -> int:
    """How many documents are to be embedded anew: none where the model is the base's."""
    standing = await EmbeddingSpace(ctx.database).standing()
    wanted = (ctx.embedder.model, ctx.embedder.dimension)
    if standing.space is None or (standing.space == wanted and not standing.move):
        return 0
    return await ReembeddingStore(ctx.database).count()


JOB = Job(
    name="reembed",
    title="Move to another embedding model",
    run=reembed,
    total=documents,
    schedule="",
    lease="embed",
    capabilities=frozenset({Capability.EMBEDDING, Capability.BULK_BUCKET}),
)
