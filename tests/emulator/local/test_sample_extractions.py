"""The extractions of the sample fit its passages, are distinct, and are stored once.

An extraction is a decision, pattern, warning or methodology that was found in a passage. Those of
the sample were made by hand. They stand in `extractions.json`, and name passages of the export
`readwise.json`, or say that there is nothing in a passage.
"""

import json
import shutil
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from functions.jobs.extract.reader import MIN_CHARACTERS
from functions.jobs.ingest.listing import read
from functions.jobs.ingest.readers.readwise.export import BOOK_NOTE_TAG, SUMMARY_TAG
from infra.local.sample.extractions import (
    MODEL,
    SampleExtraction,
    SampleExtractions,
    add_extractions,
    map_extractions_by_chunk,
)
from infra.local.sample.knowledge import FOLDER
from shared.ai.embedding import Purpose
from shared.ai.local_embedding import LocalEmbedder
from shared.extractions.deduplication import (
    EmbeddedExtraction,
    compute_similarities,
    drop_duplicates,
    find_original,
)
from shared.extractions.model import CONTENTS, Extraction, ExtractionType, Pattern
from shared.extractions.quotes import find_code, find_quote
from shared.extractions.topic_names import canonicalize_topics
from shared.knowledge.chunk import Chunk
from shared.knowledge.queue import ChunkQueue, PendingChunk
from shared.knowledge.source import Source
from shared.runtime.context import Context
from shared.text.splitting import CHUNK_LIMITS
from shared.writer.ingestion import Ingestion
from tests.support.knowledge import chunk_source
from tests.support.stored_documents import read_documents

EXTRACTS = SampleExtractions.model_validate_json((FOLDER / "extractions.json").read_text("utf-8"))
ROWS = map_extractions_by_chunk(CHUNK_LIMITS["local"])
"""The rows of `extractions.json` by chunk id."""


def read_chunks() -> dict[str, Chunk]:
    """Return the chunks of the export by id."""
    sources = [source for source in read(FOLDER / "readwise.json") if isinstance(source, Source)]
    return {chunk.chunk_id: chunk for source in sources for chunk in chunk_source(source).chunks}


CHUNKS = read_chunks()
WITHOUT_EXTRACTIONS = {
    name for name, chunk in CHUNKS.items() if {BOOK_NOTE_TAG, SUMMARY_TAG}.intersection(chunk.tags)
}
"""The note about a book and the summaries, which have no cards and no extractions by hand."""


def build_extractions(ctx: Context) -> list[Extraction]:
    """Build the extractions of all rows."""
    extractions = []
    for chunk_id, rows in ROWS.items():
        chunk = CHUNKS[chunk_id]
        pending = PendingChunk(
            chunk_id, chunk.source_id, chunk.title, chunk.content, chunk.content_hash, 0, None
        )
        extractions += [row.build_extraction(pending, ctx.clock()) for row in rows]
    return extractions


@pytest.fixture
async def sample(ctx: Context, tmp_path: Path) -> Path:
    """A copy of the sample's folder, whose export is in the knowledge base."""
    for name in ("readwise.json", "extractions.json"):
        shutil.copy(FOLDER / name, tmp_path)
    sources = [source for source in read(tmp_path / "readwise.json") if isinstance(source, Source)]
    await Ingestion(ctx.database).save([chunk_source(source) for source in sources], ctx.clock())
    return tmp_path


def test_every_passage_has_extractions_or_is_said_to_have_none() -> None:
    """Every type occurs, every book has extractions, and topics are few and shared."""
    assert set(ROWS) == set(CHUNKS) - WITHOUT_EXTRACTIONS
    assert len(EXTRACTS.extractions) == sum(map(len, ROWS.values()))
    types = Counter(row.type for row in EXTRACTS.extractions)
    assert all(types[extraction_type] >= 8 for extraction_type in ExtractionType)
    sources = {CHUNKS[chunk_id].source_id for chunk_id, rows in ROWS.items() if rows}
    assert len(sources) == 12
    topics = Counter(topic for row in EXTRACTS.extractions for topic in row.topics)
    assert len(topics) <= 20
    assert min(topics.values()) >= 2


