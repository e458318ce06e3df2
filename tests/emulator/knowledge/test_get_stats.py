"""`get_stats` counts what the knowledge base contains, and what its jobs still have to do.

Jobs process each passage in steps: `embed`, `index`, `card`, `cluster` and `extract`. A step is
pending until its job has done it, and dead-lettered once the job has given up.
"""

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from functions.tools.knowledge.get_stats.tool import In, get_stats
from shared.knowledge.chunk import Chunk
from shared.runtime.context import App, Context
from tests.support.knowledge import (
    BAKING,
    SAILING,
    embed_all,
    index_all,
    ingest_sources,
    set_fields,
)
from tests.support.notes import OWNER
from tests.support.read_cost import get_read_cost, make_call_context
from tests.support.small_sources import NOON, make_source, store_and_index
from tests.support.tool_calls import call_result


async def add_card(ctx: Context, chunk: Chunk) -> None:
    """Store a knowledge card, and index the passage again."""
    card = {"summary": "Knead.", "generated_at": NOON}
    fields = {"knowledge_card": card, "pending": {"index": NOON}}
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", fields)
    await index_all(ctx)


async def test_every_number_of_the_base_is_returned(
    ctx: Context, snapshot: SnapshotAssertion
) -> None:
    """Duplicates of extractions have no facets, and are not counted."""
    assert (await get_stats(In(), ctx)).model_dump() == snapshot(name="empty")
    first, second, _, *_ = await store_and_index(ctx, BAKING, SAILING)
    await embed_all(ctx)
    await add_card(ctx, first)
    await set_fields(ctx, "clusters/c-1", {"name": "Dough", "size": 3})
    for name, facets in {
        "one": ["decision"],
        "two": ["decision", "decision topic:rag"],
        "three": ["pattern"],
        "duplicate": [],
    }.items():
        await set_fields(ctx, f"extractions/{name}", {"facets": facets})
    for chunk, step in ((first, "card"), (second, "card"), (second, "embed")):
        await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"parked": {step: "It was refused."}})
    assert (await get_stats(In(), ctx)).model_dump() == snapshot


async def test_pending_steps_are_counted(ctx: Context) -> None:
    """Extraction is pending only with a language model."""
    await ingest_sources(ctx, BAKING, now=NOON)
    out = await get_stats(In(), ctx)
    waiting = {"embed": 3, "index": 3, "card": 3}
    assert (out.chunks, out.waiting) == (3, waiting)
    assert out.top_tags == []  # no passage is indexed
    settings = ctx.settings.model_copy(update={"generation_provider": "vertex"})
    out = await get_stats(In(), replace(ctx, settings=settings))
    assert out.waiting == waiting | {"extract": 3}


async def test_deleted_passages_still_in_the_index_are_not_counted(ctx: Context) -> None:
    first, *_ = await store_and_index(ctx, BAKING, SAILING)
    await add_card(ctx, first)
    await ingest_sources(ctx, replace(BAKING, sections=()), now=NOON)
    out = await get_stats(In(), ctx)
    assert (out.chunks, out.sources, out.with_cards) == (2, 1, 0)


async def test_the_ten_most_common_tags_are_returned(ctx: Context) -> None:
    tags = tuple(f"tag{n}" for n in range(12))
    await store_and_index(
        ctx, make_source("a", tags=tags), make_source("b", "x", "y", tags=tags[5:6])
    )
    out = await get_stats(In(), ctx)
    assert len(out.top_tags) == 10
    assert out.top_tags[0].model_dump() == {"name": "tag5", "chunks": 3}


async def test_documents_read_do_not_grow_with_the_passages(
    ctx: Context, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count costs a read for every 1,000 documents, in this test for each document.

    So a call costs a read for each source, but none for its passages.
    """
    monkeypatch.setattr("shared.firestore.database.COUNTED_PER_READ", 1)
    costs = []
    for numbers in (range(3), range(3, 40)):
        sources = [make_source(f"s{n}", author="Ida Loaf", dates=[NOON] * 3) for n in numbers]
        for start in range(0, len(sources), 20):
            for chunk in await store_and_index(ctx, *sources[start : start + 20]):
                reference = ctx.database.connection.client.document(f"chunks/{chunk.chunk_id}")
                await reference.update({"pending": {}})
        call_ctx = make_call_context(app)
        out = await get_stats(In(), call_ctx)
        cost = get_read_cost(call_ctx)
        costs.append(cost._replace(documents=cost.documents - out.sources))

    assert out.chunks == 120
    assert out.sources == 40
    assert costs[0] == costs[1]


async def test_passages_are_counted_in_an_index_of_an_earlier_release(
    ctx: Context, app: App
) -> None:
    await store_and_index(ctx, BAKING, SAILING)
    await set_fields(ctx, "meta/lexicon", {"layout": 2})
    await set_fields(ctx, "facets/position:later", {"df": 1})  # a wrong count of passages
    call_ctx = make_call_context(app)
    out = await get_stats(In(), call_ctx)
    assert (out.chunks, out.sources) == (5, 2)
    assert get_read_cost(call_ctx).round_trips == 2


async def test_a_source_without_its_first_passage_is_counted(ctx: Context, app: App) -> None:
    first, *_ = await store_and_index(ctx, BAKING, SAILING)
    await call_result(app, "forget", OWNER, chunk_id=first.chunk_id)
    await index_all(ctx)
    out = await get_stats(In(), ctx)
    assert (out.chunks, out.sources) == (4, 2)
