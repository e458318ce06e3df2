"""When Readwise fails, ingest waits, retries or reports the error, and loses nothing."""

import asyncio
import gzip
import io
import time
from contextlib import redirect_stderr
from functools import partial
from typing import Any

import pytest
from pydantic import SecretStr

from functions.jobs.ingest.job import ingest
from functions.jobs.ingest.origin import OutOfTime
from functions.jobs.ingest.readers.readwise.export import MAX_BYTES, derive_book_source_id
from functions.jobs.ingest.readwise.client import ReadwiseClient
from functions.jobs.ingest.readwise.library import MARGIN
from shared.core.dates import utc_now
from shared.core.errors import InvalidInput, Unavailable
from shared.runtime.context import Context
from shared.runtime.job import Budget, Failure, Report
from tests.support.fakes.readwise import (
    BROKEN,
    CUT_CONNECTION,
    CUT_JSON,
    HANG,
    NO_RESULTS,
    NOTHING,
    RESULTS_OF_ANOTHER_TYPE,
    START,
    TOKEN,
    WEB_PAGE,
    FakeReadwise,
    Reply,
    make_throttled_reply,
)
from tests.support.ingest_runs import read_progress, read_texts, run_ingest
from tests.support.jobs import make_one_step_budget
from tests.support.monotonic_clock import MonotonicClock
from tests.support.stored_documents import read_documents

BOOK_7, BOOK_8 = map(derive_book_source_id, "78")

TEMPORARY_ERRORS = [
    BROKEN,
    CUT_CONNECTION,
    CUT_JSON,
    WEB_PAGE,
    NO_RESULTS,
    RESULTS_OF_ANOTHER_TYPE,
    make_throttled_reply("0"),
]


def open_client(
    readwise: FakeReadwise,
    *,
    token: str = TOKEN,
    retry_seconds: float = 120,
    total_seconds: float = 240,
) -> ReadwiseClient:
    """Return a client of the API. By default, only a hanging request reaches its time limits."""
    return ReadwiseClient(
        readwise.base_url,
        SecretStr(token),
        deadline=time.monotonic() + total_seconds,
        clock=utc_now,
        attempt_seconds=60,
        retry_seconds=retry_seconds,
    )


async def request_book_ids(client: ReadwiseClient) -> list[Any]:
    """Request all pages; return the ids of their books."""
    async with client:
        pages = [page async for page in client.request_pages()]
        return [book["user_book_id"] for page in pages for book in page.books]


@pytest.mark.parametrize("reply", TEMPORARY_ERRORS)
async def test_a_temporary_error_is_retried(readwise: FakeReadwise, reply: Reply) -> None:
    readwise.put_book(7, "Reef early.")
    readwise.script.append(reply)
    assert await request_book_ids(open_client(readwise)) == [7]
    assert len(readwise.calls) == 2


async def test_a_hanging_request_is_retried(
    readwise: FakeReadwise, monotonic: MonotonicClock
) -> None:
    readwise.put_book(7, "Reef early.")
    readwise.script.append(HANG)
    readwise.on_hang = partial(monotonic.advance_soon, 60)
    assert await request_book_ids(open_client(readwise)) == [7]
    assert len(readwise.calls) == 2


@pytest.mark.parametrize("reply", [BROKEN, CUT_CONNECTION, CUT_JSON, WEB_PAGE, NO_RESULTS])
@pytest.mark.usefixtures("instant_sleep")
async def test_a_lasting_error_is_an_outage(readwise: FakeReadwise, reply: Reply) -> None:
    readwise.script.extend([reply] * 99)
    with pytest.raises(Unavailable, match="try again later"):
        await request_book_ids(open_client(readwise))
    assert len(readwise.calls) < 99


@pytest.mark.usefixtures("instant_sleep")
async def test_retry_after_is_honoured(readwise: FakeReadwise) -> None:
    """Readwise asks for a longer wait than the client would choose."""
    readwise.put_book(7, "Reef early.")
    readwise.script.extend([make_throttled_reply("100"), make_throttled_reply("100")])
    assert await request_book_ids(open_client(readwise, retry_seconds=60)) == [7]
    first, second, third = (call.at for call in readwise.calls)
    assert second - first >= 100
    assert third - second >= 100


async def test_a_wait_does_not_exceed_the_budget(readwise: FakeReadwise) -> None:
    readwise.script.append(make_throttled_reply("3600"))
    with pytest.raises(OutOfTime):
        await request_book_ids(open_client(readwise))
    assert len(readwise.calls) == 1


