"""`list_sources` returns the sources that match all filters, in each order, page by page."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from functions.tools.knowledge.list_sources.tool import EMPTY_MESSAGE, In, list_sources
from shared.core.errors import InvalidInput
from shared.knowledge.ingestion import Ingestion
from tests.support.knowledge import BAKING, chunk_source, set_fields
from tests.support.small_sources import (
    NOON,
    get_read_cost,
    make_metered_context,
    make_source,
    store_and_index,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

EMMA = make_source("emma", title="emma", author="Jane Austen", tags=("novel", "irony"))
PERSUASION = make_source(
    "persuasion", title="Persuasion", author="Jane Austen", tags=("novel", "sea")
)
WALDEN = make_source("walden", title="Walden", author="H. D. Thoreau", tags=("nature",))
ESSAY = make_source(
    "essay", title="Civil Disobedience", author="H. D. Thoreau", category="articles"
)


async def store_library(ctx: Context) -> None:
    """Store four sources, added an hour apart."""
    for hours, item in enumerate((EMMA, PERSUASION, WALDEN, ESSAY)):
        await store_and_index(ctx, item, now=NOON + timedelta(hours=hours))


async def list_ids(ctx: Context, **arguments: Any) -> list[str]:
    """Return the ids on all pages of a list, each of at most two sources."""
    ids: list[str] = []
    args = In(limit=2, **arguments)
    while True:
        out = await list_sources(args, ctx)
        ids += [item.source_id for item in out.sources]
        if out.next_cursor is None:
            return ids
        args = In(limit=2, cursor=out.next_cursor, **arguments)


async def test_every_field_of_a_source_is_returned(ctx: Context) -> None:
    await store_and_index(ctx, BAKING)
    out = await list_sources(In(), ctx)
    assert out.model_dump() == {
        "sources": [
            {
                "source_id": "baking",
                "title": "Bread at Home",
                "author": "Ida Loaf",
                "source": "kindle",
                "category": "books",
                "language": None,
                "tags": ["food"],
                "chunk_count": 3,
                "updated": "2024-06-12",
                "source_url": "https://example.com/bread",
                "readwise_url": "https://readwise.io/bookreview/1",
            }
        ],
        "next_cursor": None,
        "message": None,
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ["essay", "walden", "persuasion", "emma"]),
        ({"order": "title"}, ["essay", "emma", "persuasion", "walden"]),
        ({"author": "Jane Austen"}, ["persuasion", "emma"]),
        ({"author": " jane  AUSTEN"}, ["persuasion", "emma"]),
        ({"tag": "novel", "order": "title"}, ["emma", "persuasion"]),
        ({"category": "books"}, ["walden", "persuasion", "emma"]),
        ({"author": "H. D. Thoreau", "category": "Books"}, ["walden"]),
        ({"author": "Jane Austen", "tag": "sea", "category": "books"}, ["persuasion"]),
        ({"tag": "novel", "category": "articles"}, []),
    ],
)
async def test_all_filters_hold_in_every_order_over_all_pages(
    ctx: Context, arguments: dict[str, Any], expected: list[str]
) -> None:
    await store_library(ctx)
    assert await list_ids(ctx, **arguments) == expected


async def test_a_tag_of_one_highlight_finds_its_source(ctx: Context) -> None:
    await store_and_index(ctx, BAKING)
    assert await list_ids(ctx, tag="Dough") == ["baking"]


async def test_titles_that_differ_only_in_case_are_adjacent(ctx: Context) -> None:
    sources = [
        make_source("a", title="apple"),
        make_source("b", title="Banana"),
        make_source("c", title="APPLE"),
    ]
    await store_and_index(ctx, *sources)
    assert await list_ids(ctx, order="title") == ["a", "c", "b"]


async def test_sources_added_together_are_all_listed(ctx: Context) -> None:
    await store_and_index(ctx, *(make_source(f"s{n}") for n in range(5)))
    assert await list_ids(ctx) == ["s4", "s3", "s2", "s1", "s0"]


async def test_paging_by_title_during_changes_misses_nothing(
    ctx: Context,
) -> None:
    await store_library(ctx)
    first = await list_sources(In(limit=2, order="title"), ctx)
    gone = make_source("emma", title="emma", author="Jane Austen", tags=("edited",))
    await store_and_index(
        ctx, gone, make_source("new", title="Aaa"), make_source("zzz", title="Zzz")
    )
    args = In(limit=10, order="title", cursor=first.next_cursor)
    assert [item.source_id for item in first.sources] == ["essay", "emma"]
    rest = await list_sources(args, ctx)
    assert [entry.source_id for entry in rest.sources] == ["persuasion", "walden", "zzz"]


async def test_a_source_changed_while_paging_comes_first_later(
    ctx: Context,
) -> None:
    await store_library(ctx)
    first = await list_sources(In(limit=2), ctx)
    await store_and_index(ctx, make_source("walden", "Edited."), now=NOON + timedelta(days=1))
    rest = await list_sources(In(limit=2, cursor=first.next_cursor), ctx)
    assert [item.source_id for item in rest.sources] == ["persuasion", "emma"]
    assert (await list_ids(ctx))[0] == "walden"


async def test_a_deleted_source_is_no_longer_listed(ctx: Context) -> None:
    await store_library(ctx)
    await store_and_index(ctx, type(WALDEN)("walden", "Walden"))
    assert await list_ids(ctx) == ["essay", "persuasion", "emma"]


async def store_310_sources(ctx: Context, tagged: Collection[int]) -> None:
    """Store sources by the author `a`, some of them with the tag `t`."""
    for n in range(310):
        source = {"title": f"{n:03d}", "type": "books", "source": "file", "chunk_count": 1}
        facets = ["author:a", "tag:t"] if n in tagged else ["author:a"]
        source |= {"facets": facets, "title_key": f"{n:03d}", "updated_at": NOON}
        await set_fields(ctx, f"sources/s{n:03d}", source)


async def test_no_match_among_the_first_sources_names_the_filter_of_the_database(
    ctx: Context,
) -> None:
    await store_310_sources(ctx, {305})
    args = In(author="a", tag="t", order="title", limit=5)
    first = await list_sources(args, ctx)
    assert first.sources == []
    assert first.message == (
        "None of the first 300 sources with author 'a' matches the other filters. Continue with"
        " next_cursor."
    )
    second = await list_sources(args.model_copy(update={"cursor": first.next_cursor}), ctx)
    assert [source.source_id for source in second.sources] == ["s305"]


async def test_matches_far_apart_are_found_page_by_page(ctx: Context) -> None:
    await store_310_sources(ctx, {5, 305})
    first = await list_sources(In(author="a", tag="t", order="title", limit=5), ctx)
    assert [item.source_id for item in first.sources] == ["s005"]
    args = In(author="a", tag="t", order="title", limit=5, cursor=first.next_cursor)
    second = await list_sources(args, ctx)
    assert [entry.source_id for entry in second.sources] == ["s305"]
    assert second.next_cursor is None


async def test_an_empty_base_says_how_to_add_texts(ctx: Context) -> None:
    out = await list_sources(In(), ctx)
    assert (out.sources, out.next_cursor, out.message) == ([], None, EMPTY_MESSAGE)


async def test_an_unknown_name_comes_with_similar_names(ctx: Context) -> None:
    await store_library(ctx)
    out = await list_sources(In(author="Jane Austin", tag="novle", category="books"), ctx)
    assert out.message == (
        "There is no author 'Jane Austin'. Nearest: 'Jane Austen'."
        " There is no tag 'novle'. Nearest: 'novel'."
    )


async def test_an_unknown_name_may_have_no_similar_one(ctx: Context) -> None:
    await store_library(ctx)
    out = await list_sources(In(category="xyz"), ctx)
    assert out.message == "There is no category 'xyz', nor any like it."


async def test_mutually_exclusive_filters_are_named(ctx: Context) -> None:
    await store_library(ctx)
    out = await list_sources(In(author="Jane Austen", tag="nature"), ctx)
    message = (
        "No source has author 'Jane Austen' and tag 'nature' together. Leave one of the filters"
        " out."
    )
    assert (out.sources, out.message) == ([], message)


async def test_a_name_found_only_in_the_index_is_gone(
    ctx: Context,
) -> None:
    await store_library(ctx)
    await Ingestion(ctx.database).save([chunk_source(type(WALDEN)("walden", "Walden"))], NOON)
    out = await list_sources(In(tag="nature"), ctx)
    message = "No source with tag 'nature' is left. List sources without a filter instead."
    assert (out.sources, out.message) == ([], message)


@pytest.mark.parametrize(
    "arguments", [{"limit": 0}, {"limit": 51}, {"order": "size"}, {"author": " "}, {"cursor": "?"}]
)
def test_what_is_out_of_range_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        In(**arguments)


async def test_a_cursor_of_other_filters_is_refused(ctx: Context) -> None:
    await store_library(ctx)
    cursor = (await list_sources(In(limit=1), ctx)).next_cursor
    with pytest.raises(InvalidInput, match="cursor"):
        await list_sources(In(limit=1, tag="novel", cursor=cursor), ctx)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"limit": 2}, (1, 3)),
        ({"limit": 2, "order": "title", "author": "Jane Austen"}, (1, 2)),
        ({"author": "H. D. Thoreau", "category": "books"}, (1, 2)),
    ],
)
async def test_a_page_is_one_round_trip(
    ctx: Context, app: App, arguments: dict[str, Any], expected: tuple[int, int]
) -> None:
    await store_library(ctx)
    own, meter = make_metered_context(app)
    await list_sources(In(**arguments), own)
    assert get_read_cost(meter) == expected


async def test_explaining_an_empty_list_is_one_more_round_trip(ctx: Context, app: App) -> None:
    await store_library(ctx)
    own, meter = make_metered_context(app)
    await list_sources(In(author="Nobody"), own)
    assert get_read_cost(meter) == (2, 1 + 2 + 1)
