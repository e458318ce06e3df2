"""Sources for tests of `search_kb`, changes to their index, and the pages of a search."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from functions.tools.knowledge.search_kb.hits import Hit
from functions.tools.knowledge.search_kb.tool import In, Out, search_kb
from shared.index.posting_changes import PostingsTruncation
from shared.index.postings import KNOWLEDGE
from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from tests.support.knowledge import index_all


def make_source_of_text(text: str, source_id: str = "notes", **fields: Any) -> Source:
    """Return a source with one passage; `fields` are further fields of the source."""
    return make_source_of_texts([text], source_id, **fields)


def make_source_of_texts(texts: Sequence[str], source_id: str = "many", **fields: Any) -> Source:
    """Return a source with a passage for each text; `fields` are further fields of the source."""
    all_fields = {"title": source_id.title(), "category": "books"} | fields
    return Source(source_id, sections=tuple(map(Section, texts)), **all_fields)


async def update_and_index_chunk(ctx: Context, chunk_id: str, **fields: object) -> None:
    """Set stored fields of a chunk, as jobs do, and index it again."""
    reference = ctx.database.connection.client.document(f"chunks/{chunk_id}")
    await reference.update(fields | {"pending.index": ctx.clock()})
    await index_all(ctx)


async def truncate_postings(ctx: Context, collection: str, cap: int) -> None:
    """Truncate all postings in `lexicon` or `facets`, as the index job truncates long ones.

    Args:
        ctx: The context of a job run.
        collection: The collection of the postings.
        cap: The maximum number of entries that remain.
    """
    stream = ctx.database.connection.client.collection(collection).stream()
    postings = [(collection, snapshot.id) async for snapshot in stream]
    await PostingsTruncation(ctx.database, KNOWLEDGE, cap).truncate(postings)


async def search_all_pages(ctx: Context, limit: int = 10, **arguments: Any) -> list[Out]:
    """Return all pages of a search, each of at most `limit` hits."""
    pages: list[Out] = []
    cursor = None
    while True:
        page_arguments = {"limit": limit, "cursor": cursor, **arguments}
        pages.append(await search_kb(In.model_validate(page_arguments), ctx))
        cursor = pages[-1].next_cursor
        if cursor is None:
            return pages


def collect_hits(pages: Sequence[Out]) -> list[Hit]:
    return [hit for page in pages for hit in page.results]


def collect_chunk_ids(pages: Sequence[Out]) -> list[str]:
    return [hit.chunk_id for hit in collect_hits(pages)]


def date_source(source: Source, *dates: datetime | None) -> Source:
    """Return a copy of a source with a date for each passage, or one date for all."""
    all_dates = dates * len(source.sections) if len(dates) == 1 else dates
    sections = [
        replace(section, highlighted_at=date)
        for section, date in zip(source.sections, all_dates, strict=True)
    ]
    return replace(source, sections=tuple(sections))
