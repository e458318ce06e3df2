"""`list_sources` returns the sources that match all filters, in each order, page by page."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.tools.knowledge.list_sources.tool import In, Out, explain_empty, list_sources
from shared.knowledge.ingestion import Ingestion
from shared.runtime.context import Context
from tests.support.knowledge import BAKING, chunk_source, set_fields
from tests.support.small_sources import NOON, make_source, store_and_index

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
    for hours, source in enumerate((EMMA, PERSUASION, WALDEN, ESSAY)):
        await store_and_index(ctx, source, now=NOON + timedelta(hours=hours))


def list_ids(out: Out) -> list[str]:
    """Return the ids of the sources on a page."""
    return [source.source_id for source in out.sources]


async def list_all_ids(ctx: Context, **arguments: Any) -> list[str]:
    """Return the ids of the sources on all pages of at most two sources."""
    ids: list[str] = []
    args = In(limit=2, **arguments)
    while True:
        out = await list_sources(args, ctx)
        ids += list_ids(out)
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
async def test_sources_that_match_all_filters_are_listed_page_by_page(
    ctx: Context, arguments: dict[str, Any], expected: list[str]
) -> None:
    await store_library(ctx)
    assert await list_all_ids(ctx, **arguments) == expected


async def test_a_tag_of_one_passage_finds_its_source(ctx: Context) -> None:
    await store_and_index(ctx, BAKING)
    assert await list_all_ids(ctx, tag="Dough") == ["baking"]


async def test_titles_that_differ_only_in_case_are_adjacent(ctx: Context) -> None:
    sources = [
        make_source("a", title="apple"),
        make_source("b", title="Banana"),
        make_source("c", title="APPLE"),
    ]
    await store_and_index(ctx, *sources)
    assert await list_all_ids(ctx, order="title") == ["a", "c", "b"]


async def test_sources_added_together_are_all_listed(ctx: Context) -> None:
    await store_and_index(ctx, *(make_source(f"s{n}") for n in range(5)))
    assert await list_all_ids(ctx) == ["s4", "s3", "s2", "s1", "s0"]


async def test_paging_by_title_skips_no_source_during_changes(ctx: Context) -> None:
    await store_library(ctx)
    first = await list_sources(In(limit=2, order="title"), ctx)
    edited = replace(EMMA, tags=("edited",))
    before_cursor, after_cursor = make_source("a", title="Aaa"), make_source("z", title="Zzz")
    await store_and_index(ctx, edited, before_cursor, after_cursor)
    second = await list_sources(In(limit=10, order="title", cursor=first.next_cursor), ctx)
    assert list_ids(first) == ["essay", "emma"]
    assert list_ids(second) == ["persuasion", "walden", "z"]


async def test_a_source_changed_while_paging_moves_to_the_first_page(ctx: Context) -> None:
    await store_library(ctx)
    first = await list_sources(In(limit=2), ctx)
    await store_and_index(ctx, make_source("walden", "Edited."), now=NOON + timedelta(days=1))
    second = await list_sources(In(limit=2, cursor=first.next_cursor), ctx)
    assert list_ids(first) == ["essay", "walden"]
    assert list_ids(second) == ["persuasion", "emma"]
    assert (await list_all_ids(ctx))[0] == "walden"


async def test_a_deleted_source_is_no_longer_listed(ctx: Context) -> None:
    await store_library(ctx)
    await store_and_index(ctx, replace(WALDEN, sections=()))
    assert await list_all_ids(ctx) == ["essay", "persuasion", "emma"]


async def store_310_sources(ctx: Context, tagged: Collection[int]) -> None:
    """Store sources by the author `a`, some of them with the tag `t`.

    A call that filters by both has the database filter by the author, and checks the tags of at
    most 300 sources.
    """
    for n in range(310):
        source = {"title": f"{n:03d}", "type": "books", "source": "file", "chunk_count": 1}
        facets = ["author:a", "tag:t"] if n in tagged else ["author:a"]
        source |= {"facets": facets, "title_key": f"{n:03d}", "updated_at": NOON}
        await set_fields(ctx, f"sources/s{n:03d}", source)


async def test_a_page_without_a_match_names_the_filter_and_continues(ctx: Context) -> None:
    await store_310_sources(ctx, {305})
    args = In(author="a", tag="t", order="title", limit=5)
    first = await list_sources(args, ctx)
    assert first.sources == []
    assert first.message == (
        "None of the first 300 sources with author 'a' matches the other filters. Continue with"
        " next_cursor."
    )
    second = await list_sources(args.model_copy(update={"cursor": first.next_cursor}), ctx)
    assert list_ids(second) == ["s305"]


async def test_matches_far_apart_are_found_page_by_page(ctx: Context) -> None:
    await store_310_sources(ctx, {5, 305})
    args = In(author="a", tag="t", order="title", limit=5)
    first = await list_sources(args, ctx)
    assert list_ids(first) == ["s005"]
    second = await list_sources(args.model_copy(update={"cursor": first.next_cursor}), ctx)
    assert list_ids(second) == ["s305"]
    assert second.next_cursor is None


async def test_an_empty_base_says_how_to_add_texts(ctx: Context) -> None:
    out = await list_sources(In(), ctx)
    assert out.sources == []
    assert out.next_cursor is None
    assert out.message == explain_empty()


async def test_an_unknown_name_comes_with_similar_names(ctx: Context) -> None:
    await store_library(ctx)
    out = await list_sources(In(author="Jane Austin", tag="novle", category="books"), ctx)
    assert out.message == (
        "There is no author 'Jane Austin'. Nearest: 'Jane Austen'."
        " There is no tag 'novle'. Nearest: 'novel'."
    )


async def test_an_unknown_name_may_come_without_similar_names(ctx: Context) -> None:
    await store_library(ctx)
    out = await list_sources(In(category="xyz"), ctx)
    assert out.message == "There is no category 'xyz', nor any like it."


async def test_filters_without_a_common_source_are_named(ctx: Context) -> None:
    await store_library(ctx)
    out = await list_sources(In(author="Jane Austen", tag="nature"), ctx)
    assert out.sources == []
    assert out.message == (
        "No source has author 'Jane Austen' and tag 'nature' together. Leave one of the filters"
        " out."
    )


async def test_a_name_whose_sources_are_deleted_has_a_message(ctx: Context) -> None:
    """The index still contains the name, because the index job has not run."""
    await store_library(ctx)
    await Ingestion(ctx.database).save([chunk_source(replace(WALDEN, sections=()))], NOON)
    out = await list_sources(In(tag="nature"), ctx)
    assert out.sources == []
    assert out.message == (
        "No source with tag 'nature' is left. List sources without a filter instead."
    )
