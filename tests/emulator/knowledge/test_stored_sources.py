"""The repositories of sources and chunks list them page by page, and read them by id."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

from shared.core.dates import ALL_DATES, DateSpan
from shared.index.facets import Kind, make_named_facet
from shared.index.vector_index import make_date_cursor
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.source_repository import SourceOrder, Sources
from shared.runtime.context import Context
from tests.support.knowledge import BAKING, SAILING, index_all, ingest_sources, list_texts
from tests.support.small_sources import NOON, make_source, store_and_index


async def list_ids(ctx: Context, order: SourceOrder) -> list[str]:
    ids: list[str] = []
    after: tuple[int | str, str] | None = None
    while page := await Sources(ctx.database).load_page(order, 1, after=after):
        ids.append(page[0].source_id)
        after = page[0].cursor(order)
    return ids


async def test_a_title_too_long_for_an_index_entry_is_listed_whole(ctx: Context) -> None:
    title = "é" * 2_000  # 4,000 bytes; an index entry has at most 1,500
    await store_and_index(ctx, make_source("long", title=title))
    [source] = await Sources(ctx.database).load_page(SourceOrder.TITLE, 5)
    assert source.title == title
    assert await list_ids(ctx, SourceOrder.TITLE) == ["long"]


async def test_pages_in_each_order_contain_each_source_once(ctx: Context) -> None:
    await store_and_index(ctx, make_source("b", title="Same"), make_source("a", title="Same"))
    later = NOON + timedelta(microseconds=1)
    await store_and_index(ctx, make_source("c", title="Before"), now=later)
    assert await list_ids(ctx, SourceOrder.TITLE) == ["c", "a", "b"]
    assert await list_ids(ctx, SourceOrder.RECENT) == ["c", "b", "a"]


async def test_sources_are_read_in_the_given_order(ctx: Context) -> None:
    await store_and_index(ctx, BAKING, SAILING)
    later = NOON + timedelta(days=1)
    await store_and_index(ctx, make_source("baking", "Edited."), now=later)
    repository = Sources(ctx.database)
    read = await repository.get_all(["sailing", "nobody", "baking"])
    assert [(source.source_id, source.updated_at) for source in read] == [
        ("sailing", NOON),
        ("baking", later),
    ]
    assert await repository.get_all([]) == []
    assert await repository.get("nobody") is None
    assert await repository.count() == 2


async def test_sources_are_found_by_title_prefix(ctx: Context) -> None:
    sources = [
        make_source("a", title="Bread"),
        make_source("b", title="BREAKING"),
        make_source("c", title="Brie"),
    ]
    await store_and_index(ctx, *sources)
    matching = await Sources(ctx.database).list_by_title_prefix(" BREA", 5)
    assert [source.source_id for source in matching] == ["a", "b"]
    assert len(await Sources(ctx.database).list_by_title_prefix("Brea", 1)) == 1


async def test_a_title_longer_than_its_sort_key_is_found_by_any_prefix(ctx: Context) -> None:
    title = "\ufdfa" * 200  # the sort key has 18 characters for each letter, and 300 at most
    await store_and_index(ctx, make_source("a", title=title), make_source("b", title="Bread"))
    for prefix in (title, title[:150], title[:1]):
        [source] = await Sources(ctx.database).list_by_title_prefix(prefix, 5)
        assert source.source_id == "a"


JUNE_11 = DateSpan(date(2024, 6, 11), date(2024, 6, 11))
TAGGED = [make_named_facet(Kind.TAG, "kept").id]
"""The filter for chunks with the tag."""


async def store_diary(ctx: Context) -> None:
    """Store two chunks a day for three days. Those of one source are tagged."""
    dates = [NOON - timedelta(days=days) for days in range(3)]
    await store_and_index(
        ctx, make_source("a", dates=dates, tags=("Kept",)), make_source("b", dates=dates)
    )


async def list_by_date(
    ctx: Context, facets: Sequence[str] = (), span: DateSpan = ALL_DATES
) -> list[str]:
    """Return the source and the day of each chunk, newest first, from pages of one chunk."""
    sources_and_days: list[str] = []
    after: tuple[int, str] | None = None
    while page := await Chunks(ctx.database).load_newest(1, facets, span, after):
        [chunk] = page
        sources_and_days.append(f"{chunk.source_id} {chunk.dated_at:%d}")
        after = make_date_cursor(chunk)
    return sources_and_days


async def test_chunks_are_listed_by_facets_and_days_combined(ctx: Context) -> None:
    """They are counted by days, too."""
    await store_diary(ctx)
    assert await list_by_date(ctx) == ["b 12", "a 12", "b 11", "a 11", "b 10", "a 10"]
    assert await list_by_date(ctx, TAGGED) == ["a 12", "a 11", "a 10"]
    assert await list_by_date(ctx, span=JUNE_11) == ["b 11", "a 11"]
    assert await list_by_date(ctx, TAGGED, JUNE_11) == ["a 11"]
    assert await Chunks(ctx.database).count() == 6
    assert await Chunks(ctx.database).count(JUNE_11) == 2


async def test_chunks_of_a_source_are_listed_from_a_position_on(ctx: Context) -> None:
    chunks = await store_and_index(ctx, BAKING, make_source("b"))
    of_baking = await Chunks(ctx.database).load_of_source("baking", 5)
    assert list_texts(of_baking) == list_texts(chunks[:3])
    assert await Chunks(ctx.database).load_of_source("baking", 1, first=2) == of_baking[1:2]
    first, _, third, _ = (chunk.chunk_id for chunk in chunks)
    positions = await Chunks(ctx.database).load_positions([third, "nobody", first])
    assert positions == {first: 1, third: 3}


async def test_deleted_chunks_are_in_no_listing_even_while_indexed(ctx: Context) -> None:
    await store_diary(ctx)
    chunks = Chunks(ctx.database)
    [deleted] = await chunks.load_of_source("a", 1)
    await ingest_sources(ctx, replace(make_source("a"), sections=()), now=NOON)
    for _ in ("indexed", "no longer indexed"):
        assert await list_by_date(ctx) == ["b 12", "b 11", "b 10"]
        assert await list_by_date(ctx, TAGGED) == []
        assert await chunks.count() == 3
        assert await chunks.load_of_source("a", 5) == []
        assert await chunks.load_positions([deleted.chunk_id]) == {}
        await index_all(ctx)
