"""What several passages say is shown once, however they are read, and as long as one says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared.extractions.upkeep import ExtractionUpkeep
from tests.support.extract_job import (
    KEYS,
    NOTHING,
    RETRIES,
    Late,
    book,
    counts,
    decision,
    read_again,
    reading,
    run,
    scripted,
    shelve,
    stored,
    told,
    warning,
)
from tests.support.knowledge import index_all

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

AGAIN = f"As I said before: {KEYS}"
ONE, OTHER = "Natural or surrogate key? (one)", "Natural or surrogate key? (other)"
SAME = {"decisions": [decision()]}


async def originals(ctx: Context) -> dict[str, str | None]:
    """The source of each extraction, to the source of what it repeats."""
    found = await stored(ctx)
    return {
        each["source_id"]: each["duplicate_of"] and found[each["duplicate_of"]]["source_id"]
        for each in found.values()
    }


async def test_what_is_shown_already_is_stored_as_a_duplicate(
    settings: Settings,
) -> None:
    async with reading(settings) as ctx:
        await shelve(ctx, book("one", KEYS))
        await run(ctx)
        await shelve(ctx, book("other", AGAIN))
        report = await run(ctx)
        assert {"read": 1, "duplicates": 1, "unfounded": 0} == report.counts
        assert {ONE: True, OTHER: False} == await told(ctx)
        assert {"one": None, "other": "one"} == await originals(ctx)
        assert {"keys": 1, "databases": 1} == await counts(ctx)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 20), (20, 0)])
async def test_of_two_read_at_once_the_first_in_the_queue_is_shown(
    settings: Settings, first: int, second: int
) -> None:
    model = scripted({AGAIN: Late(second, SAME), KEYS: Late(first, SAME)})
    async with reading(settings, model) as ctx:
        await shelve(ctx, book("one", KEYS), book("other", AGAIN))
        await run(ctx)
        assert {ONE: True, OTHER: False} == await told(ctx)


async def test_of_many_read_at_once_one_is_shown(settings: Settings) -> None:
    async with reading(settings) as ctx:
        books = [book(f"book{n}", f"Said {n} times before: {KEYS}") for n in range(20)]
        await shelve(ctx, *books)
        report = await run(ctx)
        assert {"read": 20, "found": 1, "duplicates": 19, "unfounded": 0} == report.counts
        assert [True] == [shown for shown in (await told(ctx)).values() if shown]
        assert {"keys": 1, "databases": 1} == await counts(ctx)


async def test_who_fails_keeps_nobody_from_their_turn(settings: Settings) -> None:
    model = scripted({AGAIN: Late(5, SAME), RETRIES: "no findings", KEYS: Late(20, SAME)})
    async with reading(settings, model) as ctx:
        await shelve(ctx, book("one", KEYS), book("bad", RETRIES), book("other", AGAIN))
        report = await run(ctx)
        assert 1 == len(report.failures)
        assert {ONE: True, OTHER: False} == await told(ctx)


async def test_the_same_question_answered_otherwise_is_shown_too(settings: Settings) -> None:
    content: dict[str, Any] = decision()["content"]
    other = {**content, "recommended_approach": "Whatever code everybody knows already."}
    otherwise = {"decisions": [decision(content=other)]}
    async with reading(settings, scripted({AGAIN: otherwise, KEYS: SAME})) as ctx:
        await shelve(ctx, book("one", KEYS), book("other", AGAIN))
        await run(ctx)
        assert {ONE: True, OTHER: True} == await told(ctx)
        assert {"keys": 2, "databases": 2} == await counts(ctx)


async def test_of_two_that_say_the_same_in_a_passage_the_surer_stays(
    settings: Settings,
) -> None:
    content = {**decision()["content"], "considerations": ["codes change"]}
    twice = {"decisions": [decision(confidence=0.6), decision(confidence=0.8, content=content)]}
    async with reading(settings, scripted({KEYS: twice})) as ctx:
        await shelve(ctx, book("one", KEYS))
        assert {"read": 1, "found": 1, "unfounded": 0} == (await run(ctx)).counts
        [kept] = (await stored(ctx)).values()
        assert 0.8 == kept["confidence"]


async def test_the_same_words_of_another_type_are_no_duplicate(settings: Settings) -> None:
    said = {"title": "Natural or surrogate key?", "description": "The surrogate, with the code."}
    both = {"decisions": [decision()], "warnings": [warning("We took the surrogate", content=said)]}
    async with reading(settings, scripted({KEYS: both})) as ctx:
        await shelve(ctx, book("one", KEYS))
        assert 2 == (await run(ctx)).counts["found"]


async def test_once_the_original_is_gone_the_duplicate_is_shown(settings: Settings) -> None:
    async with reading(settings) as ctx:
        await shelve(ctx, book("one", KEYS), book("other", AGAIN))
        await run(ctx)
        await shelve(ctx, book("one", NOTHING))
        await index_all(ctx)
        while (await ExtractionUpkeep(ctx.database).settle()).total():
            pass
        assert {OTHER: True} == await told(ctx)


async def test_all_read_again_at_once_end_as_before(settings: Settings) -> None:
    """None is taken for a duplicate of what it, or what is read beside it, said before."""
    async with reading(settings) as ctx:
        await shelve(ctx, book("one", KEYS), book("other", AGAIN), book("third", RETRIES))
        await run(ctx)
        before = await stored(ctx)
        assert 3 == await read_again(ctx)
        await run(ctx)
        assert before == await stored(ctx)
        assert {"keys": 1, "databases": 1, "retries": 1} == await counts(ctx)


async def test_an_original_that_changed_is_followed_by_its_duplicate(
    settings: Settings,
) -> None:
    async with reading(settings) as ctx:
        await shelve(ctx, book("one", KEYS), book("other", AGAIN))
        await run(ctx)
    async with reading(settings, scripted({AGAIN: SAME})) as ctx:
        await read_again(ctx)
        await run(ctx)
        assert {OTHER: True} == await told(ctx)
        assert {"keys": 1, "databases": 1} == await counts(ctx)


async def test_an_original_not_stored_leaves_no_duplicate_behind(
    settings: Settings,
) -> None:
    """It was edited while it was read: the other one is read again, and sees what there is."""
    async with reading(settings) as ingesting:
        await shelve(ingesting, book("one", KEYS), book("other", AGAIN))
        moved: list[bool] = []

        async def edited(findings: Any) -> Any:
            if not moved:
                moved.append(True)
                await shelve(ingesting, book("one", NOTHING))
            return findings

        model = scripted()
        model.answering = lambda text: edited(SAME) if KEYS in text else {}
        async with reading(settings, model) as ctx:
            await run(ctx)
            await index_all(ctx)
            assert {OTHER: True} == await told(ctx)
            assert {"keys": 1, "databases": 1} == await counts(ctx)
