"""Passages that hold something, and what a language model says of them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.extract.job import extract
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.extractions.outdated import Outdated
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Section, Source
from shared.runtime.context import App
from tests.support.fakes.embedder import WordEmbedder
from tests.support.fakes.generator import ScriptedGenerator
from tests.support.knowledge import in_chunks
from tests.support.stored_documents import ample, documents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from shared.core.settings import Settings
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context
    from shared.runtime.job import Report

    Answers = Mapping[str, Any]
    """What stands in a passage, to what the model says of it: findings, or an error."""

KEYS: Final = (
    "Natural key or surrogate key? We took the surrogate, since the world renames its codes and"
    " renumbers whole catalogues over a weekend."
)
RETRIES: Final = (
    "Retry at one layer only. Every layer that retries multiplies the load, until the outage has no"
    " further need of what caused it."
)
NOTHING: Final = (
    "It was a long evening in November, and we spoke of nothing that anybody could use at work, or"
    " would remember afterwards."
)
SHORT: Final = "Every cache is a migration you have agreed to run forever."
KEYS_QUOTE: Final = "We took the surrogate, since the world renames its codes"
RETRIES_QUOTE: Final = "Every layer that retries multiplies the load"


def decision(quote: str = KEYS_QUOTE, **fields: Any) -> dict[str, Any]:
    """A decision, as a model tells it."""
    content = {
        "question": "Natural or surrogate key?",
        "options": ["natural", "surrogate"],
        "considerations": [],
        "recommended_approach": "The surrogate, with the code as a unique constraint.",
    }
    told = {"quote": quote, "content": content, "topics": ["Keys", "Databases"], "confidence": 0.9}
    return {**told, **fields}


def warning(quote: str = RETRIES_QUOTE, **fields: Any) -> dict[str, Any]:
    """A warning, as a model tells it."""
    content = {"title": "Retries at every layer", "description": "They multiply the load."}
    return {
        "quote": quote,
        "content": content,
        "topics": ["retries"],
        "confidence": 0.8,
        **fields,
    }


FOUND: Final[Answers] = {
    KEYS: {"decisions": [decision()]},
    RETRIES: {"warnings": [warning()]},
}


def scripted(answers: Answers = FOUND) -> ScriptedGenerator:
    """A model that says this of passages, and finds nothing in others."""
    return ScriptedGenerator(
        lambda text: next((told for words, told in answers.items() if words in text), {})
    )


class Late:
    """A model's answer that comes after others: the later, the more turns it lets pass."""

    def __init__(self, turns: int, answer: Any) -> None:
        """Let so many turns of the event loop pass."""
        self._turns = turns
        self._answer = answer

    async def _wait(self) -> Any:
        for _ in range(self._turns):
            await asyncio.sleep(0)
        return self._answer

    def __await__(self) -> Any:
        """Wait, and answer."""
        return self._wait().__await__()


@asynccontextmanager
async def reading(
    settings: Settings, generator: ScriptedGenerator | None = None, **more: Any
) -> AsyncIterator[Context]:
    """What a run of the job may use; meaning is told by words."""
    providers = {"embedder": WordEmbedder(), "generator": generator or scripted()}
    app = App(settings, **{**providers, **more})
    yield app.context(Caller(), Meter())
    await app.aclose()


def book(name: str, *texts: str, title: str = "") -> Source:
    """A source with these passages."""
    sections = tuple(Section(text=text) for text in texts)
    return Source(source_id=name, title=title or name.title(), sections=sections)


async def shelve(ctx: Context, *books: Source) -> list[Chunk]:
    """Put books in, one after the other; return their chunks."""
    chunked = [in_chunks(each) for each in books]
    for each in chunked:
        await Ingestion(ctx.database).save([each], ctx.clock())
    return [chunk for each in chunked for chunk in each.chunks]


async def run(ctx: Context) -> Report:
    """Run the job to its end."""
    return await extract(ctx, ample())


async def read_again(ctx: Context) -> int:
    """Have all that was read read again, as when extractions get another shape."""
    return await Outdated(ctx.database, version=2).read_again(ctx.clock())


async def stored(ctx: Context) -> dict[str, dict[str, Any]]:
    """All extractions, by their ids."""
    return await documents(ctx, "extractions")


async def told(ctx: Context) -> dict[str, bool]:
    """What names each extraction, with its chunk's source, and whether it is shown."""
    found = (await stored(ctx)).values()
    return {
        f"{_name(each['content'])} ({each['source_id']})": bool(each["facets"]) for each in found
    }


async def counts(ctx: Context) -> dict[str, int]:
    """How many extractions topics count, but for those that count none."""
    topics = (await documents(ctx, "topics")).values()
    return {each["name"]: each["total"] for each in topics if each["total"]}


async def waiting(ctx: Context) -> set[str]:
    """What is said by the chunks that wait for the job, due or not."""
    chunks = (await documents(ctx, "chunks")).values()
    return {each["content"] for each in chunks if "extract" in each.get("pending", {})}


def _name(content: Mapping[str, Any]) -> str:
    names: Sequence[str] = ("question", "title", "name")
    return next(str(content[name]) for name in names if name in content)
