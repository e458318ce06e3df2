"""The index job deletes the extractions of a deleted chunk.

An extraction is a decision, a warning or the like, found in a chunk. Its topics are counted.
"""

from __future__ import annotations

from dataclasses import replace

from functions.jobs.index.job import index
from shared.core.dates import utc_now
from shared.extractions.extracted_chunks import build_topic_count_writes, summarize_extractions
from shared.extractions.model import Content, Decision, Extraction, Pitfall
from shared.knowledge.chunk import Chunk
from shared.runtime.context import Context
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, ingest_sources, set_fields, store_sources
from tests.support.stored_documents import read_documents

REEF = Decision(question="When to reef?", options=("early", "late"), considerations=("wind",))
GALE = Pitfall(title="Gales", description="A short chain drags.")


def make_extraction(
    chunk: Chunk, content: Content, *topics: str, duplicate_of: str | None = None
) -> Extraction:
    """Return an extraction from a chunk, the id of which names its type and the chunk."""
    return Extraction(
        extraction_id=f"{content.type}-{chunk.chunk_id}",
        content=content,
        topics=topics,
        quote=chunk.content,
        source_id=chunk.source_id,
        chunk_id=chunk.chunk_id,
        confidence=0.8,
        model="m",
        extracted_at=utc_now(),
        duplicate_of=duplicate_of,
    )


async def store_extractions(ctx: Context, chunk: Chunk, *extractions: Extraction) -> None:
    """Store these extractions with a chunk."""
    summaries = summarize_extractions(extractions)
    await set_fields(ctx, f"chunks/{chunk.chunk_id}", {"extracted": summaries})
    for extraction in extractions:
        path = f"extractions/{extraction.extraction_id}"
        await set_fields(ctx, path, {"quote": extraction.quote})
    await ctx.database.commit(build_topic_count_writes({}, summaries))


async def read_topic_counts(ctx: Context) -> dict[str, dict[str, int]]:
    """Return the number of extractions of each topic, by type and in total (`all`)."""
    topics = (await read_documents(ctx, "topics")).values()
    return {data["name"]: data["counts"] | {"all": data["total"]} for data in topics}


async def test_extractions_and_their_counts_are_deleted_with_their_chunk(ctx: Context) -> None:
    first, second = await store_sources(ctx, SAILING)
    await store_extractions(
        ctx,
        first,
        make_extraction(first, REEF, "sailing", "weather"),
        make_extraction(first, GALE, "weather"),
    )
    await store_extractions(ctx, second, make_extraction(second, GALE, "weather"))
    assert await read_topic_counts(ctx) == {
        "sailing": {"decision": 1, "all": 1},
        "weather": {"decision": 1, "warning": 2, "all": 3},
    }

    await ingest_sources(ctx, replace(SAILING, sections=SAILING.sections[1:]), now=utc_now())
    await index(ctx, make_ample_budget())

    assert set(await read_documents(ctx, "extractions")) == {f"warning-{second.chunk_id}"}
    assert await read_topic_counts(ctx) == {
        "sailing": {"decision": 0, "all": 0},
        "weather": {"decision": 0, "warning": 1, "all": 1},
    }


async def test_duplicate_extractions_of_a_chunk_are_deleted_too(ctx: Context) -> None:
    """Duplicates are not counted."""
    first, *_ = await store_sources(ctx, BAKING)
    duplicate = make_extraction(first, GALE, "weather", duplicate_of="another")
    await store_extractions(ctx, first, duplicate)
    assert await read_topic_counts(ctx) == {}

    await ingest_sources(ctx, replace(BAKING, sections=()), now=utc_now())
    await index(ctx, make_ample_budget())
    assert await read_documents(ctx, "extractions") == {}
    assert await read_topic_counts(ctx) == {}
