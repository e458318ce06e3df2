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

from infra.local.sample.knowledge import FOLDER, map_chunks_by_highlight
from shared.ai.embedding import Purpose
from shared.extractions.model import CONTENTS, Extraction, ExtractionType, compute_extraction_id
from shared.extractions.repository import Extractions, build_replacement
from shared.firestore.documents import Reference
from shared.index.embedding_space import EmbeddingSpace
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.queue import PENDING_FIELDS, ChunkQueue, to_pending
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report
from shared.text.splitting import CHUNK_LIMITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import Context
    from shared.runtime.job import Budget
    from shared.text.splitting import Limits

    ByChunk = Mapping[str, Sequence["SampleExtraction"]]
    """The extractions of chunks, by chunk id."""

MODEL: Final = "sample"
"""The model that the sample's extractions name as theirs."""
STEP: Final = "extract"
"""The step that a chunk waits for until its extractions are stored."""
_HIGHLIGHT_URL: Final = "https://readwise.io/open/{}"
"""The template of a highlight's URL, which contains its id."""
_FIELDS: Final = (*PENDING_FIELDS, f"pending.{STEP}")


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
    """Store the extractions of `extractions.json` that differ from the stored ones.

    The sample must be ingested. Afterwards, no highlight of the sample is pending for the extract
    job. Highlights that are missing from the export, because a user replaced the file, are skipped.
    So are chunks whose extractions a model made.

    Returns:
        The numbers of stored `extractions`, and of the `passages` from which they come.
    """
    rows = await asyncio.to_thread(
        map_extractions_by_chunk, CHUNK_LIMITS[ctx.settings.embedding_provider], folder
    )
    references = [Reference(CHUNKS, name) for name in rows]
    now = ctx.clock()
    changes: list[tuple[PendingChunk, list[Extraction]]] = []
    for snapshot in await ctx.database.get_all(references, _FIELDS):
        data = snapshot.fields
        if "content" not in data:
            continue
        chunk = to_pending(STEP, snapshot)
        extractions = [row.build_extraction(chunk, now) for row in rows[chunk.chunk_id]]
        extractions = [item for item in extractions if item.quote in chunk.content]
        if STEP in data.get("pending", {}) or await _has_other_sample_extractions(
            ctx, chunk, extractions
        ):
            changes.append((chunk, extractions))
    return await _store(ctx, changes) if changes else Counter()


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


async def _has_other_sample_extractions(
    ctx: Context, chunk: PendingChunk, expected: Sequence[Extraction]
) -> bool:
    """Return whether a chunk has the extractions of an earlier version of the sample.

    They differ from the expected ones, and none was made by a model since.
    """
    if set(chunk.extracted) == {extraction.extraction_id for extraction in expected}:
        return False
    stored = await Extractions(ctx.database).load_by_chunk(chunk)
    return all(extraction.model == MODEL for extraction in stored)


async def _store(
    ctx: Context, changes: Sequence[tuple[PendingChunk, Sequence[Extraction]]]
) -> Counter[str]:
    """Embed and store the extractions of chunks, and return the numbers of both."""
    embedder = ctx.embedder
    texts = [item.content.text for _, extractions in changes for item in extractions]
    await EmbeddingSpace(ctx.database).claim(embedder, texts)
    vectors = iter(await embedder.embed(texts, Purpose.DOCUMENT) if texts else [])
    replacements = [
        build_replacement(chunk, [(item, next(vectors)) for item in extractions], embedder.model)
        for chunk, extractions in changes
    ]
    passages = await ChunkQueue(ctx.database).complete(
        STEP, replacements, Extractions(ctx.database).build_replacement_writes
    )
    return +Counter({"extractions": len(texts), "passages": passages})


async def _run(ctx: Context, budget: Budget) -> Report:
    report = Report(await add_extractions(ctx))
    budget.progress(1)
    return report


async def _count_one_step(_context: Context) -> int:
    return 1


EXTRACTIONS: Final = Job(
    name="sample-extractions",
    title="Add the sample's decisions, patterns, warnings and methodologies",
    run=_run,
    total=_count_one_step,
    schedule="",
    capabilities=frozenset({Capability.EMBEDDING}),
)
"""`make run` runs this after embed, in place of the extract job."""
