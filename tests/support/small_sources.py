"""Sources with short texts or dates, for tests of tools that list."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from shared.knowledge.chunk import Chunk
from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from tests.support.knowledge import index_all, ingest_sources

NOON = datetime(2024, 6, 12, 12, tzinfo=UTC)
"""A Wednesday, at noon."""


async def store_and_index(ctx: Context, *sources: Source, now: datetime = NOON) -> list[Chunk]:
    """Ingest sources and index them without vectors; return their chunks in order."""
    chunks = await ingest_sources(ctx, *sources, now=now)
    await index_all(ctx)
    return chunks


def make_source(
    source_id: str, *texts: str, dates: Iterable[datetime] = (), **fields: Any
) -> Source:
    """Return a source with a section for each text and each date, and these `fields`.

    Without texts and dates, the source has one section. The default title is the id in title case,
    and the default category is `books`.
    """
    sections = [Section(text) for text in texts]
    sections += [
        Section(f"{source_id} {number}, {date}", highlighted_at=date)
        for number, date in enumerate(dates, 1)
    ]
    sections = sections or [Section(f"What {source_id} says.")]
    all_fields = {"title": source_id.title(), "category": "books"} | fields
    return Source(source_id, sections=tuple(sections), **all_fields)
