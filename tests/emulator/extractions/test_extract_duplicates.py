"""Of equal extractions from several passages, one is visible, in any order of reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared.extractions.upkeep import ExtractionUpkeep
from tests.support.extract_job import (
    KEYS,
    NOTHING,
    RETRIES,
    DelayedAnswer,
    ingest_books,
    make_book,
    make_generator,
    make_reported_decision,
    make_reported_warning,
    open_extract_context,
    read_extractions,
    read_topic_counts,
    read_visibility,
    requeue_all,
    run_extract,
)
from tests.support.knowledge import index_all

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

AGAIN = f"As I said before: {KEYS}"
ONE, OTHER = "Natural or surrogate key? (one)", "Natural or surrogate key? (other)"
SAME = {"decisions": [make_reported_decision()]}


async def read_originals(ctx: Context) -> dict[str, str | None]:
    """Return the source of the original of each extraction, by its own source."""
    extractions = await read_extractions(ctx)
    return {
        extraction["source_id"]: extraction["duplicate_of"]
        and extractions[extraction["duplicate_of"]]["source_id"]
        for extraction in extractions.values()
    }


async def test_a_repeated_extraction_is_stored_as_a_duplicate(settings: Settings) -> None:
    async with open_extract_context(settings) as ctx:
        await ingest_books(ctx, make_book("one", KEYS))
        await run_extract(ctx)
        await ingest_books(ctx, make_book("other", AGAIN))
        report = await run_extract(ctx)
        assert report.counts == {"read": 1, "duplicates": 1, "unfounded": 0}
        assert await read_visibility(ctx) == {ONE: True, OTHER: False}
        assert await read_originals(ctx) == {"one": None, "other": "one"}
        assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1}


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 20), (20, 0)])
async def test_of_two_in_one_batch_the_first_is_visible(
    settings: Settings, first: int, second: int
) -> None:
    model = make_generator({AGAIN: DelayedAnswer(second, SAME), KEYS: DelayedAnswer(first, SAME)})
    async with open_extract_context(settings, model) as ctx:
        await ingest_books(ctx, make_book("one", KEYS), make_book("other", AGAIN))
        await run_extract(ctx)
        assert await read_visibility(ctx) == {ONE: True, OTHER: False}


async def test_of_many_equal_ones_in_one_run_one_is_visible(settings: Settings) -> None:
    async with open_extract_context(settings) as ctx:
        books = [make_book(f"book{n}", f"Said {n} times before: {KEYS}") for n in range(20)]
        await ingest_books(ctx, *books)
        report = await run_extract(ctx)
        assert report.counts == {"read": 20, "found": 1, "duplicates": 19, "unfounded": 0}
        assert list(filter(None, (await read_visibility(ctx)).values())) == [True]
        assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1}


async def test_a_failed_passage_does_not_block_the_batch(settings: Settings) -> None:
    model = make_generator(
        {AGAIN: DelayedAnswer(5, SAME), RETRIES: "no findings", KEYS: DelayedAnswer(20, SAME)}
    )
    async with open_extract_context(settings, model) as ctx:
        await ingest_books(
            ctx, make_book("one", KEYS), make_book("bad", RETRIES), make_book("other", AGAIN)
        )
        report = await run_extract(ctx)
        assert len(report.failures) == 1
        assert await read_visibility(ctx) == {ONE: True, OTHER: False}


async def test_another_answer_to_a_question_is_visible_too(settings: Settings) -> None:
    content: dict[str, Any] = make_reported_decision()["content"]
    other = {**content, "recommended_approach": "Whatever code everybody knows already."}
    otherwise = {"decisions": [make_reported_decision(content=other)]}
    async with open_extract_context(
        settings, make_generator({AGAIN: otherwise, KEYS: SAME})
    ) as ctx:
        await ingest_books(ctx, make_book("one", KEYS), make_book("other", AGAIN))
        await run_extract(ctx)
        assert await read_visibility(ctx) == {ONE: True, OTHER: True}
        assert await read_topic_counts(ctx) == {"keys": 2, "databases": 2}


async def test_of_duplicates_in_a_passage_the_more_certain_stays(settings: Settings) -> None:
    content = {**make_reported_decision()["content"], "considerations": ["codes change"]}
    twice = {
        "decisions": [
            make_reported_decision(confidence=0.6),
            make_reported_decision(confidence=0.8, content=content),
        ]
    }
    async with open_extract_context(settings, make_generator({KEYS: twice})) as ctx:
        await ingest_books(ctx, make_book("one", KEYS))
        assert (await run_extract(ctx)).counts == {"read": 1, "found": 1, "unfounded": 0}
        [extraction] = (await read_extractions(ctx)).values()
        assert extraction["confidence"] == 0.8


async def test_another_type_is_never_a_duplicate(settings: Settings) -> None:
    content = {"title": "Natural or surrogate key?", "description": "The surrogate, with the code."}
    expected_originals = {
        "decisions": [make_reported_decision()],
        "warnings": [make_reported_warning("We took the surrogate", content=content)],
    }
    async with open_extract_context(settings, make_generator({KEYS: expected_originals})) as ctx:
        await ingest_books(ctx, make_book("one", KEYS))
        assert (await run_extract(ctx)).counts["found"] == 2


async def test_a_duplicate_becomes_visible_without_its_original(settings: Settings) -> None:
    async with open_extract_context(settings) as ctx:
        await ingest_books(ctx, make_book("one", KEYS), make_book("other", AGAIN))
        await run_extract(ctx)
        await ingest_books(ctx, make_book("one", NOTHING))
        await index_all(ctx)
        while (await ExtractionUpkeep(ctx.database).process_deletions()).total():
            pass
        assert await read_visibility(ctx) == {OTHER: True}


async def test_reading_all_again_changes_nothing(settings: Settings) -> None:
    """An extraction is no duplicate of those that its batch replaces."""
    async with open_extract_context(settings) as ctx:
        await ingest_books(
            ctx, make_book("one", KEYS), make_book("other", AGAIN), make_book("third", RETRIES)
        )
        await run_extract(ctx)
        before = await read_extractions(ctx)
        assert await requeue_all(ctx) == 3
        await run_extract(ctx)
        assert await read_extractions(ctx) == before
        assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1, "retries": 1}


async def test_a_changed_original_makes_its_duplicate_visible(settings: Settings) -> None:
    async with open_extract_context(settings) as ctx:
        await ingest_books(ctx, make_book("one", KEYS), make_book("other", AGAIN))
        await run_extract(ctx)
    async with open_extract_context(settings, make_generator({AGAIN: SAME})) as ctx:
        await requeue_all(ctx)
        await run_extract(ctx)
        assert await read_visibility(ctx) == {OTHER: True}
        assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1}


async def test_no_duplicate_of_an_unstored_original_remains(settings: Settings) -> None:
    """The original was edited while it was read, so the duplicate is read again."""
    async with open_extract_context(settings) as ingesting:
        await ingest_books(ingesting, make_book("one", KEYS), make_book("other", AGAIN))
        has_moved: list[bool] = []

        async def edited(findings: Any) -> Any:
            if not has_moved:
                has_moved.append(True)
                await ingest_books(ingesting, make_book("one", NOTHING))
            return findings

        model = make_generator()
        model.make_answer = lambda text: edited(SAME) if KEYS in text else {}
        async with open_extract_context(settings, model) as ctx:
            await run_extract(ctx)
            await index_all(ctx)
            assert await read_visibility(ctx) == {OTHER: True}
            assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1}
