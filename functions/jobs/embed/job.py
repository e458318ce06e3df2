"""Embeds every chunk that waits for a vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.index.embedding_space import EmbeddingSpace
from shared.knowledge.queue import ChunkQueue
from shared.pipeline.embedding.chunks import embed_chunks
from shared.pipeline.embedding.migration import continue_migration
from shared.pipeline.embedding.online import STEP
from shared.pipeline.worker import make_dead_letters
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget


async def embed(ctx: Context, budget: Budget) -> Report:
    """Embed pending chunks, batch by batch, or in bulk if thousands are pending.

    The commit that stores a vector also removes the chunk from the queue, unless the chunk was
    edited since it was read. Therefore the next run continues where a killed run stopped. An
    unfinished migration to another model is continued.

    Raises:
        Conflict: The database is embedded with another model.
        Unavailable: The embedding provider or the database is down.
    """
    report = Report()
    migration = await EmbeddingSpace(ctx.database).join(ctx.embedder)
    if migration:
        await continue_migration(migration, ctx, budget, report)
    else:
        await embed_chunks(ctx, budget, report)
    return report


async def count_pending(ctx: Context) -> int:
    """Count the chunks that wait for a vector."""
    return await ChunkQueue(ctx.database).count_pending(STEP)


JOB = Job(
    name="embed",
    title="Embed new and changed chunks",
    run=embed,
    total=count_pending,
    schedule="2-59/15 * * * *",
    dead_letters=make_dead_letters(STEP),
    capabilities=frozenset({Capability.EMBEDDING, Capability.BULK_BUCKET}),
)