@pytest.mark.parametrize(
    ("chunk_id", "row"),
    [pytest.param(name, row, id=str(row.highlight)) for name, rows in ROWS.items() for row in rows],
)
def test_every_extraction_passes_the_jobs_checks(chunk_id: str, row: SampleExtraction) -> None:
    text = CHUNKS[chunk_id].content
    assert len(text) >= MIN_CHARACTERS
    assert row.quote == find_quote(row.quote, text)
    assert row.topics == canonicalize_topics(row.topics, {})
    assert 0.6 <= row.confidence <= 0.95
    content = CONTENTS[row.type].model_validate(row.content)
    assert _drop_empty(row.content) == _drop_empty(
        content.model_dump(mode="json", exclude_none=True)
    )
    if isinstance(content, Pattern) and content.code_example:
        assert content.code_example == find_code(content.code_example, text)


async def test_no_two_extractions_are_duplicates(
    ctx: Context, local_embedder: LocalEmbedder
) -> None:
    extractions = build_extractions(ctx)
    texts = [extraction.content.text for extraction in extractions]
    vectors = await local_embedder.embed(texts, Purpose.DOCUMENT)
    embedded = [EmbeddedExtraction(*pair) for pair in zip(extractions, vectors, strict=True)]
    assert len({extraction.extraction_id for extraction in extractions}) == len(extractions)
    assert drop_duplicates(embedded, local_embedder.model) == embedded
    for first, second in combinations(embedded, 2):
        similarities = compute_similarities(first, [second], local_embedder.model)
        assert find_original(first[0], similarities, local_embedder.model) is None


async def test_extractions_are_stored_once_and_no_step_stays_pending(
    ctx: Context, sample: Path
) -> None:
    expected = {"extractions": len(EXTRACTS.extractions), "passages": len(ROWS)}
    assert await add_extractions(ctx, sample) == expected
    stored = await read_documents(ctx, "extractions")
    assert set(stored) == {extraction.extraction_id for extraction in build_extractions(ctx)}
    assert {extraction["model"] for extraction in stored.values()} == {MODEL}
    pending_count = await ChunkQueue(ctx.database).count_pending("extract")
    assert pending_count == len(WITHOUT_EXTRACTIONS)

    written_before = ctx.meter.documents_written
    assert await add_extractions(ctx, sample) == {}
    assert ctx.meter.documents_written == written_before

    topics = (await read_documents(ctx, "topics")).values()
    assert {topic["name"]: topic["total"] for topic in topics} == Counter(
        topic for row in EXTRACTS.extractions for topic in row.topics
    )


async def test_extractions_of_passages_not_in_the_export_are_skipped(
    ctx: Context, tmp_path: Path
) -> None:
    export = json.loads((FOLDER / "readwise.json").read_text("utf-8"))
    book = export["results"][0]
    book["highlights"] = book["highlights"][:2]
    book["highlights"][1]["text"] = "I wrote something else in its place, and not less than that."
    (tmp_path / "readwise.json").write_text(json.dumps({**export, "results": [book]}))
    shutil.copy(FOLDER / "extractions.json", tmp_path)
    [source] = [source for source in read(tmp_path / "readwise.json") if isinstance(source, Source)]
    await Ingestion(ctx.database).save([chunk_source(source)], ctx.clock())
    assert await add_extractions(ctx, tmp_path) == {"extractions": 1, "passages": 2}


async def test_extraction_stays_pending_on_unlisted_passages(ctx: Context, sample: Path) -> None:
    content = json.loads((sample / "extractions.json").read_text("utf-8"))
    content["nothing"].pop()  # "nothing" lists passages without extractions
    (sample / "extractions.json").write_text(json.dumps(content))
    await add_extractions(ctx, sample)
    pending_count = await ChunkQueue(ctx.database).count_pending("extract")
    assert pending_count == len(WITHOUT_EXTRACTIONS) + 1


def _drop_empty(content: Any) -> Any:
    """Return a content without empty fields."""
    match content:
        case dict():
            return {name: _drop_empty(value) for name, value in content.items() if value}
        case list():
            return [_drop_empty(value) for value in content]
    return content
