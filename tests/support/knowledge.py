"""Sample sources, and the steps of the real jobs that store, embed and index them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from functions.jobs.embed.job import embed
from functions.jobs.index.job import index
from shared.ai.embedding import Embedder
from shared.core.settings import Settings
from shared.knowledge.chunk import Chunk
from shared.knowledge.source import Locator, Section, Source
from shared.runtime.context import App, Context
from shared.text.splitting import CHUNK_LIMITS, split_chunks
from shared.writer.chunked_source import ChunkedSource
from shared.writer.ingestion import Ingestion
from shared.writer.source_chunks import split_source
from tests.support.jobs import make_ample_budget, make_job_context

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
        Section(
            text="A sourdough starter needs flour and water every day, or it starves.",
            locators=((0, Locator(page=12, chapter="Starters")),),
        ),
        Section(text="Bake the bread in a very hot oven with a little steam for a good crust."),
    ),
)
"""A source with all fields and three passages."""
SAILING = Source(
    source_id="sailing",
    title="Under Sail",
    sections=(
        Section(text="Reef the mainsail before the wind grows too strong for the boat."),
        Section(text="A good anchor and enough chain let the crew sleep through a gale."),
    ),
)
"""A source with the required fields and two passages."""


def chunk_source(source: Source, provider: str = "local") -> ChunkedSource:
    """Split a source into chunks, as ingest does."""
    spans = [split_chunks(section.text, CHUNK_LIMITS[provider]) for section in source.sections]
    return ChunkedSource(source, split_source(source, spans))


def date_sections(source: Source, now: datetime) -> Source:
    """Return a source whose sections without a date were saved now."""
    sections = [
        section if section.dates else replace(section, saved_at=now) for section in source.sections
    ]
    return replace(source, sections=tuple(sections))


async def ingest_sources(
    ctx: Context, *sources: Source, now: datetime | None = None, provider: str = "local"
) -> list[Chunk]:
    """Store sources, or their new versions, as ingest does; return their chunks in order.

    Args:
        ctx: The context of a job run.
        sources: The sources.
        now: The time of the run; by default, that of the context's clock.
        provider: The embedding provider, on which the length of passages depends.
    """
    now = now or ctx.clock()
    chunked_sources = [chunk_source(date_sections(source, now), provider) for source in sources]
    await Ingestion(ctx.database).save(chunked_sources, now)
    return [chunk for source in chunked_sources for chunk in source.chunks]


async def store_sources(ctx: Context, *sources: Source, provider: str = "local") -> list[Chunk]:
    """Ingest, embed and index sources; return their chunks in order."""
    chunks = await ingest_sources(ctx, *sources, provider=provider)
    await embed_all(ctx)
    await index_all(ctx)
    return chunks


async def fill_project(project: str, embedder: Embedder, *sources: Source) -> list[Chunk]:
    """Ingest, embed and index sources in a project's database; return their chunks in order."""
    app = App(Settings(google_cloud_project=project), embedder=embedder)
    try:
        return await store_sources(make_job_context(app), *sources)
    finally:
        await app.aclose()


async def embed_all(ctx: Context) -> None:
    """Embed all pending chunks."""
    await embed(ctx, make_ample_budget())


async def index_all(ctx: Context) -> None:
    """Index all pending chunks."""
    await index(ctx, make_ample_budget())


async def set_fields(ctx: Context, path: str, data: dict[str, Any]) -> None:
    """Merge fields into the document at a path, without the product's code."""
    await ctx.database.connection.client.document(path).set(data, merge=True)


def list_texts(chunks: Sequence[Chunk]) -> list[str]:
    """Return the texts of chunks, in the same order."""
    return [chunk.content for chunk in chunks]
