"""`get_decisions`, and what all four tools over extractions have in common."""

from __future__ import annotations

from dataclasses import replace as altered
from typing import TYPE_CHECKING, Any

import pytest

from shared.core.caller import Tier
from shared.runtime.tool import Effect
from tests.support.extractions import (
    TOOLS,
    cost,
    decision,
    hold,
    ids,
    methodology,
    of,
    pattern,
    walk,
    warning,
)
from tests.support.knowledge import BAKING, put_in
from tests.support.tool_calls import call_error, call_result

if TYPE_CHECKING:
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

FOUR = [name for name in TOOLS if name != "list_topics"]


async def one_of_each(ctx: Context, chunks: list[Chunk]) -> None:
    """All of one passage, about one thing."""
    contents = (decision(), pattern(), warning(), methodology())
    await hold(ctx, *(of(chunks[0], each, "bread") for each in contents))


async def test_a_decision_is_told_with_where_it_comes_from(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    held = of(chunks[0], decision(recommended_approach="Rye."), "bread", "rye", confidence=0.9)
    await hold(ctx, held)
    [told] = (await call_result(app, "get_decisions"))["results"]
    expected = {
        "id": held.extraction_id,
        "question": "Which flour?",
        "options": ["rye", "wheat"],
        "considerations": ["taste"],
        "recommended_approach": "Rye.",
        "topics": ["bread", "rye"],
        "source_title": "Bread at Home",
        "source_id": "baking",
        "chunk_id": chunks[0].chunk_id,
        "confidence": 0.9,
        "quote": "Knead the dough unti",
    }
    assert (expected, list(expected)) == (told, list(told))


async def test_what_the_passage_leaves_open_is_left_out(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await hold(ctx, of(chunks[0], decision(considerations=())))
    [told] = (await call_result(app, "get_decisions"))["results"]
    assert ("recommended_approach" in told, told["considerations"]) == (False, [])


async def test_the_metadata_say_what_was_looked_for_and_whom_to_cite(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    places = ((3, 0.9), (0, 0.8), (4, 0.7), (1, 0.6))
    await hold(ctx, *(of(chunks[at], decision(), confidence=sure) for at, sure in places))
    assert {
        "query": "all",
        "sources_cited": ["Under Sail", "Bread at Home"],
        "result_count": 4,
        "search_type": "filtered",
    } == (await call_result(app, "get_decisions"))["metadata"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("get_decisions", "decision"),
        ("get_methodologies", "methodology"),
        ("get_patterns", "pattern"),
        ("get_warnings", "warning"),
    ],
)
async def test_each_tool_answers_with_its_own_type(
    ctx: Context, app: App, chunks: list[Chunk], name: str, kind: str
) -> None:
    await one_of_each(ctx, chunks)
    for arguments in ({}, {"topic": "bread"}, {"query": "bread"}, {"source_id": "baking"}):
        [told] = (await call_result(app, name, **arguments))["results"]
        assert kind == told["id"].partition("-")[0]


@pytest.mark.parametrize("name", TOOLS)
def test_anybody_may_call_it_and_it_only_reads(name: str) -> None:
    assert (Tier.PUBLIC, Effect.READ) == (TOOLS[name].tier, TOOLS[name].effect)


async def test_the_surest_come_first_and_all_pages_hold_each_once(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    sure = {f"d{n}": (n % 4) / 10 for n in range(11)}
    held = [of(chunks[0], decision(name), confidence=each) for name, each in sure.items()]
    await hold(ctx, *held)
    ordered = sorted(held, key=lambda each: (each.confidence, each.extraction_id), reverse=True)
    for limit in (1, 3, 11, 100):
        pages = await walk(app, "get_decisions", limit=limit)
        assert [each.extraction_id for each in ordered] == ids(pages)
        counts = [page["metadata"]["result_count"] for page in pages]
        assert (11, True) == (sum(counts), max(counts) <= limit)


async def test_a_page_goes_on_though_its_end_is_gone_and_others_came(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    held = [of(chunks[0], decision(f"d{n}"), confidence=1 - n / 10) for n in range(6)]
    await hold(ctx, *held)
    first = await call_result(app, "get_decisions", limit=3)
    surest = of(chunks[1], decision("new"), confidence=1.0)
    await hold(ctx, *held[:2], *held[3:], surest)
    cursor = first["metadata"]["next_cursor"]
    second = await call_result(app, "get_decisions", limit=3, cursor=cursor)
    assert [each.extraction_id for each in held] == ids([first, second])


async def test_a_page_is_no_longer_than_can_be_read(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    held = [of(chunks[0], pattern(f"p{n}", solution="x" * 2_000)) for n in range(30)]
    await hold(ctx, *held)
    pages = await walk(app, "get_patterns", limit=30)
    assert {each.extraction_id for each in held} == set(ids(pages))
    assert (True, 30) == (1 < len(pages) <= 3, len(ids(pages)))


async def test_titles_are_those_of_today(ctx: Context, app: App, chunks: list[Chunk]) -> None:
    await hold(ctx, of(chunks[0], decision()))
    await put_in(ctx, altered(BAKING, title="Bread and Butter"))
    found = await call_result(app, "get_decisions")
    assert "Bread and Butter" == found["results"][0]["source_title"]
    assert ["Bread and Butter"] == found["metadata"]["sources_cited"]


async def test_what_a_deleted_source_said_is_gone_at_once(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    kept = of(chunks[3], decision())
    await hold(ctx, of(chunks[0], decision()), of(chunks[1], decision()), kept)
    await ctx.database.document("sources", "baking").delete()
    found = await call_result(app, "get_decisions")
    assert ([kept.extraction_id], 1) == (ids([found]), found["metadata"]["result_count"])


async def test_what_a_deleted_passage_said_goes_with_it(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    kept = of(chunks[2], decision())
    await hold(ctx, of(chunks[0], decision(), "bread"), kept)
    await put_in(ctx, altered(BAKING, sections=BAKING.sections[1:]))
    assert [kept.extraction_id] == ids([await call_result(app, "get_decisions")])
    unknown = await call_result(app, "get_decisions", topic="bread")
    assert ([], []) == (unknown["results"], unknown["metadata"]["nearest_topics"])


async def test_duplicates_are_not_shown(ctx: Context, app: App, chunks: list[Chunk]) -> None:
    first = of(chunks[0], decision(), "bread")
    await hold(ctx, first)
    await hold(ctx, of(chunks[1], decision(), "bread", duplicate_of=first.extraction_id))
    for arguments in ({}, {"topic": "bread"}, {"query": "flour"}):
        assert [first.extraction_id] == ids([await call_result(app, "get_decisions", **arguments)])


@pytest.mark.parametrize("name", FOUR)
async def test_an_empty_base_says_what_is_missing(app: App, name: str) -> None:
    for arguments in ({}, {"topic": "bread"}, {"query": "bread"}):
        found = await call_result(app, name, **arguments)
        assert ([], 0) == (found["results"], found["metadata"]["result_count"])
        assert "language model" in found["metadata"]["message"]
        assert f"There are no {name.removeprefix('get_')}" in found["metadata"]["message"]


@pytest.mark.parametrize("name", FOUR)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("limit", 0),
        ("limit", 101),
        ("limit", "5"),
        ("topic", ""),
        ("topic", " "),
        ("topic", "-_-"),
        ("topic", "x" * 201),
        ("topic", ["bread"]),
        ("query", " "),
        ("source_id", "a/b"),
        ("cursor", "!"),
        ("cursor", "abc"),
        ("type", "decision"),
    ],
)
async def test_arguments_out_of_range_are_refused_by_name(
    app: App, name: str, field: str, value: object
) -> None:
    error = await call_error(app, name, **{field: value})
    assert ("VALIDATION_ERROR", {field}) == (error.code, set(error.details))


async def test_a_cursor_belongs_to_its_call(ctx: Context, app: App, chunks: list[Chunk]) -> None:
    await hold(ctx, *(of(chunks[0], decision(f"d{n}"), "bread") for n in range(3)))
    cursor = (await call_result(app, "get_decisions", limit=1))["metadata"]["next_cursor"]
    others: list[dict[str, Any]] = [
        {"topic": "bread"},
        {"query": "bread"},
        {"source_id": "baking"},
    ]
    for other in others:
        error = await call_error(app, "get_decisions", cursor=cursor, **other)
        assert ("VALIDATION_ERROR", {"cursor"}) == (error.code, set(error.details))
    error = await call_error(app, "get_patterns", cursor=cursor)
    assert "VALIDATION_ERROR" == error.code


async def test_a_list_is_two_round_trips_and_reads_each_source_once(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    held = [of(chunks[at], decision(f"d{n}"), "bread") for at in (0, 3) for n in range(4)]
    await hold(ctx, *held)
    assert (2, 8 + 2) == await cost(app, "get_decisions")
    assert (2, 8 + 2) == await cost(app, "get_decisions", topic="Bread")
    assert 2 + 1 + 2 >= (await cost(app, "get_decisions", limit=2))[1]


async def test_a_list_of_one_source_is_one_round_trip(
    ctx: Context, app: App, chunks: list[Chunk]
) -> None:
    await hold(ctx, *(of(chunks[0], decision(f"d{n}"), "bread") for n in range(4)))
    one = {"source_id": "baking"}
    assert (1, 4 + 1) == await cost(app, "get_decisions", **one)
    assert (1, 4 + 1) == await cost(app, "get_decisions", **one, topic="bread")


async def test_nothing_costs_a_look_at_the_base(app: App) -> None:
    assert (2, 2) == await cost(app, "get_decisions")
