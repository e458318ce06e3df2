"""Ingest waits, retries or reports errors of Readwise, and loses nothing."""

from __future__ import annotations

import asyncio
import gzip
import io
import time
from contextlib import redirect_stderr
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from functions.jobs.ingest.job import ingest
from functions.jobs.ingest.readers.readwise.export import MAX_BYTES
from functions.jobs.ingest.readwise.client import OutOfTime, ReadwiseClient
from functions.jobs.ingest.readwise.sync import MARGIN
from shared.core.dates import utc_now
from shared.core.errors import InvalidInput, Unavailable
from shared.knowledge.readwise_sync import SyncProgress, UnfinishedRun
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
from tests.support.jobs import make_one_step_budget
from tests.support.readwise_runs import read_progress, read_texts, run_ingest

if TYPE_CHECKING:
    from shared.runtime.context import App, Context
    from tests.support.monotonic_clock import MonotonicClock

pytestmark = pytest.mark.anyio

PASSING = [
    BROKEN,
    CUT_CONNECTION,
    CUT_JSON,
    WEB_PAGE,
    NO_RESULTS,
    RESULTS_OF_ANOTHER_TYPE,
    make_throttled_reply("0"),
]


def open_client(readwise: FakeReadwise, *, token: str = TOKEN, **seconds: float) -> ReadwiseClient:
    """Return a client of the export with time limits that only a hanging request reaches."""
    limits = {"attempt_seconds": 60.0, "retry_seconds": 120.0} | seconds
    deadline = time.monotonic() + limits.pop("deadline", 240.0)
    url = readwise.base_url
    return ReadwiseClient(url, SecretStr(token), deadline=deadline, clock=utc_now, **limits)


async def read_all_books(export: ReadwiseClient) -> list[Any]:
    """Return all books of the export, page by page."""
    async with export:
        pages = [page async for page in export.request_pages()]
        return [book["user_book_id"] for page in pages for book in page.books]


@pytest.mark.parametrize("reply", PASSING)
async def test_temporary_error_is_retried(readwise: FakeReadwise, reply: Reply) -> None:
    readwise.put_book(7, "Reef early.")
    readwise.script.append(reply)
    assert await read_all_books(open_client(readwise)) == [7]
    assert len(readwise.calls) == 2


async def test_hanging_request_is_retried(
    readwise: FakeReadwise, monotonic: MonotonicClock
) -> None:
    readwise.put_book(7, "Reef early.")
    readwise.script.append(HANG)
    readwise.on_hang = partial(monotonic.advance_soon, 60)
    assert await read_all_books(open_client(readwise)) == [7]
    assert len(readwise.calls) == 2


@pytest.mark.parametrize("reply", [BROKEN, CUT_CONNECTION, CUT_JSON, WEB_PAGE, NO_RESULTS])
@pytest.mark.usefixtures("sleepless")
async def test_lasting_error_is_an_outage(
    readwise: FakeReadwise,
    reply: Reply,
) -> None:
    readwise.script.extend([reply] * 99)
    with pytest.raises(Unavailable, match="try again later"):
        await read_all_books(open_client(readwise))
    assert len(readwise.calls) < 99


@pytest.mark.usefixtures("sleepless")
async def test_retry_after_is_honoured(
    readwise: FakeReadwise,
) -> None:
    """The wait is longer than the pauses after failures."""
    readwise.put_book(7, "Reef early.")
    readwise.script.extend([make_throttled_reply("100"), make_throttled_reply("100")])
    assert await read_all_books(open_client(readwise, retry_seconds=60)) == [7]
    first, second, third = (call.at for call in readwise.calls)
    assert second - first >= 100
    assert third - second >= 100


async def test_wait_does_not_exceed_the_budget(readwise: FakeReadwise) -> None:
    readwise.script.append(make_throttled_reply("3600"))
    with pytest.raises(OutOfTime):
        await read_all_books(open_client(readwise))


async def test_no_request_is_sent_after_the_budget(
    readwise: FakeReadwise, monotonic: MonotonicClock
) -> None:
    readwise.script.append(HANG)
    readwise.on_hang = partial(monotonic.advance_soon, 30)
    with pytest.raises(OutOfTime):
        await read_all_books(open_client(readwise, deadline=30))


