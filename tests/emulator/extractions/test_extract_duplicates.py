"""The job `extract` makes one of several equal extractions visible, in any order of reading.

The others are stored in its group, and hidden.
"""

from typing import Any

import pytest

from tests.support.apps import Apps
from tests.support.extract_job import (
    KEYS,
    NOTHING,
    RETRIES_PASSAGE,
    DelayedAnswer,
    ingest_books,
    make_book,
    make_generator,
    make_reported_decision,
    open_run,
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


async def test_a_repeated_extraction_is_stored_as_a_duplicate(apps: Apps) -> None:
    ctx = open_run(apps)
    await ingest_books(ctx, make_book("one", KEYS))
    await run_extract(ctx)
    await ingest_books(ctx, make_book("other", REPEATED_KEYS))
    report = await run_extract(ctx)
    assert report.counts == {"read": 1, "duplicates": 1, "unfounded": 0}
    assert await read_visibility(ctx) == {KEYS_IN_ONE: True, KEYS_IN_OTHER: False}
    extractions = (await read_extractions(ctx)).items()
    ids = {extraction["source_id"]: name for name, extraction in extractions}
    assert {extraction["group"] for _, extraction in extractions} == {ids["one"]}
    assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1}


async def test_one_of_many_equal_extractions_in_a_run_is_visible(apps: Apps) -> None:
    ctx = open_run(apps)
    texts = [f"Said {number} times before: {KEYS}" for number in range(20)]
    books = [make_book(f"book{number}", text) for number, text in enumerate(texts)]
    await ingest_books(ctx, *books)
    report = await run_extract(ctx)
    assert report.counts == {"read": 20, "found": 1, "duplicates": 19, "unfounded": 0}
    assert list((await read_visibility(ctx)).values()).count(True) == 1
    assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1}


@pytest.mark.parametrize(("first_delay", "second_delay"), [(0, 0), (0, 20), (20, 5)])
async def test_the_first_of_two_in_a_batch_is_visible(
    apps: Apps, first_delay: int, second_delay: int
) -> None:
    """A passage between them that fails does not block them."""
    answers = {
        REPEATED_KEYS: DelayedAnswer(second_delay, SAME_FINDINGS),
        RETRIES_PASSAGE: "an answer of the wrong type",
        KEYS: DelayedAnswer(first_delay, SAME_FINDINGS),
    }
    books = {"one": KEYS, "bad": RETRIES_PASSAGE, "other": REPEATED_KEYS}
    ctx = open_run(apps, make_generator(answers))
    await ingest_books(ctx, *(make_book(name, text) for name, text in books.items()))
    assert len((await run_extract(ctx)).failures) == 1
    assert await read_visibility(ctx) == {KEYS_IN_ONE: True, KEYS_IN_OTHER: False}


@pytest.mark.parametrize("is_read_again", [True, False])
async def test_a_duplicate_becomes_visible_without_its_original(
    apps: Apps, *, is_read_again: bool
) -> None:
    """Its passage is deleted, or the model no longer finds it there."""
    ctx = open_run(apps)
    await ingest_books(ctx, make_book("one", KEYS), make_book("other", REPEATED_KEYS))
    await run_extract(ctx)
    model = make_generator({REPEATED_KEYS: SAME_FINDINGS})
    ctx = open_run(apps, model)
    if is_read_again:
        await requeue_all(ctx)
        await run_extract(ctx)
    else:
        await ingest_books(ctx, make_book("one", NOTHING))
        await index_all(ctx)
    assert await read_visibility(ctx) == {KEYS_IN_OTHER: True}
    assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1}


async def test_reading_all_passages_again_changes_nothing(apps: Apps) -> None:
    """An extraction is not a duplicate of the extractions that its batch replaces."""
    ctx = open_run(apps)
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


async def test_no_duplicate_of_an_unstored_original_remains(apps: Apps) -> None:
    """The original was edited while it was read, so the duplicate is read again."""
    editing_ctx = open_run(apps)
    await ingest_books(editing_ctx, make_book("one", KEYS), make_book("other", REPEATED_KEYS))
    edits = iter([make_book("one", NOTHING)])

    async def edit_once_and_answer() -> Any:
        for edited_book in edits:
            await ingest_books(editing_ctx, edited_book)
        return SAME_FINDINGS

    model = make_generator()
    model.make_answer = lambda text: edit_once_and_answer() if KEYS in text else {}
    ctx = open_run(apps, model)
    await run_extract(ctx)
    await index_all(ctx)
    assert await read_visibility(ctx) == {KEYS_IN_OTHER: True}
    assert await read_topic_counts(ctx) == {"keys": 1, "databases": 1}
