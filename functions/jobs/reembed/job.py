"""Moves the knowledge base to the configured embedding model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.index.embedding_space import EmbeddingSpace
from shared.pipeline.embedding.migration import (
    announce_migration,
    continue_migration,
    count_documents_to_embed,
)
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget


async def reembed(ctx: Context, budget: Budget) -> Report:
    """Embed everything again if the stored vectors come from another model.

    Until the migration is complete, search by meaning is off. Search by words finds everything.
    Later runs of this job or of the embed job continue an unfinished migration. If the previous
    model is configured again, the next run migrates the knowledge base back.

    Raises:
        Unavailable: The embedding provider or the database is down.
    """
    report = Report()
    migration = await announce_migration(ctx)
    if migration:
        await continue_migration(migration, ctx, budget, report)
    return report


async def count_documents(ctx: Context) -> int:
    """Count the documents to embed again. Return 0 if the configured model made the vectors."""
    state = await EmbeddingSpace(ctx.database).load_state()
    target = (ctx.embedder.model, ctx.embedder.dimension)
    if state.space is None or (state.space == target and not state.migration):
        return 0
    return await count_documents_to_embed(ctx)


JOB = Job(
    name="reembed",
    title="Move to another embedding model",
    run=reembed,
    total=count_documents,
    schedule="",
    lease="embed",
    capabilities=frozenset({Capability.EMBEDDING, Capability.BULK_BUCKET}),
)
