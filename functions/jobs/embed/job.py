"""Give every chunk that waits for it a vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.index.embedding_space import EmbeddingSpace
from shared.knowledge.queue import ChunkQueue
from shared.pipeline.embedding.chunks import embed_chunks
from shared.pipeline.embedding.migration import carry_on
from shared.pipeline.embedding.online import STEP
from shared.pipeline.worker import dead_lettered_chunks
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget


async def embed(ctx: Context, budget: Budget) -> Report:
    """Embed pending chunks: batch by batch, or in bulk where thousands wait.

    A chunk leaves the queue in the commit that stores its vector, on the condition that nobody
    edited it since it was read: killed anywhere, the next run goes on with what is left. A move to
    another model that was begun is carried on.

    Raises:
        Conflict: The database is embedded with another model.
        Unavailable: The embedding provider or the database is down.
    """
    report = Report()
    move = await EmbeddingSpace(ctx.database).join(ctx.embedder)
    if move:
        await carry_on(move, ctx, budget, report)
    else:
        await embed_chunks(ctx, budget, report)
    return report


async def waiting(ctx: Context) -> int:
    """How many chunks wait for a vector."""
    return await ChunkQueue(ctx.database).count_pending(STEP)


JOB = Job(
    name="embed",
    title="Embed new and changed chunks",
    run=embed,
    total=waiting,
    schedule="*/15 * * * *",
    dead_letters=dead_lettered_chunks(STEP),
    capabilities=frozenset({Capability.EMBEDDING, Capability.BULK_BUCKET}),
)