async def test_no_request_is_sent_after_the_budget(
    readwise: FakeReadwise, monotonic: MonotonicClock
) -> None:
    readwise.script.append(HANG)
    readwise.on_hang = partial(monotonic.advance_soon, 30)
    with pytest.raises(OutOfTime):
        await request_book_ids(open_client(readwise, total_seconds=30))
    assert len(readwise.calls) == 1


async def test_the_next_run_completes_one_that_had_to_wait_too_long(
    ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.put_book(7, "Reef early.")
    readwise.script.extend([Reply(), make_throttled_reply("3600")])
    report = await ingest(ctx, Budget(asyncio.get_running_loop().time() + 60))
    assert report == Report(finished=False)
    assert (await run_ingest(ctx)).finished
    assert await read_texts(ctx) == {BOOK_7: ["Reef early."]}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(401, b'{"detail": "Invalid token."}'), "renew READWISE_TOKEN"),
        (Reply(403, b'{"detail": "Forbidden"}'), "renew READWISE_TOKEN"),
        (Reply(404, b"<html>"), "check READWISE_URL"),
        (Reply(301, b"", {"Location": "https://example.com/"}), "check READWISE_URL"),
    ],
)
async def test_a_permanent_error_names_the_setting_to_change(
    readwise: FakeReadwise, reply: Reply, message: str
) -> None:
    readwise.script.append(reply)
    with pytest.raises(InvalidInput, match=message):
        await request_book_ids(open_client(readwise))
    assert len(readwise.calls) == 1


@pytest.mark.parametrize("token", ["two words", "café", "line\nbreak"])
async def test_a_malformed_token_is_not_sent(readwise: FakeReadwise, token: str) -> None:
    with pytest.raises(InvalidInput, match="renew READWISE_TOKEN") as error:
        await request_book_ids(open_client(readwise, token=token))
    assert token not in error.value.message
    assert readwise.calls == []


async def test_neither_token_nor_content_is_logged(ctx: Context, readwise: FakeReadwise) -> None:
    readwise.put_book(7, "A secret thought.")
    readwise.put_highlight(7, 0, "A secret thought.", note=["A secret note."])
    readwise.script.extend([CUT_JSON, Reply(), Reply(status=404)])
    output = io.StringIO()
    with redirect_stderr(output), pytest.raises(InvalidInput) as error:
        await run_ingest(ctx)
    printed = output.getvalue() + error.value.message
    assert "origin_failed" in printed
    assert [word for word in (TOKEN, "secret", "user_book") if word in printed] == []


async def test_repeated_pages_change_nothing(ctx: Context, readwise: FakeReadwise) -> None:
    thoughts = [f"Thought {number}." for number in range(8)]
    readwise.put_book(7, *thoughts)
    readwise.put_book(8, "Knead well.")
    readwise.repeats_pages = True
    report = await run_ingest(ctx)
    assert report.counts["read"] == 2
    assert report.failures == []
    assert await read_texts(ctx) == {BOOK_7: thoughts, BOOK_8: ["Knead well."]}


async def test_a_highlight_changed_between_pages_is_current(
    ctx: Context, readwise: FakeReadwise
) -> None:
    """The last page also has the old version, which does not replace the new one."""
    readwise.page_size = 1
    readwise.put_book(7, "Reef early.")
    old_books = readwise.make_page(ids="7")["results"]

    def append_old_books(page: dict[str, Any]) -> dict[str, Any]:
        return page | {"results": page["results"] + old_books}

    readwise.advance(hours=1)
    readwise.put_highlight(7, 0, "Reef earlier.")
    readwise.put_highlight(7, 1, "Heave to.")
    readwise.script.extend([Reply(), Reply(), Reply(), Reply(alter=append_old_books)])

    await run_ingest(ctx)

    assert await read_texts(ctx) == {BOOK_7: ["Reef earlier.", "Heave to."]}


