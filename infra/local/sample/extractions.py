"""The sample's decisions, patterns, warnings and methodologies, as if a model had found them."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from infra.local.sample.knowledge import FOLDER, chunks_by_highlight
from shared.ai.embedding import Purpose
from shared.extractions.model import CONTENTS, Extraction, ExtractionType, extraction_id
from shared.extractions.repository import Extractions
from shared.index.embedding_space import EmbeddingSpace
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.queue import PENDING_FIELDS, ChunkQueue, to_pending
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

    ByChunk = Mapping[str, Sequence["SampleExtraction"]]

MODEL: Final = "sample"
"""Who found these."""
STEP: Final = "extract"
_HIGHLIGHT_URL: Final = "https://readwise.io/open/{}"
_FIELDS: Final = (*PENDING_FIELDS, f"pending.{STEP}")


class SampleExtraction(BaseModel):
    """An extraction from a highlight, or from one of the chunks that a long one becomes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    highlight: int
    part: int = Field(default=1, ge=1, description="Which of the highlight's chunks.")
    type: ExtractionType
    content: dict[str, Any]
    topics: Annotated[tuple[str, ...], Field(min_length=1, max_length=5)]
    quote: str
    confidence: Annotated[float, Field(ge=0, le=1)]

    def extraction(self, chunk: PendingChunk, now: datetime) -> Extraction:
        """It, as found in this chunk."""
        content = CONTENTS[self.type].model_validate(self.content)
        return Extraction(
            extraction_id=extraction_id(chunk.chunk_id, content),
            content=content,
            topics=self.topics,
            quote=self.quote,
            source_id=chunk.source_id,
            chunk_id=chunk.chunk_id,
            confidence=self.confidence,
            model=MODEL,
            extracted_at=now,
        )


class SampleExtractions(BaseModel):
    """All that `extractions.json` holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    extractions: tuple[SampleExtraction, ...]
    nothing: tuple[int, ...] = Field(description="Highlights that hold none of this.")


async def add_extractions(ctx: Context, folder: Path = FOLDER) -> Counter[str]:
    """Bring the extractions of the sample's chunks to what `extractions.json` says.

    The sample must be ingested. No chunk of it waits for the extract job afterwards. What is so
    already is not written again. Highlights that the export lacks, because somebody put another in
    its place, are passed over, and so are chunks that a model has read.

    Returns:
        How many `extractions` were stored, and of how many `passages`.
    """
    rows = await asyncio.to_thread(extractions_by_chunk, folder)
    references = [ctx.database.document(CHUNKS, name) for name in rows]
    now = ctx.clock()
    changes: list[tuple[PendingChunk, list[Extraction]]] = []
    for snapshot in await ctx.database.get_all(references, _FIELDS):
        data = snapshot.to_dict() or {}
        if "content" not in data:
            continue
        chunk = to_pending(STEP, snapshot)
        found = [row.extraction(chunk, now) for row in rows[chunk.chunk_id]]
        found = [each for each in found if each.quote in chunk.content]
        if STEP in data.get("pending", {}) or await _has_other_sample_extractions(
            ctx, chunk, found
        ):
            changes.append((chunk, found))
    return await _store(ctx, changes) if changes else Counter()


def extractions_by_chunk(folder: Path = FOLDER) -> dict[str, list[SampleExtraction]]:
    """What is to be said of each of the sample's chunks, by their ids; of many, nothing."""
    written = (folder / "extractions.json").read_text(encoding="utf-8")
    extracts = SampleExtractions.model_validate_json(written)
    by_page = chunks_by_highlight(folder / "readwise.json")
    named = {each.highlight for each in extracts.extractions} | set(extracts.nothing)
    chunk_ids = {each: by_page.get(_HIGHLIGHT_URL.format(each), []) for each in named}
    rows: defaultdict[str, list[SampleExtraction]] = defaultdict(list)
    for row in extracts.extractions:
        for chunk_id in chunk_ids[row.highlight][row.part - 1 : row.part]:
            rows[chunk_id].append(row)
    return {name: rows[name] for names in chunk_ids.values() for name in names}


async def _has_other_sample_extractions(
    ctx: Context, chunk: PendingChunk, wanted: Sequence[Extraction]
) -> bool:
    """Whether a chunk has other extractions than it is to have, of which none is a model's."""
    if set(chunk.extracted) == {each.extraction_id for each in wanted}:
        return False
    known = await Extractions(ctx.database).of_chunk(chunk)
    return all(each.model == MODEL for each in known)


async def _store(
    ctx: Context, changes: Sequence[tuple[PendingChunk, Sequence[Extraction]]]
) -> Counter[str]:
    embedder = ctx.embedder
    await EmbeddingSpace(ctx.database).claim(embedder)
    texts = [each.content.text for _, found in changes for each in found]
    vectors = iter(await embedder.embed(texts, Purpose.DOCUMENT) if texts else [])
    made = [
        Extractions(ctx.database).replacement(
            chunk, [(each, next(vectors)) for each in found], embedder.model
        )
        for chunk, found in changes
    ]
    passages = await ChunkQueue(ctx.database).complete(STEP, made)
    return +Counter({"extractions": len(texts), "passages": passages})


async def _run(ctx: Context, budget: Budget) -> Report:
    report = Report(await add_extractions(ctx))
    budget.progress(1)
    return report


async def _one(_context: Context) -> int:
    return 1


EXTRACTIONS: Final = Job(
    name="sample-extractions",
    title="Add the sample's decisions, patterns, warnings and methodologies",
    run=_run,
    total=_one,
    schedule="",
    capabilities=frozenset({Capability.EMBEDDING}),
)
"""Run by `make run` after embed, like the job that finds them in what you put in."""
