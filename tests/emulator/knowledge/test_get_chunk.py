"""`get_chunk` returns a passage in full, with its card, its clusters and related passages."""

import math
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from functions.tools.knowledge.get_chunk.tool import In, get_chunk
from shared.knowledge.chunk_repository import Chunks
from shared.runtime.context import App, Context
from tests.support.clock import NOON, SettableClock
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources
from tests.support.tool_calls import ANONYMOUS, call_result


@pytest.mark.requirement(
    "004-AC2",
    "004-AC3",
    "004-AC6",
    "004-F1",
    "004-F2",
    "004-F3",
    "004-F6",
    "004-I2",
    "004-I7",
    "004-S7",
    "004-T1.2",
    "004-T1.3",
    "004-T1.6",
    "004-T3.1",
    "004-T3.2",
    "004-T3.9",
    "004-U2",
)
async def test_every_field_of_a_chunk_is_returned(
    ctx: Context, clock: SettableClock, snapshot: SnapshotAssertion
) -> None:
    clock.now = NOON
    chunk = (await store_sources(ctx, BAKING))[0]
    card = {"summary": "Knead and rest.", "takeaways": ["Smooth dough", "Warm place"]}
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"knowledge_card": card})
    out = await get_chunk(In(chunk_id=chunk.chunk_id, include_related=False), ctx)
    assert out.model_dump() == snapshot


@pytest.mark.parametrize("tool", ["get_chunk", "get_source", "search_kb", "get_recent"])
async def test_a_card_that_repeats_the_text_is_not_shown(ctx: Context, app: App, tool: str) -> None:
    chunk = (await store_sources(ctx, BAKING))[0]
    arguments = {
        "get_chunk": {"chunk_id": chunk.chunk_id},
        "get_source": {"source_id": chunk.source_id},
        "search_kb": {"query": chunk.content, "detail": "full"},
        "get_recent": {},
    }[tool]
    card = {"summary": chunk.content.rstrip("."), "takeaways": []}
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"knowledge_card": card})
    result = str(await call_result(app, tool, ANONYMOUS, **arguments))
    assert chunk.chunk_id in result
    assert "summary" not in result
    assert "knowledge_card" not in result


@pytest.mark.requirement("004-AC5", "004-F4", "004-I6", "004-S8", "004-T1.5", "004-T3.4")
@pytest.mark.parametrize(
    ("cluster_ids", "name", "description"),
    [
        (["c-2", "c-1"], "Dough", "Flour and water."),
        # The main cluster of a chunk is the first one. The name of another would be wrong.
        (["gone", "c-1"], None, None),
        (["gone"], None, None),
    ],
)
async def test_clusters_are_named(
    ctx: Context, cluster_ids: list[str], name: str | None, description: str | None
) -> None:
    chunk = (await store_sources(ctx, BAKING))[0]
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"cluster_id": cluster_ids})
    await set_fields(ctx, "clusters/c-1", {"name": "Ovens", "description": "Heat."})
    await set_fields(ctx, "clusters/c-2", {"name": "Dough", "description": "Flour and water."})
    out = await get_chunk(In(chunk_id=chunk.chunk_id), ctx)
    assert out.cluster is not None
    expected = {"cluster_id": cluster_ids, "cluster_name": name, "description": description}
    assert out.cluster.model_dump() == expected


@pytest.mark.requirement(
    "004-AC4", "004-AC8", "004-F5", "004-I4", "004-I5", "004-S3", "004-T1.4", "004-T3.3", "004-T3.6"
)
async def test_related_chunks_come_best_first_without_the_chunk_itself(ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING, SAILING)
    out = await get_chunk(In(chunk_id=chunks[0].chunk_id), ctx)
    ids = [related.chunk_id for related in out.related_chunks]
    scores = [related.similarity_score for related in out.related_chunks]
    assert sorted(ids) == sorted(chunk.chunk_id for chunk in chunks[1:])
    assert {related.title for related in out.related_chunks[:2]} == {"Bread at Home"}
    assert scores == sorted(scores, reverse=True)
    for limit in (1, 3):
        out = await get_chunk(In(chunk_id=chunks[0].chunk_id, related_limit=limit), ctx)
        assert [related.chunk_id for related in out.related_chunks] == ids[:limit]


@pytest.mark.requirement("004-AC4", "004-I3")
async def test_a_similarity_is_the_cosine_of_the_two_vectors(ctx: Context) -> None:
    first, second, *_ = await store_sources(ctx, BAKING)
    out = await get_chunk(In(chunk_id=first.chunk_id), ctx)
    stored_chunks = [await Chunks(ctx.database).get(chunk.chunk_id) for chunk in (first, second)]
    vectors = [stored.vector.values for stored in stored_chunks if stored and stored.vector]
    cosine = math.fsum(a * b for a, b in zip(*vectors, strict=True))
    scores = {related.chunk_id: related.similarity_score for related in out.related_chunks}
    assert scores[second.chunk_id] == round(cosine, 2)


@pytest.mark.requirement("004-AC9", "004-S4", "004-S6", "004-S7", "004-T1.7", "004-T3.8")
async def test_a_chunk_without_vector_urls_card_or_cluster_is_returned(
    ctx: Context, app: App
) -> None:
    """Requirement 004-S7 asks for URLs in every answer. Other empty fields would cost tokens."""
    fields: dict[str, Any] = {"title": "T", "content": "C", "source_id": "s", "source": "file"}
    fields |= {"category": "documents", "start": 0, "end": 1, "position": 1, "total": 1}
    await set_fields(ctx, "chunks/bare", fields)
    urls = dict.fromkeys(("readwise_url", "source_url", "highlight_url"))
    assert await call_result(app, "get_chunk", ANONYMOUS, chunk_id="bare") == urls | {
        "chunk_id": "bare",
        "source_id": "s",
        "title": "T",
        "source": "file",
        "tags": [],
        "content": "C",
        "chunk_info": "1/1",
        "related_chunks": [],
        "notes": [],
    }