async def test_an_empty_list_of_changes_deletes_nothing(
    ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.put_book(7, "Reef early.")
    await run_ingest(ctx)
    readwise.advance(days=1)
    readwise.script.append(NOTHING)
    await run_ingest(ctx)
    assert await read_texts(ctx) == {BOOK_7: ["Reef early."]}


async def test_a_run_is_completed_after_an_empty_list(ctx: Context, readwise: FakeReadwise) -> None:
    readwise.page_size = 100
    for number in range(1, 61):
        readwise.put_book(number, "Reef early.")
    assert not (await ingest(ctx, make_one_step_budget())).finished
    readwise.script.append(NOTHING)
    assert (await run_ingest(ctx)).counts["read"] == 30
    assert len(await read_texts(ctx)) == 60
    assert await read_progress(ctx) == (START - MARGIN, {})


async def test_an_incomplete_list_is_requested_again(ctx: Context, readwise: FakeReadwise) -> None:
    """The list lacks every second one of 62 books, and the progress is not stored."""
    readwise.page_size = 100
    for number in range(1, 63):
        readwise.put_book(number, "Reef early.")

    readwise.script.append(Reply(alter=lambda page: page | {"results": page["results"][::2]}))
    reason = "lacks 31 of its announced items; the next run requests it again"
    report = await run_ingest(ctx)
    assert report.failures == [Failure("Readwise: the list of changes", reason)]
    assert report.counts["read"] == 31
    assert await read_progress(ctx) == (None, {})

    assert (await run_ingest(ctx)).failures == []
    assert len(await read_texts(ctx)) == 62
    assert await read_progress(ctx) == (START - MARGIN, {})


@pytest.mark.parametrize("count", [None, "many", [], -1, 3])
async def test_a_count_of_highlights_or_of_nothing_is_accepted(
    ctx: Context, readwise: FakeReadwise, count: Any
) -> None:
    """The page has one book, and three highlights."""
    readwise.put_book(7, "Reef early.", "Anchor well.", "Sail at dawn.")
    readwise.script.append(Reply(alter=lambda page: page | {"count": count}))
    assert (await run_ingest(ctx)).failures == []


@pytest.mark.parametrize("coding", ["identity", "gzip"])
async def test_an_oversized_response_is_aborted(readwise: FakeReadwise, coding: str) -> None:
    """The response never ends: its last bytes are missing."""
    content = b" " * (MAX_BYTES + 5_000_000)
    body = gzip.compress(content) if coding == "gzip" else content
    readwise.script.append(Reply(body=body, headers={"Content-Encoding": coding}, missing=1_000))
    with pytest.raises(InvalidInput, match="more than 64 MB at once: check READWISE_URL"):
        await request_book_ids(open_client(readwise))
    assert len(readwise.calls) == 1


async def test_a_book_sent_without_its_listed_highlights_stays(
    ctx: Context, readwise: FakeReadwise
) -> None:
    def remove_highlights(page: dict[str, Any]) -> dict[str, Any]:
        return page | {"results": [book | {"highlights": []} for book in page["results"]]}

    readwise.put_book(7, "Reef early.")
    await run_ingest(ctx)
    readwise.advance(days=1)
    readwise.put_highlight(7, 1, "Heave to.")
    readwise.script.extend([Reply(), Reply(alter=remove_highlights)])

    (failure,) = (await run_ingest(ctx)).failures
    assert failure.reason == "was sent without the highlights that were listed"
    assert await read_texts(ctx) == {BOOK_7: ["Reef early."]}

    await run_ingest(ctx)
    assert await read_texts(ctx) == {BOOK_7: ["Reef early.", "Heave to."]}


async def test_malformed_records_block_no_others(ctx: Context, readwise: FakeReadwise) -> None:
    readwise.put_book(7, "Reef early.")
    malformed: list[Any] = [None, 3, "book", [], {"user_book_id": {}}, {"user_book_id": "a,b"}]
    readwise.script.append(
        Reply(alter=lambda page: page | {"results": malformed + page["results"]})
    )
    assert len((await run_ingest(ctx)).failures) == len(malformed)
    assert await read_texts(ctx) == {BOOK_7: ["Reef early."]}


async def test_circular_cursors_end_the_run(ctx: Context, readwise: FakeReadwise) -> None:
    readwise.put_book(7, *(f"Thought {number}." for number in range(8)))
    readwise.script.extend([Reply(alter=lambda page: page | {"nextPageCursor": "1"})] * 9)
    with pytest.raises(Unavailable, match="again and again"):
        await run_ingest(ctx)
    assert await read_progress(ctx) == (None, {})


async def test_control_characters_are_removed_and_bidi_marks_stay(
    ctx: Context, readwise: FakeReadwise
) -> None:
    """Isolates (U+2067, U+2069) keep Hebrew words in order; an override (U+202E) can deceive."""
    isolated = "He wrote \u2067\u05e9\u05dc\u05d5\u05dd\u2069 twice."
    readwise.put_book(
        7, f"\x9b2J{isolated}\x7f", readable_title="Sails\u202e \x1b[31mup\x85down\u2067"
    )
    readwise.put_book(8, readable_title="Oars\n\x9b2J\u202e", user_book_id=None)
    reason = "has no id, so it cannot be requested"
    assert (await run_ingest(ctx)).failures == [Failure("Readwise: Oars 2J", reason)]
    assert await read_texts(ctx) == {BOOK_7: [f"2J{isolated}"]}
    assert (await read_documents(ctx, "sources"))[BOOK_7]["title"] == "Sails [31mup down"
