"""`get_chunk` returns a passage in full, with its card, its clusters and related passages."""

import math
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from functions.tools.knowledge.get_chunk.tool import In, format_result, get_chunk
from shared.ai.vector_halves import (
    ENGLISH_DIMENSION,
    MULTILINGUAL_DIMENSION,
    TWO_HALVES,
    join_halves,
)
from shared.firestore.documents import Reference
from shared.firestore.writes import Update
from shared.index.stored_vector import build_vector_fields
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.source import Section, Source
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
    """One of the same source at most is among them."""
    chunks = await store_sources(ctx, BAKING, SAILING)
    out = await get_chunk(In(chunk_id=chunks[0].chunk_id), ctx)
    titles = [related.title for related in out.related_chunks]
    scores = [related.similarity_score for related in out.related_chunks]
    assert chunks[0].chunk_id not in {related.chunk_id for related in out.related_chunks}
    assert titles == ["Bread at Home", "Under Sail", "Under Sail"]
    assert scores == sorted(scores, reverse=True)
    one = await get_chunk(In(chunk_id=chunks[0].chunk_id, related_limit=1), ctx)
    assert one.related_chunks == out.related_chunks[:1]


@pytest.mark.requirement("004-AC4", "004-I3")
async def test_a_similarity_is_the_cosine_of_the_two_vectors(ctx: Context) -> None:
    first, *_ = await store_sources(ctx, BAKING)
    out = await get_chunk(In(chunk_id=first.chunk_id), ctx)
    [related] = out.related_chunks
    ids = (first.chunk_id, related.chunk_id)
    stored_chunks = [await Chunks(ctx.database).get(chunk_id) for chunk_id in ids]
    vectors = [stored.vector.values for stored in stored_chunks if stored and stored.vector]
    cosine = math.fsum(a * b for a, b in zip(*vectors, strict=True))
    assert related.similarity_score == round(cosine, 2)


@pytest.mark.parametrize(
    ("text", "english", "multilingual", "is_related"),
    [
        ("The loaf must cool.", 0.5, 0.4, True),
        ("The loaf must cool.", 0.3, 0.6, False),
        ("Das Brot muss auskühlen.", 0.0, 0.55, True),
        ("Das Brot muss auskühlen.", 0.9, 0.4, False),
    ],
)
async def test_passages_far_from_each_other_are_not_related(
    ctx: Context, text: str, english: float, multilingual: float, *, is_related: bool
) -> None:
    """The local model has a floor by its multilingual half, and one for two English texts."""
    sections = (Section("The bread should rise in a warm place."), Section(text))
    chunks = await store_sources(
        ctx, *(Source(f"s{number}", "S", sections=(sections[number],)) for number in range(2))
    )
    for chunk, cosines in zip(chunks, ((1.0, 1.0), (english, multilingual)), strict=True):
        vector = make_two_halves(*cosines)
        fields = build_vector_fields(vector, TWO_HALVES)
        await ctx.database.commit([Update(Reference("chunks", chunk.chunk_id), fields)])
    out = await get_chunk(In(chunk_id=chunks[0].chunk_id), ctx)
    assert bool(out.related_chunks) == is_related


def make_two_halves(english: float, multilingual: float) -> tuple[float, ...]:
    """Make a vector whose halves have these cosines with the first axis."""
    return join_halves(
        [english, math.sqrt(1 - english**2), *[0.0] * (ENGLISH_DIMENSION - 2)],
        [multilingual, math.sqrt(1 - multilingual**2), *[0.0] * (MULTILINGUAL_DIMENSION - 2)],
    )


@pytest.mark.parametrize(
    ("tags", "text", "reason"),
    [
        (("food",), "A starter needs flour.", "tag food"),
        (
            (),
            "Each flour makes a sourdough.",
            "both: sourdough, flour",
        ),
        ((), "Ein Schiff braucht Wind.", "similar meaning"),
    ],
)
async def test_a_related_chunk_has_a_reason(
    ctx: Context, tags: tuple[str, ...], text: str, reason: str
) -> None:
    other = Source("other", "Other", tags=tags, sections=(Section(text),))
    source = Source("s", "S", tags=("food",), sections=BAKING.sections[1:2])
    first, _ = await store_sources(ctx, source, other)
    out = await get_chunk(In(chunk_id=first.chunk_id), ctx)
    assert [related.reason for related in out.related_chunks] == [reason]
    assert f", {reason}): " in format_result(out)


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
