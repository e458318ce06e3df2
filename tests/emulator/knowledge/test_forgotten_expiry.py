"""The job `purge` deletes forgotten sources and passages for good after 30 days.

A record of each stays, and ingest leaves them out. A call of `forget` with `forgotten=False`
deletes the record, and the next ingest of their file stores them again.
"""

from __future__ import annotations

from google.cloud.firestore import DELETE_FIELD

from functions.jobs.purge.job import purge
from functions.jobs.purge.knowledge import FORGOTTEN
from shared.firestore.documents import Reference
from shared.firestore.writes import Update
from shared.runtime.context import App, Context
from tests.support.clock import SettableClock
from tests.support.forgetting import OWNER, forget, save_sources, store_base
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, store_sources
from tests.support.stored_documents import read_documents
from tests.support.tool_calls import call_error, call_text


async def test_nothing_can_be_restored_after_thirty_days_until_purge_runs(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    """Once it has run, `forget` lets ingest store them again."""
    chunks = await store_base(ctx)
    await forget(app, chunk_id=chunks[0].chunk_id)
    await forget(app, source_id="sailing")

    clock.advance(days=30, minutes=1)
    for target in ({"chunk_id": chunks[0].chunk_id}, {"source_id": "sailing"}):
        error = await call_error(app, "forget", OWNER, **target, forgotten=False)
        assert error.code == "CONFLICT"
        assert "could be restored until" in error.message

    await purge(ctx, make_ample_budget())
    assert (await forget(app, chunk_id=chunks[0].chunk_id, forgotten=False))["changed"]
    assert (await forget(app, source_id="sailing", forgotten=False))["changed"]


async def test_a_source_cannot_be_restored_once_purge_has_begun_on_it(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    """The job has deleted the source's document, and was killed before it deleted the passages."""
    await store_sources(ctx, BAKING)
    await forget(app, source_id="baking")
    record = Reference("forgotten_sources", "baking")
    await ctx.database.commit([Update(record, {"document": DELETE_FIELD})])
    restoring = {"source_id": "baking", "forgotten": False}
    error = await call_error(app, "forget", OWNER, **restoring)
    assert error.code == "CONFLICT"
    assert "purge" in error.message
    clock.advance(days=31)
    await purge(ctx, make_ample_budget())
    assert await read_documents(ctx, "forgotten") == {}
    assert (await forget(app, source_id="baking", forgotten=False))["changed"]


async def test_purge_deletes_all_but_the_record_after_thirty_days(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    chunks = await store_base(ctx)
    await forget(app, chunk_id=chunks[0].chunk_id, reason="outdated")
    await forget(app, source_id="sailing")
    assert (await purge(ctx, make_ample_budget())).counts["forgotten"] == 0

    clock.advance(days=30, minutes=1)
    assert FORGOTTEN.count
    assert await FORGOTTEN.count(ctx) == 2
    assert (await purge(ctx, make_ample_budget())).counts["forgotten"] == 3
    [record] = (await read_documents(ctx, "forgotten")).values()
    assert record.keys() == {"forgotten_at", "forgotten_by", "reason"}
    assert record["reason"] == "outdated"
    source = (await read_documents(ctx, "forgotten_sources"))["sailing"]
    assert source["whole"]
    assert "document" not in source

    assert await save_sources(ctx, SAILING) == {"forgotten": 1}
    for target in ({"chunk_id": chunks[0].chunk_id}, {"source_id": "sailing"}):
        text = await call_text(app, "forget", OWNER, **target, forgotten=False)
        assert "come back when their file" in text
    counts = await save_sources(ctx, BAKING, SAILING)
    assert counts == {"sources": 2, "created": 3}
    assert set(await read_documents(ctx, "chunks")) >= {chunk.chunk_id for chunk in chunks}
