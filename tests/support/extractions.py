"""Makes extractions, and stores them as the job `extract` does.

An extraction is a decision, pattern, warning or methodology that was found in a chunk.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from functions.tools.extractions.get_decisions.tool import TOOL as DECISIONS
from functions.tools.extractions.get_methodologies.tool import TOOL as METHODOLOGIES
from functions.tools.extractions.get_patterns.tool import TOOL as PATTERNS
from functions.tools.extractions.get_warnings.tool import TOOL as WARNINGS
from functions.tools.extractions.list_topics.tool import TOOL as TOPICS
from shared.ai.embedding import Purpose
from shared.extractions.model import (
    Content,
    Decision,
    Extraction,
    Methodology,
    Pattern,
    Pitfall,
    Step,
    compute_extraction_id,
)
from shared.extractions.repository import Extractions, build_replacement
from shared.knowledge.chunk import Chunk
from shared.knowledge.queue import ChunkQueue, PendingChunk, StepResult
from shared.runtime.context import App, Context
from shared.runtime.tool import Tool
from tests.support.clock import NOON
from tests.support.knowledge import set_fields
from tests.support.read_cost import ReadCost
from tests.support.tool_calls import ANONYMOUS, call

TOOLS: Final[dict[str, Tool[Any, Any]]] = {
    tool.name: tool for tool in (DECISIONS, METHODOLOGIES, PATTERNS, TOPICS, WARNINGS)
}
"""The tools that read extractions, by name."""
MODEL: Final = "words-to-facts-1"
"""The name of the language model in each extraction."""


def make_decision(question: str = "Which flour?", **fields: Any) -> Decision:
    """Return a decision between two options; `fields` override the defaults."""
    defaults = {"options": ("rye", "wheat"), "considerations": ("taste",)}
    return Decision(question=question, **(defaults | fields))


def make_pattern(name: str = "Sourdough", **fields: Any) -> Pattern:
    """Return a pattern, the solution to a problem; `fields` override the defaults."""
    defaults = {"problem": "Bread that keeps for a day only.", "solution": "Let it sour."}
    return Pattern(name=name, **(defaults | fields))


def make_warning(title: str = "Starving starter", **fields: Any) -> Pitfall:
    """Return a warning with a description; `fields` override the defaults."""
    return Pitfall(title=title, **({"description": "It dies without flour and water."} | fields))


def make_methodology(name: str = "Baking", **fields: Any) -> Methodology:
    """Return a methodology of one step; `fields` override the defaults."""
    step = Step(order=1, title="Knead", description="Until it is smooth.")
    return Methodology(name=name, **({"steps": (step,)} | fields))


def make_extraction(chunk: Chunk, content: Content, *topics: str, **fields: Any) -> Extraction:
    """Return an extraction from a chunk, with these topics; `fields` override the defaults."""
    extraction_id = compute_extraction_id(chunk.chunk_id, content)
    defaults: dict[str, Any] = {
        "extraction_id": extraction_id,
        "content": content,
        "topics": topics,
        "quote": chunk.content[:20],
        "source_id": chunk.source_id,
        "chunk_id": chunk.chunk_id,
        "confidence": 0.5,
        "model": MODEL,
        "extracted_at": NOON,
        "group": extraction_id,
    }
    return Extraction(**(defaults | fields))


async def store_extractions(ctx: Context, *extractions: Extraction) -> None:
    """Store extractions. They replace all former extractions of their chunks."""
    extractions_by_chunk: dict[str, list[Extraction]] = defaultdict(list)
    for extraction in extractions:
        extractions_by_chunk[extraction.chunk_id].append(extraction)
    for chunk_id, chunk_extractions in extractions_by_chunk.items():
        await replace_extractions(ctx, await queue_chunk(ctx, chunk_id), chunk_extractions)


async def replace_extractions(
    ctx: Context, chunk: PendingChunk, extractions: Sequence[Extraction]
) -> int:
    """Replace the extractions of a pending chunk, as the job does.

    Returns:
        1, or 0 if the chunk has changed since it was read; then nothing is stored.
    """
    texts = [extraction.content.text for extraction in extractions]
    vectors = await ctx.embedder.embed(texts, Purpose.DOCUMENT) if texts else []
    new_extractions = list(zip(extractions, vectors, strict=True))
    step_result = build_replacement(chunk, new_extractions, ctx.embedder.model)
    return await store_results(ctx, [step_result])


async def store_results(ctx: Context, results: Sequence[StepResult]) -> int:
    """Store results of the job `extract`, and return the number of chunks."""
    build_writes = Extractions(ctx.database).build_replacement_writes
    return await ChunkQueue(ctx.database).complete("extract", results, build_writes)


async def queue_chunk(ctx: Context, chunk_id: str) -> PendingChunk:
    """Queue a chunk for the job `extract`, and return it."""
    await set_fields(ctx, f"chunks/{chunk_id}", {"pending": {"extract": NOON}})
    chunks = await ChunkQueue(ctx.database).load_pending("extract", ctx.clock(), 100)
    return next(chunk for chunk in chunks if chunk.chunk_id == chunk_id)


async def measure_read(app: App, name: str, /, **arguments: Any) -> ReadCost:
    """Make an anonymous call, which must succeed and write nothing, and return what it read."""
    answer = await call(app, name, ANONYMOUS, **arguments)
    assert answer.error is None, answer.error
    assert answer.receipt.documents_written == 0
    return ReadCost(answer.receipt.round_trips, answer.receipt.documents_read)


def collect_result_ids(pages: Iterable[dict[str, Any]]) -> list[str]:
    """Return the ids of all results on these pages."""
    return [result["id"] for page in pages for result in page["results"]]
