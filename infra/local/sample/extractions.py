"""Stores the sample's extractions, as the job `extract` would.

An extraction is a decision, pattern, warning or methodology found in a passage. Those of the sample
were written by hand, for the highlights in `readwise.json`: marked passages of books and articles,
each of which becomes one or more chunks.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from infra.local.sample.knowledge import FOLDER, load_pending, map_chunks_by_highlight
from shared.ai.embedding import Purpose
from shared.extractions.model import CONTENTS, Extraction, ExtractionType, compute_extraction_id
from shared.extractions.repository import Extractions, build_replacement
from shared.index.embedding_space import EmbeddingSpace
from shared.knowledge.queue import ChunkQueue
from shared.text.splitting import CHUNK_LIMITS

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import Context
    from shared.text.splitting import Limits

MODEL: Final = "sample"
"""The model that the sample's extractions name as theirs."""
STEP: Final = "extract"
"""The step that a chunk waits for until its extractions are stored."""
_HIGHLIGHT_URL: Final = "https://readwise.io/open/{}"
"""The template of a highlight's URL, which contains its id."""


class SampleExtraction(BaseModel):
    """An extraction from a chunk of a highlight."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    highlight: int
    type: ExtractionType
    content: dict[str, Any]
    topics: Annotated[tuple[str, ...], Field(min_length=1, max_length=5)]
    quote: str
    confidence: Annotated[float, Field(ge=0, le=1)]

    def build_extraction(self, chunk: PendingChunk, now: datetime) -> Extraction:
        """Build the stored form of this extraction for a chunk."""
        content = CONTENTS[self.type].model_validate(self.content)
        extraction_id = compute_extraction_id(chunk.chunk_id, content)
        return Extraction(
            extraction_id=extraction_id,
            content=content,
            topics=self.topics,
            quote=self.quote,
            source_id=chunk.source_id,
            chunk_id=chunk.chunk_id,
            confidence=self.confidence,
            model=MODEL,
            extracted_at=now,
            group=chunk.extracted.get(extraction_id, extraction_id),
        )


class SampleExtractions(BaseModel):
    """The content of `extractions.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    extractions: tuple[SampleExtraction, ...]
    nothing: tuple[int, ...] = Field(description="Highlights without extractions.")


async def add_extractions(ctx: Context, folder: Path = FOLDER) -> Counter[str]:
    """Store the extractions of passages that wait for them. The sample must be ingested.

    Returns:
        The numbers of `extractions` that were stored, and of the `passages` they come from.
    """
    rows = await asyncio.to_thread(
        map_extractions_by_chunk, CHUNK_LIMITS[ctx.settings.embedding_provider], folder
    )
    embedder, now = ctx.embedder, ctx.clock()
    extractions = [
        (chunk, [row.build_extraction(chunk, now) for row in rows[chunk.chunk_id]])
        for chunk in await load_pending(STEP, rows, ctx)
    ]
    texts = [item.content.text for _, items in extractions for item in items]
    await EmbeddingSpace(ctx.database).claim(embedder, texts)
    vectors = iter(await embedder.embed(texts, Purpose.DOCUMENT))
    replacements = [
        build_replacement(chunk, [(item, next(vectors)) for item in items], embedder.model)
        for chunk, items in extractions
    ]
    passages = await ChunkQueue(ctx.database).complete(
        STEP, replacements, Extractions(ctx.database).build_replacement_writes
    )
    return +Counter(extractions=len(texts), passages=passages)


def map_extractions_by_chunk(
    limits: Limits, folder: Path = FOLDER
) -> dict[str, list[SampleExtraction]]:
    """Read the sample's extractions by the id of the first chunk that contains their quote.

    Many chunks have an empty list.
    """
    text = (folder / "extractions.json").read_text(encoding="utf-8")
    sample = SampleExtractions.model_validate_json(text)
    by_page = map_chunks_by_highlight(folder / "readwise.json", limits)
    highlights = {row.highlight for row in sample.extractions} | set(sample.nothing)
    chunks = {highlight: by_page[_HIGHLIGHT_URL.format(highlight)] for highlight in highlights}
    rows: dict[str, list[SampleExtraction]] = {
        chunk.chunk_id: [] for chunks_in_order in chunks.values() for chunk in chunks_in_order
    }
    for row in sample.extractions:
        for chunk in chunks[row.highlight]:
            if row.quote in chunk.content:
                rows[chunk.chunk_id].append(row)
                break
    return rows
