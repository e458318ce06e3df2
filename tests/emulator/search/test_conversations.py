"""Conversations with assistants are found only by a search that asks for them."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from functions.tools.knowledge.get_chunk.tool import In as ChunkIn
from functions.tools.knowledge.get_chunk.tool import get_chunk
from functions.tools.knowledge.search_kb import messages
from functions.tools.knowledge.search_kb.filters import Filters
from functions.tools.knowledge.search_kb.tool import In, search_kb
from shared.core.dates import to_microseconds
from shared.index import on_request
from shared.index.bm25 import pack, select_best
from shared.knowledge.chunk_repository import STEPS
from shared.knowledge.clustering_repository import Clusterings
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source import Source
from shared.runtime.context import Context
from shared.search.query import Mode
from tests.support.apps import Apps
from tests.support.knowledge import store_sources
from tests.support.searches import (
    collect_hits,
    make_source_of_texts,
    search_all_pages,
    truncate_postings,
)
from tests.support.small_sources import NOON

MODES = pytest.mark.parametrize("mode", ["semantic", "lexical", "hybrid"])
CHAT: Source = make_source_of_texts(
    [f"You: Does an anchor hold in mud number {number}?" for number in range(30)],
    "chat",
    category="conversation",
    tags=("boats",),
)
BOOK: Source = make_source_of_texts(["An anchor holds in mud."], "book", tags=("boats",))


@pytest.fixture(scope="module")
async def base(shared_apps: Apps) -> Context:
    """A base with a book and a longer conversation on the same subject."""
    ctx = shared_apps.context(NOON)
    await store_sources(ctx, BOOK, CHAT)
    return ctx


async def find_sources(ctx: Context, **arguments: Any) -> set[str]:
    pages = await search_all_pages(ctx, 50, **arguments)
    return {hit.source_id for hit in collect_hits(pages)}


@MODES
@pytest.mark.parametrize("filters", [{}, {"tags": ["boats"]}, {"period": "last_year"}])
async def test_a_search_leaves_conversations_out(
    base: Context, mode: str, filters: dict[str, Any]
) -> None:
    arguments: dict[str, Any] = {"filters": filters} if filters else {}
    source_ids = await find_sources(
        base, query="Does an anchor hold in mud?", mode=mode, **arguments
    )
    assert source_ids == ({"book"} if "period" not in filters else set())


@pytest.mark.parametrize("filters", [{"tags": ["boats"]}, {"date_range": {"start": "2020-01-01"}}])
async def test_a_list_leaves_conversations_out(base: Context, filters: dict[str, Any]) -> None:
    assert await find_sources(base, filters=filters) == {"book"}


@pytest.mark.parametrize(
    "filters", [{"category": "Conversation"}, {"source": "chat"}, {"source": "Chat"}]
)
@pytest.mark.parametrize("mode", ["lexical", "hybrid", None])
async def test_a_search_that_asks_for_them_finds_them(
    base: Context, mode: str | None, filters: dict[str, Any]
) -> None:
    arguments: dict[str, Any] = {"query": "anchor mud", "mode": mode} if mode else {}
    pages = await search_all_pages(base, 50, filters=filters, **arguments)
    assert len(collect_hits(pages)) == len(CHAT.sections)


async def test_counts_of_words_are_without_conversations(base: Context) -> None:
    out = await search_kb(In(query="anchor mud", mode=Mode.LEXICAL), base)
    assert out.message == "All words are in 1 passage."


async def test_where_nothing_matches_the_answer_says_how_to_ask(base: Context) -> None:
    out = await search_kb(In(query="number", mode=Mode.LEXICAL), base)
    sentence = messages.CONVERSATIONS.format("30 passages")
    assert sentence in (out.message or "")
    filters = Filters(category="conversation", tags=["none"])
    asked = await search_kb(In(query="number", mode=Mode.LEXICAL, filters=filters), base)
    assert sentence not in (asked.message or "")


async def test_no_job_waits_for_conversations(base: Context) -> None:
    """They are not embedded, clustered, mapped, related to passages or mined."""
    [hit] = (await search_kb(In(query="anchor"), base)).results
    related = await get_chunk(ChunkIn(chunk_id=hit.chunk_id), base)
    assert related.related_chunks == []
    waiting = {step: await ChunkQueue(base.database).count_pending(step) for step in STEPS}
    assert waiting == {"embed": 0, "index": 0, "card": 1, "cluster": 1, "extract": 1}
    counted = await Clusterings(base.database).count_embedded(base.embedder.model)
    assert counted == 1


async def test_long_postings_lose_conversations_first(ctx: Context) -> None:
    """So a search for a very common word may miss conversations."""
    await store_sources(ctx, BOOK, CHAT)
    for collection in ("lexicon", "facets"):
        await truncate_postings(ctx, collection, 5)
    assert await find_sources(ctx, query="anchor", mode="lexical") == {"book"}
    assert await find_sources(ctx, filters={"tags": ["boats"]}) == {"book"}
    filters = {"category": "conversation"}
    assert await find_sources(ctx, query="anchor", mode="lexical", filters=filters) == {"chat"}
    pages = await search_all_pages(ctx, 50, filters=filters)
    assert len(collect_hits(pages)) == len(CHAT.sections)


async def test_another_category_brings_a_conversation_among_the_others(ctx: Context) -> None:
    await store_sources(ctx, CHAT)
    await store_sources(ctx, replace(CHAT, category="articles"))
    assert await find_sources(ctx, query="anchor", mode="semantic") == {"chat"}
    await store_sources(ctx, CHAT)
    assert await find_sources(ctx, query="anchor") == set()


def test_entries_on_request_are_the_last_of_a_term() -> None:
    entry = pack(1, 10)
    entries = {level: on_request.mark(pack(9, 10), level) for level in (2, 1)}
    best = select_best({"a": entries[2], "b": entries[1], "c": entry}, 10.0, 2)
    assert best == {"b": entries[1], "c": entry}


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("date", ["0001-01-01", "1969-07-20", "9999-12-31"])
def test_no_date_is_taken_for_a_mark(date: str, level: int) -> None:
    entry = to_microseconds(datetime.fromisoformat(f"{date}T00:00+00:00"))
    marked = on_request.mark(entry, level)
    assert on_request.read_level(marked) == level
    assert on_request.unmark(marked) == entry
