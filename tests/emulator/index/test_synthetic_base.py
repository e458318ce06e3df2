"""Benchmarks fill a synthetic knowledge base, which is as the jobs would have left it."""

from benchmarks.synthetic import SyntheticBase, SyntheticTexts
from functions.jobs.index.job import index
from functions.jobs.repair.job import repair
from shared.knowledge.chunk_repository import STEPS
from shared.knowledge.queue import ChunkQueue
from shared.runtime.context import Context
from tests.support.index_postings import assert_postings_are_exact
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import set_fields
from tests.support.stored_documents import read_chunks

BOOKKEEPING = {"pending", "tries", "parked", "updated_at"}
"""Fields that say what jobs did and when."""


async def test_a_synthetic_base_needs_no_repair_and_no_indexing(ctx: Context) -> None:
    """Repair finds nothing to mend, and indexing again changes nothing."""
    base = SyntheticBase(ctx, SyntheticTexts())
    for size in (10, 20):
        await base.grow(size)
    assert not any((await repair(ctx, make_ample_budget())).counts.values())
    await assert_postings_are_exact(ctx)
    for step in STEPS:
        assert await ChunkQueue(ctx.database).count_pending(step) == 0

    before = await read_chunks(ctx)
    for chunk_id in before:
        await set_fields(ctx, f"chunks/{chunk_id}", {"pending": {"index": ctx.clock()}})
    assert (await index(ctx, make_ample_budget())).counts["indexed"] == len(before)
    after = await read_chunks(ctx)
    for chunk_id, data in before.items():
        fields = {name: value for name, value in data.items() if name not in BOOKKEEPING}
        assert after[chunk_id].items() >= fields.items()
    await assert_postings_are_exact(ctx)
