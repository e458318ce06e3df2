"""Small knowledge bases for tests, put in by the real jobs' parts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from functions.jobs.embed.job import embed
from functions.jobs.index.job import index
from shared.knowledge.chunk import chunks_of
from shared.knowledge.ingestion import ChunkedSource, Ingestion
from shared.knowledge.source import Section, Source
from shared.runtime.job import Budget
from shared.text.chunking import split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Deps

BAKING = Source(
    source_id="baking",
    title="Bread at Home",
    author="Ida Loaf",
    origin="kindle",
    category="books",
    tags=("food",),
    readwise_url="https://readwise.io/bookreview/1",
    source_url="https://example.com/bread",
    sections=(
        Section(
            text="Knead the dough until it is smooth, then let it rise in a warm place.",
            tags=("dough",),
            readwise_url="https://readwise.io/open/11",
            highlight_url="https://example.com/bread#11",
        ),
        Section(text="A sourdough starter needs flour and water every day, or it starves."),
        Section(text="Bake the bread in a very hot oven with a little steam for a good crust."),
    ),
)
SAILING = Source(
    source_id="sailing",
    title="Under Sail",
    sections=(
        Section(text="Reef the mainsail before the wind grows too strong for the boat."),
        Section(text="A good anchor and enough chain let the crew sleep through a gale."),
    ),
)


def in_chunks(source: Source) -> ChunkedSource:
    """A source, cut as ingest cuts it."""
    spans = [split(section.text) for section in source.sections]
    return ChunkedSource(source, chunks_of(source, spans))


async def put_in(deps: Deps, *sources: Source) -> list[Chunk]:
    """Store sources, embed and index them; return their chunks in order."""
    chunked = [in_chunks(source) for source in sources]
    await Ingestion(deps.database).save(chunked, deps.clock())
    await embed_all(deps)
    await index_all(deps)
    return [chunk for each in chunked for chunk in each.chunks]


async def embed_all(deps: Deps) -> None:
    """Embed whatever waits for it."""
    await embed(deps, Budget(time.monotonic() + 3600))


async def index_all(deps: Deps) -> None:
    """Index whatever waits for it."""
    await index(deps, Budget(time.monotonic() + 3600))


async def write(deps: Deps, path: str, data: dict[str, Any]) -> None:
    """Set a document's fields, as a job that does not exist yet would."""
    await deps.database.client.document(path).set(data, merge=True)


def texts(chunks: Sequence[Chunk]) -> list[str]:
    """What chunks say."""
    return [chunk.content for chunk in chunks]
