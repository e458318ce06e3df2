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
    from shared.runtime.context import Deps

pytestmark = pytest.mark.anyio

AGAIN = f"As I said before: {KEYS}"
ONE, OTHER = "Natural or surrogate key? (one)", "Natural or surrogate key? (other)"
SAME = {"decisions": [decision()]}


async def originals(deps: Deps) -> dict[str, str | None]:
    """The source of each extraction, to the source of what it repeats."""
    found = await stored(deps)
    return {
        each["source_id"]: each["duplicate_of"] and found[each["duplicate_of"]]["source_id"]
        for each in found.values()
    }


async def test_what_is_shown_already_is_stored_as_a_duplicate(
    settings: Settings,
) -> None:
    async with reading(settings) as deps:
        await shelve(deps, book("one", KEYS))
        await run(deps)
        await shelve(deps, book("other", AGAIN))
        report = await run(deps)
        assert {"read": 1, "duplicates": 1, "unfounded": 0} == report.counts
        assert {ONE: True, OTHER: False} == await told(deps)
        assert {"one": None, "other": "one"} == await originals(deps)
        assert {"keys": 1, "databases": 1} == await counts(deps)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 20), (20, 0)])
async def test_of_two_read_at_once_the_first_in_the_queue_is_shown(
    settings: Settings, first: int, second: int
) -> None:
    model = scripted({AGAIN: Late(second, SAME), KEYS: Late(first, SAME)})
    async with reading(settings, model) as deps:
        await shelve(deps, book("one", KEYS), book("other", AGAIN))
        await run(deps)
        assert {ONE: True, OTHER: False} == await told(deps)


async def test_of_many_read_at_once_one_is_shown(settings: Settings) -> None:
    async with reading(settings) as deps:
        books = [book(f"book{n}", f"Said {n} times before: {KEYS}") for n in range(20)]
        await shelve(deps, *books)
        report = await run(deps)
        assert {"read": 20, "found": 1, "duplicates": 19, "unfounded": 0} == report.counts
        assert [True] == [shown for shown in (await told(deps)).values() if shown]
        assert {"keys": 1, "databases": 1} == await counts(deps)


async def test_who_fails_keeps_nobody_from_their_turn(settings: Settings) -> None:
    model = scripted({AGAIN: Late(5, SAME), RETRIES: "no findings", KEYS: Late(20, SAME)})
    async with reading(settings, model) as deps:
        await shelve(deps, book("one", KEYS), book("bad", RETRIES), book("other", AGAIN))
        report = await run(deps)
        assert 1 == len(report.failures)
        assert {ONE: True, OTHER: False} == await told(deps)


async def test_the_same_question_answered_otherwise_is_shown_too(settings: Settings) -> None:
    content: dict[str, Any] = decision()["content"]
    other = {**content, "recommended_approach": "Whatever code everybody knows already."}
    otherwise = {"decisions": [decision(content=other)]}
    async with reading(settings, scripted({AGAIN: otherwise, KEYS: SAME})) as deps:
        await shelve(deps, book("one", KEYS), book("other", AGAIN))
        await run(deps)
        assert {ONE: True, OTHER: True} == await told(deps)
        assert {"keys": 2, "databases": 2} == await counts(deps)


async def test_of_two_that_say_the_same_in_a_passage_the_surer_stays(
    settings: Settings,
) -> None:
    content = {**decision()["content"], "considerations": ["codes change"]}
    twice = {"decisions": [decision(confidence=0.6), decision(confidence=0.8, content=content)]}
    async with reading(settings, scripted({KEYS: twice})) as deps:
        await shelve(deps, book("one", KEYS))
        assert {"read": 1, "found": 1, "unfounded": 0} == (await run(deps)).counts
        [kept] = (await stored(deps)).values()
        assert 0.8 == kept["confidence"]


async def test_the_same_words_of_another_type_are_no_duplicate(settings: Settings) -> None:
    said = {"title": "Natural or surrogate key?", "description": "The surrogate, with the code."}
    both = {"decisions": [decision()], "warnings": [warning("We took the surrogate", content=said)]}
    async with reading(settings, scripted({KEYS: both})) as deps:
        await shelve(deps, book("one", KEYS))
        assert 2 == (await run(deps)).counts["found"]


async def test_once_the_original_is_gone_the_duplicate_is_shown(settings: Settings) -> None:
    async with reading(settings) as deps:
        await shelve(deps, book("one", KEYS), book("other", AGAIN))
        await run(deps)
        await shelve(deps, book("one", NOTHING))
        await index_all(deps)
        while (await ExtractionUpkeep(deps.database).settle()).total():
            pass
        assert {OTHER: True} == await told(deps)


async def test_all_read_again_at_once_end_as_before(settings: Settings) -> None:
    """None is taken for a duplicate of what it, or what is read beside it, said before."""
    async with reading(settings) as deps:
        await shelve(deps, book("one", KEYS), book("other", AGAIN), book("third", RETRIES))
        await run(deps)
        before = await stored(deps)
        assert 3 == await read_again(deps)
        await run(deps)
        assert before == await stored(deps)
        assert {"keys": 1, "databases": 1, "retries": 1} == await counts(deps)


async def test_an_original_that_changed_is_followed_by_its_duplicate(
    settings: Settings,
) -> None:
    async with reading(settings) as deps:
        await shelve(deps, book("one", KEYS), book("other", AGAIN))
        await run(deps)
    async with reading(settings, scripted({AGAIN: SAME})) as deps:
        await read_again(deps)
        await run(deps)
        assert {OTHER: True} == await told(deps)
        assert {"keys": 1, "databases": 1} == await counts(deps)


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
        async with reading(settings, model) as deps:
            await run(deps)
            await index_all(deps)
            assert {OTHER: True} == await told(deps)
            assert {"keys": 1, "databases": 1} == await counts(deps)