async def test_next_run_completes_one_told_to_wait_too_long(
    app: App, ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.put_book(7, "Reef early.")
    readwise.script.extend([Reply(), make_throttled_reply("3600")])
    report = await ingest(ctx, Budget(asyncio.get_running_loop().time() + 60))
    assert report == Report(finished=False)
    assert (await run_ingest(app)).finished
    assert await read_texts(ctx) == {"readwise-7": ["Reef early."]}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(401, b'{"detail": "Invalid token."}'), "renew READWISE_TOKEN"),
        (Reply(403, b'{"detail": "Forbidden"}'), "renew READWISE_TOKEN"),
        (Reply(404, b"<html>"), "check READWISE_URL"),
        (Reply(301, b"", {"Location": "https://example.com/"}), "check READWISE_URL"),
    ],
)
async def test_rejected_token_error_says_what_to_do(
    readwise: FakeReadwise, reply: Reply, message: str
) -> None:
    readwise.script.append(reply)
    with pytest.raises(InvalidInput, match=message):
        await read_all_books(open_client(readwise))
    assert len(readwise.calls) == 1


@pytest.mark.parametrize("token", ["two words", "caf\xe9", "line\nbreak"])
async def test_malformed_token_is_not_sent(readwise: FakeReadwise, token: str) -> None:
    with pytest.raises(InvalidInput, match="renew READWISE_TOKEN") as refused:
        await read_all_books(open_client(readwise, token=token))
    assert token not in refused.value.message
    assert readwise.calls == []


async def test_neither_token_nor_content_is_logged(app: App, readwise: FakeReadwise) -> None:
    readwise.put_book(7, "A secret thought.")
    readwise.put_highlight(7, 0, "A secret thought.", note=["A secret note."])
    readwise.script.extend([CUT_JSON, Reply(), Reply(status=404)])
    output = io.StringIO()
    with redirect_stderr(output), pytest.raises(InvalidInput) as refused:
        await run_ingest(app)
    words = output.getvalue() + refused.value.message
    assert "origin_failed" in words
    assert [word for word in (TOKEN, "secret", "user_book") if word in words] == []


async def test_repeated_pages_change_nothing(
    app: App, ctx: Context, readwise: FakeReadwise
) -> None:
    thoughts = [f"Thought {number}." for number in range(8)]
    readwise.put_book(7, *thoughts)
    readwise.put_book(8, "Knead well.")
    readwise.repeats_pages = True
    report = await run_ingest(app)
    assert (report.counts["read"], report.failures) == (2, [])
    assert await read_texts(ctx) == {"readwise-7": thoughts, "readwise-8": ["Knead well."]}


async def test_highlight_changed_between_pages_is_current(
    app: App, ctx: Context, readwise: FakeReadwise
) -> None:
    """The highlight comes in both versions. A late older page does not restore the old one."""
    readwise.page_size = 1
    readwise.put_book(7, "Reef early.")
    before = readwise.make_page(ids="7")
    readwise.advance(hours=1)
    readwise.put_highlight(7, 0, "Reef earlier.")
    readwise.put_highlight(7, 1, "Heave to.")
    readwise.script.extend(
        [
            Reply(),
            Reply(),
            Reply(),
            Reply(alter=lambda now: now | {"results": now["results"] + before["results"]}),
        ]
    )
    await run_ingest(app)
    assert await read_texts(ctx) == {"readwise-7": ["Reef earlier.", "Heave to."]}


