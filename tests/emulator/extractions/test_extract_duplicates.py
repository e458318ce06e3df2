"""The job `extract` makes one of several equal extractions visible, in any order of reading.

The visible one is the original, and the others are stored as its duplicates.
"""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.settings import Settings
from shared.extractions.upkeep import ExtractionUpkeep
from shared.runtime.context import Context
from tests.support.extract_job import (
    KEYS,
    NOTHING,
    RETRIES_PASSAGE,
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

REPEATED_KEYS = f"As I said before: {KEYS}"
"""A passage in which the model finds the same as in `KEYS`."""
KEYS_IN_ONE = "Natural or surrogate key? (one)"
KEYS_IN_OTHER = "Natural or surrogate key? (other)"
"""The extraction with its source, as `read_visibility` names it."""
SAME_FINDINGS = {"decisions": [make_reported_decision()]}


async def read_originals(ctx: Context) -> dict[str, str | None]:
    """Return the source of the original of each extraction, by its own source."""
    extractions = await read_extractions(ctx)
    originals: dict[str, str | None] = {}
    for extraction in extractions.values():
        original_id = extraction["duplicate_of"]
        source = extractions[original_id]["source_id"] if original_id else None
        originals[extraction["source_id"]] = source
    return originals


async def test_a_repeated_extraction_is_stored_as_a_duplicate(settings: Settings) -> None:
    async with open_extract_context(settings) as ctx:
        await ingest_books(ctx, make_book("one", KEYS))
        await run_extract(ctx)
        await ingest_books(ctx, make_book("other", REPEATED_KEYS))
        report = await run_extract(ctx)
        assert report.counts == {"read": 1, "duplicates": 1, "unfounded": 0}
        assert await read_visibility(ctx) == {KEYS_IN_ONE: True, KEYS_IN_OTHER: False}
        assert await read_originals(ctx) == {"one": None, "other": "one"}
        assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1}


@pytest.mark.parametrize(("first_delay", "second_delay"), [(0, 0), (0, 20), (20, 0)])
async def test_the_first_of_two_in_a_batch_is_visible(
    settings: Settings, first_delay: int, second_delay: int
) -> None:
    answers = {
        REPEATED_KEYS: DelayedAnswer(second_delay, SAME_FINDINGS),
        KEYS: DelayedAnswer(first_delay, SAME_FINDINGS),
    }
    model = make_generator(answers)
    async with open_extract_context(settings, model) as ctx:
        await ingest_books(ctx, make_book("one", KEYS), make_book("other", REPEATED_KEYS))
        await run_extract(ctx)
        assert await read_visibility(ctx) == {KEYS_IN_ONE: True, KEYS_IN_OTHER: False}


async def test_one_of_many_equal_extractions_in_a_run_is_visible(settings: Settings) -> None:
    async with open_extract_context(settings) as ctx:
        texts = [f"Said {number} times before: {KEYS}" for number in range(20)]
        books = [make_book(f"book{number}", text) for number, text in enumerate(texts)]
        await ingest_books(ctx, *books)
        report = await run_extract(ctx)
        assert report.counts == {"read": 20, "found": 1, "duplicates": 19, "unfounded": 0}
        assert list((await read_visibility(ctx)).values()).count(True) == 1
        assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1}


async def test_a_failed_passage_does_not_block_the_batch(settings: Settings) -> None:
    answers = {
        REPEATED_KEYS: DelayedAnswer(5, SAME_FINDINGS),
        RETRIES_PASSAGE: "an answer of the wrong type",
        KEYS: DelayedAnswer(20, SAME_FINDINGS),
    }
    model = make_generator(answers)
    async with open_extract_context(settings, model) as ctx:
        await ingest_books(
            ctx,
            make_book("one", KEYS),
            make_book("bad", RETRIES_PASSAGE),
            make_book("other", REPEATED_KEYS),
        )
        report = await run_extract(ctx)
        assert len(report.failures) == 1
        assert await read_visibility(ctx) == {KEYS_IN_ONE: True, KEYS_IN_OTHER: False}


