"""Move the knowledge base to the configured embedding model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.index.embedding_space import EmbeddingSpace
from shared.pipeline.embedding.migration import announce_move, continue_move
from shared.pipeline.embedding.migration_repository import ReembeddingStore
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget


async def reembed(ctx: Context, budget: Budget) -> Report:
    """Embed everything again, if the configured model is another one than before.

    Until that is done, keyword search still finds everything, and semantic search is off. Later
    runs of this job or of the embed job continue an unfinished move. If the former model is
    configured again, a run moves the knowledge base back.

    Raises:
        Unavailable: The embedding provider or the database is down.
    """
    report = Report()
    move = await announce_move(ctx)
    if move:
        await continue_move(move, ctx, budget, report)
    return report


async def count_documents(ctx: Context) -> int:
    """Count the documents to embed again; 0 if the base has the configured model already."""
    standing = await EmbeddingSpace(ctx.database).state()
    target = (ctx.embedder.model, ctx.embedder.dimension)
    if standing.space is None or (standing.space == target and not standing.move):
        return 0
    return await ReembeddingStore(ctx.database).count()


JOB = Job(
    name="reembed",
    title="Move to another embedding model",
    run=reembed,
    total=count_documents,
    schedule="",
    lease="embed",
    capabilities=frozenset({Capability.EMBEDDING, Capability.BULK_BUCKET}),
)