async def test_empty_list_of_changes_deletes_nothing(
    app: App, ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.put_book(7, "Reef early.")
    await run_ingest(app)
    readwise.advance(days=1)
    readwise.script.append(NOTHING)
    await run_ingest(app)
    assert await read_texts(ctx) == {"readwise-7": ["Reef early."]}


async def test_empty_page_does_not_end_the_list(
    app: App, ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.page_size = 100
    for number in range(1, 61):
        readwise.put_book(number, "Reef early.")
    assert not (await ingest(ctx, make_one_step_budget())).finished
    half = SyncProgress(under_way=UnfinishedRun(START, "30"))
    assert await read_progress(ctx) == half
    readwise.script.append(NOTHING)
    reason = "is empty, although a run is unfinished; the next run requests it again"
    failure = Failure("Readwise: the list of changes", reason)
    assert Report(failures=[failure]) == await run_ingest(app)
    assert await read_progress(ctx) == half
    assert (await run_ingest(app)).counts["read"] == 30
    assert len(await read_texts(ctx)) == 60


async def test_incomplete_list_is_requested_again(
    app: App, ctx: Context, readwise: FakeReadwise
) -> None:
    """Half of 62 books arrive. None of the books counts as read."""
    readwise.page_size = 100
    for number in range(1, 63):
        readwise.put_book(number, "Reef early.")
    readwise.script.append(Reply(alter=lambda now: now | {"results": now["results"][::2]}))
    reason = "lacks 31 of its announced items; the next run requests it again"
    report = await run_ingest(app)
    assert [Failure("Readwise: the list of changes", reason)] == report.failures
    assert report.counts["read"] == 31
    assert await read_progress(ctx) == SyncProgress()
    assert (await run_ingest(app)).failures == []
    assert len(await read_texts(ctx)) == 62
    assert await read_progress(ctx) == SyncProgress(START - MARGIN)


@pytest.mark.parametrize("count", [None, "many", [], -1])
async def test_invalid_count_is_ignored(app: App, readwise: FakeReadwise, count: Any) -> None:
    readwise.put_book(7, "Reef early.")
    readwise.script.append(Reply(alter=lambda now: now | {"count": count}))
    assert (await run_ingest(app)).failures == []


async def test_count_may_be_of_highlights(app: App, readwise: FakeReadwise) -> None:
    readwise.put_book(7, "Reef early.", "Anchor well.", "Sail at dawn.")
    readwise.script.append(Reply(alter=lambda now: now | {"count": 3}))
    assert (await run_ingest(app)).failures == []


@pytest.mark.parametrize("coding", ["identity", "gzip"])
async def test_oversized_response_is_aborted(readwise: FakeReadwise, coding: str) -> None:
    """The response never ends, so the client reports an outage."""
    body = b" " * (MAX_BYTES + 5_000_000)
    sent = gzip.compress(body) if coding == "gzip" else body
    readwise.script.append(Reply(body=sent, headers={"Content-Encoding": coding}, missing=1_000))
    with pytest.raises(InvalidInput, match="more than 64 MB at once: check READWISE_URL"):
        await read_all_books(open_client(readwise))
    assert len(readwise.calls) == 1


async def test_book_without_its_listed_highlights_stays(
    app: App, ctx: Context, readwise: FakeReadwise
) -> None:
    def emptied(page: dict[str, Any]) -> dict[str, Any]:
        return page | {"results": [book | {"highlights": []} for book in page["results"]]}

    readwise.put_book(7, "Reef early.")
    await run_ingest(app)
    readwise.advance(days=1)
    readwise.put_highlight(7, 1, "Heave to.")
    readwise.script.extend([Reply(), Reply(alter=emptied)])
    (failure,) = (await run_ingest(app)).failures
    assert failure.reason == "was sent without the highlights that were listed"
    assert await read_texts(ctx) == {"readwise-7": ["Reef early."]}
    await run_ingest(app)
    assert await read_texts(ctx) == {"readwise-7": ["Reef early.", "Heave to."]}


async def test_malformed_record_blocks_no_other(
    app: App, ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.put_book(7, "Reef early.")
    strange: list[Any] = [None, 3, "book", [], {"user_book_id": {}}, {"user_book_id": "a,b"}]
    readwise.script.append(Reply(alter=lambda now: now | {"results": strange + now["results"]}))
    assert len(strange) == len((await run_ingest(app)).failures)
    assert await read_texts(ctx) == {"readwise-7": ["Reef early."]}


async def test_circular_cursors_end_the_run(app: App, ctx: Context, readwise: FakeReadwise) -> None:
    readwise.put_book(7, *(f"Thought {number}." for number in range(8)))
    readwise.script.extend([Reply(alter=lambda now: now | {"nextPageCursor": "1"})] * 9)
    with pytest.raises(Unavailable, match="again and again"):
        await run_ingest(app)
    assert (await read_progress(ctx)).updated_after is None


async def test_control_characters_go_and_bidi_marks_stay(
    app: App, ctx: Context, readwise: FakeReadwise
) -> None:
    isolated = "He wrote \u2067\u05e9\u05dc\u05d5\u05dd\u2069 twice."
    readwise.put_book(
        7, f"\x9b2J{isolated}\x7f", readable_title="Sails\u202e \x1b[31mup\x85down\u2067"
    )
    readwise.put_book(8, readable_title="Oars\n\x9b2J\u202e", user_book_id=None)
    reason = "has no id, so it cannot be requested"
    assert [Failure("Readwise: Oars 2J", reason)] == (await run_ingest(app)).failures
    assert await read_texts(ctx) == {"readwise-7": [f"2J{isolated}"]}
    snapshot = await ctx.database.document("sources", "readwise-7").get()
    assert snapshot.get("title") == "Sails [31mup down"
