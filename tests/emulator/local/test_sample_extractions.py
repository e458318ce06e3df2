"""The sample's extractions: valid for the export, distinct, and stored once."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from functions.jobs.extract.reader import MIN_CHARACTERS
from functions.jobs.ingest.readers.reading import read
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
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.extractions.deduplication import compute_similarities, drop_duplicates, find_original
from shared.extractions.model import CONTENTS, ExtractionType, Pattern
from shared.extractions.quotes import find_code, find_quote
from shared.extractions.topic_names import canonicalize_topics
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.queue import ChunkQueue, PendingChunk
from shared.knowledge.source import Source
from shared.runtime.context import App
from tests.support.fakes.embedder import WordEmbedder
from tests.support.knowledge import chunk_source, set_fields
from tests.support.stored_documents import read_documents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from shared.ai.local_embedding import LocalEmbedder
    from shared.core.settings import Settings
    from shared.extractions.model import Extraction
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

EXTRACTS = SampleExtractions.model_validate_json((FOLDER / "extractions.json").read_text("utf-8"))
ROWS = map_extractions_by_chunk()


def read_chunks() -> dict[str, Chunk]:
    """Return the chunks of the export by id."""
    sources = [source for source in read(FOLDER / "readwise.json") if isinstance(source, Source)]
    return {chunk.chunk_id: chunk for source in sources for chunk in chunk_source(source).chunks}


CHUNKS = read_chunks()
ABOUT_BOOKS = {
    name for name, chunk in CHUNKS.items() if {BOOK_NOTE_TAG, SUMMARY_TAG}.intersection(chunk.tags)
}
"""The note about a book and the summaries, which have no cards and no extractions by hand."""


def read_extractions(ctx: Context) -> list[Extraction]:
    """Return all stored extractions."""
    items = []
    for chunk_id, rows in ROWS.items():
        chunk = CHUNKS[chunk_id]
        waiting = PendingChunk(
            chunk_id, chunk.source_id, chunk.title, chunk.content, chunk.content_hash, 0, None
        )
        items += [row.build_extraction(waiting, ctx.clock()) for row in rows]
    return items


@pytest.fixture
async def word_context(settings: Settings) -> AsyncIterator[Context]:
    """A context with an embedder by words."""
    app = App(settings, embedder=WordEmbedder())
    yield app.context(Caller(), Meter())
    await app.aclose()


@pytest.fixture
async def sample(word_context: Context, tmp_path: Path) -> Path:
    """A copy of the sample's folder, whose export is in the knowledge base."""
    for name in ("readwise.json", "extractions.json"):
        shutil.copy(FOLDER / name, tmp_path)
    sources = [source for source in read(tmp_path / "readwise.json") if isinstance(source, Source)]
    await Ingestion(word_context.database).save(
        [chunk_source(source) for source in sources], word_context.clock()
    )
    return tmp_path


def test_every_highlight_of_the_export_is_covered() -> None:
    assert set(CHUNKS) - ABOUT_BOOKS == set(ROWS)
    assert len(EXTRACTS.extractions) == sum(map(len, ROWS.values()))


def test_every_type_occurs_and_most_sources_are_covered() -> None:
    of = Counter(row.type for row in EXTRACTS.extractions)
    assert dict.fromkeys(ExtractionType, True) == {kind: n >= 8 for kind, n in of.items()}
    sources = {CHUNKS[chunk_id].source_id for chunk_id, rows in ROWS.items() if rows}
    assert len(sources) == 12


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


def test_topics_are_few_and_shared() -> None:
    of = Counter(topic for row in EXTRACTS.extractions for topic in row.topics)
    assert len(of) <= 20
    assert min(of.values()) >= 2


