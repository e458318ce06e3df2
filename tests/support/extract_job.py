"""Books for the job `extract`, a model with scripted answers, and the extractions of a run.

An extraction is a finding in a passage, such as a decision or a warning, with a quote.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from functions.jobs.extract.job import extract
from shared.knowledge.chunk import Chunk
from shared.knowledge.chunk_repository import build_step_pending
from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from shared.runtime.job import Report
from tests.support.apps import Apps
from tests.support.fakes.generator import ScriptedGenerator
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.knowledge import ingest_sources
from tests.support.stored_documents import read_chunks, read_documents

Answers = Mapping[str, Any]
"""The model's answers by a part of the passage: findings, an error, or an awaitable answer."""

KEYS: Final = (
    "Natural key or surrogate key? We took the surrogate, since the world renames its codes and"
    " renumbers whole catalogues over a weekend."
)
"""A passage with a decision."""
RETRIES_PASSAGE: Final = (
    "Retry at one layer only. Every layer that retries multiplies the load, until the outage has no"
    " further need of what caused it."
)
"""A passage with a warning."""
NOTHING: Final = (
    "It was a long evening in November, and we spoke of nothing that anybody could use at work, or"
    " would remember afterwards."
)
"""A passage without findings."""
SHORT_TEXT: Final = "Every cache is a migration you have agreed to run forever."
"""A passage that is too short for the model."""
KEYS_QUOTE: Final = "We took the surrogate, since the world renames its codes"
RETRIES_QUOTE: Final = "Every layer that retries multiplies the load"


def make_reported_decision(quote: str = KEYS_QUOTE, **fields: Any) -> dict[str, Any]:
    """Return a decision in the format of the model's answers; `fields` override the defaults."""
    content = {
        "question": "Natural or surrogate key?",
        "options": ["natural", "surrogate"],
        "considerations": [],
        "recommended_approach": "The surrogate, with the code as a unique constraint.",
    }
    return {
        "quote": quote,
        "content": content,
        "topics": ["Keys", "Databases"],
        "confidence": 0.9,
        **fields,
    }


def make_reported_warning(quote: str = RETRIES_QUOTE, **fields: Any) -> dict[str, Any]:
    """Return a warning in the format of the model's answers; `fields` override the defaults."""
    content = {"title": "Retries at every layer", "description": "They multiply the load."}
    return {
        "quote": quote,
        "content": content,
        "topics": ["retries"],
        "confidence": 0.8,
        **fields,
    }


FINDINGS: Final[Answers] = {
    KEYS: {"decisions": [make_reported_decision()]},
    RETRIES_PASSAGE: {"warnings": [make_reported_warning()]},
}
"""The default answers: a finding in each of two passages."""


def make_generator(answers: Answers = FINDINGS) -> ScriptedGenerator:
    """Return a model that gives these answers, and finds nothing in other passages."""

    def find_answer(text: str) -> Any:
        return next((answer for part, answer in answers.items() if part in text), {})

    return ScriptedGenerator(find_answer)


class DelayedAnswer:
    """An answer of the model that takes some iterations of the event loop."""

    def __init__(self, iterations: int, answer: Any) -> None:
        """Answer after this many iterations."""
        self._iterations = iterations
        self._answer = answer

    async def _wait(self) -> Any:
        for _ in range(self._iterations):
            await asyncio.sleep(0)
        return self._answer

    def __await__(self) -> Any:
        """Wait, then answer."""
        return self._wait().__await__()


def open_run(apps: Apps, generator: ScriptedGenerator | None = None, **options: Any) -> Context:
    """Return the context of a run of the job; `options` are those of `Apps`."""
    return make_job_context(apps(generator=generator or make_generator(), **options))


def make_book(name: str, *texts: str, title: str = "") -> Source:
    """Return a source with these passages."""
    sections = tuple(Section(text=text) for text in texts)
    return Source(source_id=name, title=title or name.title(), sections=sections)


async def ingest_books(ctx: Context, *books: Source) -> list[Chunk]:
    """Ingest each book in its own run, and return the chunks of all in order."""
    return [chunk for book in books for chunk in await ingest_sources(ctx, book)]


async def run_extract(ctx: Context) -> Report:
    """Run the job until nothing is pending."""
    return await extract(ctx, make_ample_budget())


async def requeue_all(ctx: Context) -> int:
    """Queue all passages again, and return their number."""
    chunks = await read_chunks(ctx)
    for chunk_id in chunks:
        change = build_step_pending("extract", ctx.clock())
        await ctx.database.connection.client.collection("chunks").document(chunk_id).update(change)
    return len(chunks)


async def read_extractions(ctx: Context) -> dict[str, dict[str, Any]]:
    return await read_documents(ctx, "extractions")


async def read_visibility(ctx: Context) -> dict[str, bool]:
    """Return whether tools show each extraction, by its name and source: "Title (source)"."""
    extractions = (await read_extractions(ctx)).values()
    return {
        f"{_get_name(extraction['content'])} ({extraction['source_id']})": bool(
            extraction["facets"]
        )
        for extraction in extractions
    }


async def read_topic_counts(ctx: Context) -> dict[str, int]:
    """Return how many extractions each topic has, without empty topics."""
    topics = (await read_documents(ctx, "topics")).values()
    return {topic["name"]: topic["total"] for topic in topics if topic["total"]}


async def read_pending_texts(ctx: Context) -> set[str]:
    """Return the texts of the chunks in the queue of the job, due or not."""
    chunks = (await read_documents(ctx, "chunks")).values()
    return {chunk["content"] for chunk in chunks if "extract" in chunk.get("pending", {})}


def _get_name(content: Mapping[str, Any]) -> str:
    fields = ("question", "title", "name")
    return next(str(content[field]) for field in fields if field in content)
