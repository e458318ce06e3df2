"""Extractions for tests, stored as the job `extract` stores what a language model finds."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Final

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
    extraction_id,
)
from shared.extractions.repository import Extractions
from shared.knowledge.queue import ChunkQueue
from tests.support.knowledge import write
from tests.support.tool_calls import STRANGER, call, call_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.knowledge.chunk import Chunk
    from shared.knowledge.queue import PendingChunk
    from shared.runtime.context import App, Context
    from shared.runtime.tool import Tool

TOOLS: Final[dict[str, Tool[Any, Any]]] = {
    tool.name: tool for tool in (DECISIONS, METHODOLOGIES, PATTERNS, TOPICS, WARNINGS)
}
NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)
MODEL: Final = "words-to-facts-1"


def decision(question: str = "Which flour?", **other: Any) -> Decision:
    """A choice between two, unless said otherwise."""
    said = {"options": ("rye", "wheat"), "considerations": ("taste",)}
    return Decision(question=question, **(said | other))


def pattern(name: str = "Sourdough", **other: Any) -> Pattern:
    """A solution."""
    said = {"problem": "Bread that keeps for a day only.", "solution": "Let it sour."}
    return Pattern(name=name, **(said | other))


def warning(title: str = "Starving starter", **other: Any) -> Pitfall:
    """Something that goes wrong."""
    return Pitfall(title=title, **({"description": "It dies without flour and water."} | other))


def methodology(name: str = "Baking", **other: Any) -> Methodology:
    """A way of working in one step."""
    step = Step(order=1, title="Knead", description="Until it is smooth.")
    return Methodology(name=name, **({"steps": (step,)} | other))


def of(chunk: Chunk, content: Content, *topics: str, **other: Any) -> Extraction:
    """What a chunk says, and what about; other fields are an `Extraction`'s own."""
    said: dict[str, Any] = {
        "extraction_id": extraction_id(chunk.chunk_id, content),
        "content": content,
        "topics": topics,
        "quote": chunk.content[:20],
        "source_id": chunk.source_id,
        "chunk_id": chunk.chunk_id,
        "confidence": 0.5,
        "model": MODEL,
        "extracted_at": NOON,
    }
    return Extraction(**(said | other))


async def hold(ctx: Context, *extractions: Extraction) -> None:
    """Let chunks hold these extractions, and no others."""
    by_chunk: dict[str, list[Extraction]] = defaultdict(list)
    for each in extractions:
        by_chunk[each.chunk_id].append(each)
    for chunk_id, held in by_chunk.items():
        await replace(ctx, await waiting(ctx, chunk_id), held)


async def replace(ctx: Context, chunk: PendingChunk, held: Sequence[Extraction]) -> int:
    """Let a chunk, as it was read, hold these extractions; return whether it was stored."""
    texts = [each.content.text for each in held]
    vectors = await ctx.embedder.embed(texts, Purpose.DOCUMENT) if texts else []
    new = list(zip(held, vectors, strict=True))
    done = Extractions(ctx.database).replacing(chunk, new, ctx.embedder.model)
    return await ChunkQueue(ctx.database).complete("extract", [done])


async def waiting(ctx: Context, chunk_id: str) -> PendingChunk:
    """A chunk, made to wait for the job."""
    await write(ctx, f"chunks/{chunk_id}", {"pending": {"extract": NOON}})
    found = await ChunkQueue(ctx.database).pending("extract", ctx.clock(), 100)
    return next(each for each in found if each.chunk_id == chunk_id)


async def cost(app: App, name: str, /, **arguments: Any) -> tuple[int, int]:
    """Round trips and documents read, of a call that succeeds; it has written nothing."""
    answer = await call(app, name, STRANGER, **arguments)
    assert answer.error is None, answer.error
    assert answer.receipt.documents_written == 0
    return answer.receipt.round_trips, answer.receipt.documents_read


async def walk(app: App, name: str, /, **arguments: Any) -> list[dict[str, Any]]:
    """All pages of a call."""
    pages: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    for number in count(1):
        pages.append(await call_result(app, name, **arguments, **cursor))
        following = pages[-1].get("metadata", pages[-1]).get("next_cursor")
        if following is None:
            return pages
        assert number < 200, "a walk that does not end"
        cursor = {"cursor": following}
    raise AssertionError


def ids(pages: Iterable[dict[str, Any]]) -> list[str]:
    """The ids of all results of all pages."""
    return [each["id"] for page in pages for each in page["results"]]