async def test_another_answer_to_a_question_is_visible_too(settings: Settings) -> None:
    content: dict[str, Any] = make_reported_decision()["content"]
    other_content = content | {"recommended_approach": "Whatever code everybody knows already."}
    other_findings = {"decisions": [make_reported_decision(content=other_content)]}
    model = make_generator({REPEATED_KEYS: other_findings, KEYS: SAME_FINDINGS})
    async with open_extract_context(settings, model) as ctx:
        await ingest_books(ctx, make_book("one", KEYS), make_book("other", REPEATED_KEYS))
        await run_extract(ctx)
        assert await read_visibility(ctx) == {KEYS_IN_ONE: True, KEYS_IN_OTHER: True}
        assert await read_topic_counts(ctx) == {"keys": 2, "databases": 2}


async def test_the_most_certain_duplicate_in_a_passage_stays(settings: Settings) -> None:
    content = make_reported_decision()["content"] | {"considerations": ["codes change"]}
    decisions = [
        make_reported_decision(confidence=0.6),
        make_reported_decision(confidence=0.8, content=content),
    ]
    model = make_generator({KEYS: {"decisions": decisions}})
    async with open_extract_context(settings, model) as ctx:
        await ingest_books(ctx, make_book("one", KEYS))
        assert (await run_extract(ctx)).counts == {"read": 1, "found": 1, "unfounded": 0}
        [extraction] = (await read_extractions(ctx)).values()
        assert extraction["confidence"] == 0.8


async def test_another_type_is_never_a_duplicate(settings: Settings) -> None:
    content = {"title": "Natural or surrogate key?", "description": "The surrogate, with the code."}
    findings = {
        "decisions": [make_reported_decision()],
        "warnings": [make_reported_warning("We took the surrogate", content=content)],
    }
    async with open_extract_context(settings, make_generator({KEYS: findings})) as ctx:
        await ingest_books(ctx, make_book("one", KEYS))
        assert (await run_extract(ctx)).counts["found"] == 2


async def test_a_duplicate_becomes_visible_without_its_original(settings: Settings) -> None:
    async with open_extract_context(settings) as ctx:
        await ingest_books(ctx, make_book("one", KEYS), make_book("other", REPEATED_KEYS))
        await run_extract(ctx)
        await ingest_books(ctx, make_book("one", NOTHING))
        await index_all(ctx)
        while (await ExtractionUpkeep(ctx.database).process_deletions()).total():
            pass
        assert await read_visibility(ctx) == {KEYS_IN_OTHER: True}


async def test_reading_all_passages_again_changes_nothing(settings: Settings) -> None:
    """An extraction is not a duplicate of the extractions that its batch replaces."""
    async with open_extract_context(settings) as ctx:
        await ingest_books(
            ctx,
            make_book("one", KEYS),
            make_book("other", REPEATED_KEYS),
            make_book("third", RETRIES_PASSAGE),
        )
        await run_extract(ctx)
        extractions_before = await read_extractions(ctx)
        assert await requeue_all(ctx) == 3
        await run_extract(ctx)
        assert await read_extractions(ctx) == extractions_before
        assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1, "retries": 1}


async def test_a_changed_original_makes_its_duplicate_visible(settings: Settings) -> None:
    async with open_extract_context(settings) as ctx:
        await ingest_books(ctx, make_book("one", KEYS), make_book("other", REPEATED_KEYS))
        await run_extract(ctx)
    async with open_extract_context(
        settings, make_generator({REPEATED_KEYS: SAME_FINDINGS})
    ) as ctx:
        await requeue_all(ctx)
        await run_extract(ctx)
        assert await read_visibility(ctx) == {KEYS_IN_OTHER: True}
        assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1}


async def test_no_duplicate_of_an_unstored_original_remains(settings: Settings) -> None:
    """The original was edited while it was read, so the duplicate is read again."""
    async with open_extract_context(settings) as editing_ctx:
        await ingest_books(editing_ctx, make_book("one", KEYS), make_book("other", REPEATED_KEYS))
        edits = iter([make_book("one", NOTHING)])

        async def edit_once_and_answer() -> Any:
            for edited_book in edits:
                await ingest_books(editing_ctx, edited_book)
            return SAME_FINDINGS

        model = make_generator()
        model.make_answer = lambda text: edit_once_and_answer() if KEYS in text else {}
        async with open_extract_context(settings, model) as ctx:
            await run_extract(ctx)
            await index_all(ctx)
            assert await read_visibility(ctx) == {KEYS_IN_OTHER: True}
            assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1}
