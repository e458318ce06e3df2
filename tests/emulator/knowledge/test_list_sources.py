"""`list_sources`, against the emulator."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from functions.tools.knowledge.list_sources.tool import EMPTY, In, list_sources
from shared.core.errors import InvalidInput
from shared.knowledge.ingestion import Ingestion
from tests.support.knowledge import BAKING, in_chunks, write
from tests.support.many_sources import NOON, cost, metered, shelve, source

if TYPE_CHECKING:
    from shared.runtime.context import Backend, Deps

pytestmark = pytest.mark.anyio

EMMA = source("emma", title="emma", author="Jane Austen", tags=("novel", "irony"))
PERSUASION = source("persuasion", title="Persuasion", author="Jane Austen", tags=("novel", "sea"))
WALDEN = source("walden", title="Walden", author="H. D. Thoreau", tags=("nature",))
ESSAY = source("essay", title="Civil Disobedience", author="H. D. Thoreau", category="articles")


async def library(deps: Deps) -> None:
    """Four sources, put in one hour after the other."""
    for hours, each in enumerate((EMMA, PERSUASION, WALDEN, ESSAY)):
        await shelve(deps, each, now=NOON + timedelta(hours=hours))


async def ids(deps: Deps, **arguments: Any) -> list[str]:
    """All pages of a list, each of at most two sources."""
    listed: list[str] = []
    args = In(limit=2, **arguments)
    while True:
        out = await list_sources(args, deps)
        listed += [each.source_id for each in out.sources]
        if out.next_cursor is None:
            return listed
        args = In(limit=2, cursor=out.next_cursor, **arguments)


async def test_what_a_source_is_is_said_in_short(deps: Deps) -> None:
    await shelve(deps, BAKING)
    out = await list_sources(In(), deps)
    assert out.model_dump() == {
        "sources": [
            {
                "source_id": "baking",
                "title": "Bread at Home",
                "author": "Ida Loaf",
                "source": "kindle",
                "category": "books",
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
    deps: Deps, arguments: dict[str, Any], expected: list[str]
) -> None:
    await library(deps)
    assert expected == await ids(deps, **arguments)


async def test_a_tag_of_one_highlight_finds_its_source(deps: Deps) -> None:
    await shelve(deps, BAKING)
    assert await ids(deps, tag="Dough") == ["baking"]


async def test_titles_that_differ_only_in_case_stand_together(deps: Deps) -> None:
    sources = [source("a", title="apple"), source("b", title="Banana"), source("c", title="APPLE")]
    await shelve(deps, *sources)
    assert await ids(deps, order="title") == ["a", "c", "b"]


async def test_sources_put_in_together_are_all_listed(deps: Deps) -> None:
    await shelve(deps, *(source(f"s{n}") for n in range(5)))
    assert await ids(deps) == ["s4", "s3", "s2", "s1", "s0"]


async def test_a_walk_by_title_among_changes_misses_nothing(
    deps: Deps,
) -> None:
    await library(deps)
    first = await list_sources(In(limit=2, order="title"), deps)
    gone = source("emma", title="emma", author="Jane Austen", tags=("edited",))
    await shelve(deps, gone, source("new", title="Aaa"), source("zzz", title="Zzz"))
    args = In(limit=10, order="title", cursor=first.next_cursor)
    assert [each.source_id for each in first.sources] == ["essay", "emma"]
    rest = await list_sources(args, deps)
    assert [each.source_id for each in rest.sources] == ["persuasion", "walden", "zzz"]


async def test_a_source_changed_during_a_walk_comes_first_in_the_next(
    deps: Deps,
) -> None:
    await library(deps)
    first = await list_sources(In(limit=2), deps)
    await shelve(deps, source("walden", "Edited."), now=NOON + timedelta(days=1))
    rest = await list_sources(In(limit=2, cursor=first.next_cursor), deps)
    assert [each.source_id for each in rest.sources] == ["persuasion", "emma"]
    assert (await ids(deps))[0] == "walden"


async def test_a_deleted_source_is_no_longer_listed(deps: Deps) -> None:
    await library(deps)
    await shelve(deps, type(WALDEN)("walden", "Walden"))
    assert await ids(deps) == ["essay", "persuasion", "emma"]


async def test_matches_far_apart_are_found_page_by_page(deps: Deps) -> None:
    for n in range(310):
        each = {"title": f"{n:03d}", "type": "books", "source": "file", "chunk_count": 1}
        facets = ["author:a", "tag:t"] if n in {5, 305} else ["author:a"]
        each |= {"facets": facets, "title_key": f"{n:03d}", "updated_at": NOON}
        await write(deps, f"sources/s{n:03d}", each)
    first = await list_sources(In(author="a", tag="t", order="title", limit=5), deps)
    assert [each.source_id for each in first.sources] == ["s005"]
    args = In(author="a", tag="t", order="title", limit=5, cursor=first.next_cursor)
    second = await list_sources(args, deps)
    assert [each.source_id for each in second.sources] == ["s305"]
    assert second.next_cursor is None


async def test_an_empty_base_says_how_to_fill_it(deps: Deps) -> None:
    out = await list_sources(In(), deps)
    assert (out.sources, out.next_cursor, out.message) == ([], None, EMPTY)


async def test_an_unknown_name_is_named_with_the_nearest_that_exist(deps: Deps) -> None:
    await library(deps)
    out = await list_sources(In(author="Jane Austin", tag="novle", category="books"), deps)
    assert out.message == (
        "There is no author 'Jane Austin'. Nearest: 'Jane Austen'."
        " There is no tag 'novle'. Nearest: 'novel'."
    )


async def test_a_name_like_none_is_said_to_be_unknown(deps: Deps) -> None:
    await library(deps)
    out = await list_sources(In(category="xyz"), deps)
    assert out.message == "There is no category 'xyz', nor any like it."


async def test_filters_that_exclude_each_other_are_named(deps: Deps) -> None:
    await library(deps)
    out = await list_sources(In(author="Jane Austen", tag="nature"), deps)
    message = "No source has author 'Jane Austen' and tag 'nature' together. Leave one of them out."
    assert (out.sources, out.message) == ([], message)


async def test_a_name_that_only_the_index_knows_is_said_to_be_gone(
    deps: Deps,
) -> None:
    await library(deps)
    await Ingestion(deps.database).save([in_chunks(type(WALDEN)("walden", "Walden"))], NOON)
    out = await list_sources(In(tag="nature"), deps)
    message = "No source has tag 'nature' any more. List without a filter to see what there is."
    assert (out.sources, out.message) == ([], message)


@pytest.mark.parametrize(
    "arguments", [{"limit": 0}, {"limit": 51}, {"order": "size"}, {"author": " "}, {"cursor": "?"}]
)
def test_what_is_out_of_range_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        In(**arguments)


async def test_a_cursor_of_other_filters_is_refused(deps: Deps) -> None:
    await library(deps)
    cursor = (await list_sources(In(limit=1), deps)).next_cursor
    with pytest.raises(InvalidInput, match="cursor"):
        await list_sources(In(limit=1, tag="novel", cursor=cursor), deps)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"limit": 2}, (1, 3)),
        ({"limit": 2, "order": "title", "author": "Jane Austen"}, (1, 2)),
        ({"author": "H. D. Thoreau", "category": "books"}, (1, 2)),
    ],
)
async def test_a_page_is_one_round_trip(
    deps: Deps, backend: Backend, arguments: dict[str, Any], expected: tuple[int, int]
) -> None:
    await library(deps)
    own, meter = metered(backend)
    await list_sources(In(**arguments), own)
    assert expected == cost(meter)


async def test_saying_why_nothing_is_listed_is_one_more(deps: Deps, backend: Backend) -> None:
    await library(deps)
    own, meter = metered(backend)
    await list_sources(In(author="Nobody"), own)
    assert cost(meter) == (2, 1 + 2 + 1)