async def test_no_two_extractions_are_duplicates(
    ctx: Context, local_embedder: LocalEmbedder
) -> None:
    items = read_extractions(ctx)
    vectors = await local_embedder.embed(
        [extraction.content.text for extraction in items], Purpose.DOCUMENT
    )
    embedded = list(zip(items, vectors, strict=True))
    assert len({extraction.extraction_id for extraction in items}) == len(items)
    assert drop_duplicates(embedded, local_embedder.model) == embedded
    for one, other in combinations(embedded, 2):
        assert (
            find_original(one[0], compute_similarities(one, [other]), local_embedder.model) is None
        )


async def test_they_are_stored_once_and_no_highlight_is_pending(
    word_context: Context, sample: Path
) -> None:
    expected = {"extractions": len(EXTRACTS.extractions), "passages": len(ROWS)}
    assert await add_extractions(word_context, sample) == expected
    stored = await read_documents(word_context, "extractions")
    assert {extraction.extraction_id for extraction in read_extractions(word_context)} == set(
        stored
    )
    assert {extraction["model"] for extraction in stored.values()} == {MODEL}
    assert await ChunkQueue(word_context.database).count_pending("extract") == len(ABOUT_BOOKS)
    content = word_context.meter.documents_written
    assert await add_extractions(word_context, sample) == {}
    assert content == word_context.meter.documents_written
    topics = {
        document["name"]: document["total"]
        for document in (await read_documents(word_context, "topics")).values()
    }
    assert Counter(topic for row in EXTRACTS.extractions for topic in row.topics) == topics


async def test_only_edited_extractions_are_written(word_context: Context, sample: Path) -> None:
    await add_extractions(word_context, sample)
    edit(sample, 0, content={**EXTRACTS.extractions[0].content, "question": "Mock it?"})
    before = set(await read_documents(word_context, "extractions"))
    assert await add_extractions(word_context, sample) == {"extractions": 1, "passages": 1}
    changed = before ^ set(await read_documents(word_context, "extractions"))
    assert len(changed) == 2


async def test_extractions_of_a_model_stay(word_context: Context, sample: Path) -> None:
    await add_extractions(word_context, sample)
    stored = await read_documents(word_context, "extractions")
    for name in stored:
        await set_fields(word_context, f"extractions/{name}", {"model": "gemini"})
    edit(sample, 0, content={**EXTRACTS.extractions[0].content, "question": "Mock it?"})
    assert await add_extractions(word_context, sample) == {}


async def test_highlights_not_in_the_export_are_skipped(
    word_context: Context, tmp_path: Path
) -> None:
    export = json.loads((FOLDER / "readwise.json").read_text("utf-8"))
    book = export["results"][0]
    book["highlights"] = book["highlights"][:2]
    book["highlights"][1]["text"] = "I wrote something else in its place, and not less than that."
    (tmp_path / "readwise.json").write_text(json.dumps({**export, "results": [book]}))
    shutil.copy(FOLDER / "extractions.json", tmp_path)
    [source] = [source for source in read(tmp_path / "readwise.json") if isinstance(source, Source)]
    await Ingestion(word_context.database).save([chunk_source(source)], word_context.clock())
    assert await add_extractions(word_context, tmp_path) == {"extractions": 1, "passages": 2}


async def test_other_passages_stay_pending(word_context: Context, sample: Path) -> None:
    content = json.loads((sample / "extractions.json").read_text("utf-8"))
    [last] = content["nothing"][-1:]
    content["nothing"].remove(last)
    (sample / "extractions.json").write_text(json.dumps(content))
    await add_extractions(word_context, sample)
    assert await ChunkQueue(word_context.database).count_pending("extract") == len(ABOUT_BOOKS) + 1


def edit(folder: Path, row: int, **fields: Any) -> None:
    """Change an entry of `extractions.json`."""
    path = folder / "extractions.json"
    content = json.loads(path.read_text("utf-8"))
    content["extractions"][row] |= fields
    path.write_text(json.dumps(content))


def _drop_empty(content: Any) -> Any:
    """Return a content without empty fields."""
    match content:
        case dict():
            return {name: _drop_empty(value) for name, value in content.items() if value}
        case list():
            return [_drop_empty(value) for value in content]
    return content
