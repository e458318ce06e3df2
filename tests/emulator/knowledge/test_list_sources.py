"""`list_sources` returns the sources that match all filters, in each order, page by page."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import Any

from syrupy.assertion import SnapshotAssertion

from functions.tools.knowledge.list_sources.tool import In, Out, explain_empty, list_sources
from shared.runtime.context import Context
from tests.support.knowledge import BAKING, ingest_sources, set_fields
from tests.support.small_sources import NOON, make_source, store_and_index

EMMA = make_source("emma", title="emma", author="Jane Austen", tags=("novel", "irony"))
PERSUASION = make_source(
    "persuasion", title="Persuasion", author="Jane Austen", tags=("novel", "sea")
)
WALDEN = make_source(
    "walden", title="Walden", author="H. D. Thoreau", tags=("nature",), language="es"
)
ESSAY = make_source(
    "essay", title="Civil Disobedience", author="H. D. Thoreau", category="articles"
)


async def store_library(ctx: Context) -> None:
    """Store four sources, added an hour apart."""
    for hours, source in enumerate((EMMA, PERSUASION, WALDEN, ESSAY)):
        await store_and_index(ctx, source, now=NOON + timedelta(hours=hours))


def list_ids(out: Out) -> list[str]:
    return [source.source_id for source in out.sources]


async def list_all_ids(ctx: Context, **arguments: Any) -> list[str]:
    ids: list[str] = []
    args = In(limit=2, **arguments)
    while True:
        out = await list_sources(args, ctx)
        ids += list_ids(out)
        if out.next_cursor is None:
            return ids
        args = In(limit=2, cursor=out.next_cursor, **arguments)


async def test_every_field_of_a_source_is_returned(
    ctx: Context, snapshot: SnapshotAssertion
) -> None:
    empty = Out(total=0, sources=[], next_cursor=None, message=explain_empty())
    assert await list_sources(In(), ctx) == empty
    await store_and_index(ctx, BAKING)
    assert (await list_sources(In(tag="Dough"), ctx)).model_dump() == snapshot


async def test_sources_that_match_all_filters_are_listed_page_by_page(ctx: Context) -> None:
    await store_library(ctx)
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["essay", "walden", "persuasion", "emma"]),
        ({"order": "title"}, ["essay", "emma", "persuasion", "walden"]),
        ({"author": " jane  AUSTEN"}, ["persuasion", "emma"]),
        ({"tag": "novel", "order": "title"}, ["emma", "persuasion"]),
        ({"category": "books"}, ["walden", "persuasion", "emma"]),
        ({"author": "H. D. Thoreau", "category": "Books"}, ["walden"]),
        ({"language": "ES"}, ["walden"]),
        ({"author": "Jane Austen", "tag": "sea", "category": "books"}, ["persuasion"]),
        ({"tag": "novel", "category": "articles"}, []),
    ]
    for arguments, expected in cases:
        assert await list_all_ids(ctx, **arguments) == expected, arguments


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


async def test_matches_far_apart_are_found_page_by_page(ctx: Context) -> None:
    """A page without a match names the filter."""
    await store_310_sources(ctx, {5, 305})
    args = In(author="a", tag="t", order="title", limit=5)
    first = await list_sources(args, ctx)
    assert (list_ids(first), first.message) == (["s005"], None)
    second = await list_sources(args.model_copy(update={"cursor": first.next_cursor}), ctx)
    assert list_ids(second) == ["s305"]
    assert second.next_cursor is None

    await set_fields(ctx, "sources/s005", {"facets": ["author:a"]})
    first = await list_sources(args, ctx)
    assert first.sources == []
    assert first.message == (
        "None of the first 300 sources with author 'a' matches the other filters. Continue with"
        " next_cursor."
    )
    second = await list_sources(args.model_copy(update={"cursor": first.next_cursor}), ctx)
    assert list_ids(second) == ["s305"]


async def test_an_empty_list_says_why(ctx: Context) -> None:
    """The index still has the name of deleted sources until the index job runs."""
    await store_library(ctx)
    await ingest_sources(ctx, replace(WALDEN, sections=()), now=NOON)
    cases: list[tuple[dict[str, Any], str]] = [
        (
            {"author": "Jane Austin", "tag": "novle", "category": "books"},
            (
                "There is no author 'Jane Austin'. Nearest: 'Jane Austen'."
                " There is no tag 'novle'. Nearest: 'novel'."
            ),
        ),
        ({"category": "xyz"}, "There is no category 'xyz'. There are: books, articles."),
        (
            {"author": "Jane Austen", "category": "articles"},
            (
                "No source has author 'Jane Austen' and category 'articles' together. Leave one"
                " of the filters out."
            ),
        ),
        (
            {"tag": "nature"},
            "No source with tag 'nature' is left. List sources without a filter instead.",
        ),
    ]
    for arguments, message in cases:
        out = await list_sources(In(**arguments), ctx)
        assert (out.sources, out.message) == ([], message)
    assert await list_all_ids(ctx) == ["essay", "persuasion", "emma"]
