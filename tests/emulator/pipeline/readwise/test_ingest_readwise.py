"""Ingest follows a Readwise account: each run stores the changes and deletions since the last one.

A run requests a list of the changed books, and then the complete books, thirty at a time.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from functions.jobs.ingest.job import count, ingest
from functions.jobs.ingest.readers.readwise.export import derive_book_source_id
from functions.jobs.ingest.readwise.books import PendingBook
from functions.jobs.ingest.readwise.library import DEAD_LETTERS, MARGIN
from shared.core.deferral import MAX_TRIES
from shared.core.errors import InvalidInput
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from shared.runtime.job import Failure, Report
from tests.support.apps import Apps
from tests.support.fakes.readwise import START, FakeReadwise
from tests.support.ingest_runs import (
    measure_ingest,
    read_ingested_documents,
    read_progress,
    read_texts,
    run_ingest,
)
from tests.support.jobs import make_job_context, make_one_step_budget, make_spent_budget
from tests.support.knowledge import set_fields
from tests.support.source_files import write_export
from tests.support.stored_documents import read_documents

BOOK_3, BOOK_7, BOOK_8, BOOK_9 = map(derive_book_source_id, "3789")


def call_at_request(request_number: int, hook: Callable[[], None]) -> Callable[[int], None]:
    """Return a callback for `on_request` that calls the hook before one request is answered."""
    return lambda number: hook() if number == request_number else None


def take_new_queries(readwise: FakeReadwise) -> list[dict[str, str]]:
    """Return the query parameters of the requests since the last call of this function."""
    queries = [call.query for call in readwise.calls]
    readwise.calls.clear()
    return queries


async def test_the_first_run_ingests_the_whole_account(
    ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.put_book(7, "Reef early.", "Heave to.")
    readwise.put_book(8, "Knead well.", title="bread", readable_title="Bread")

    assert await count(ctx) == 0  # the books of an account are not counted

    report = await run_ingest(ctx)

    assert report == Report(Counter({"sources": 2, "created": 3, "read": 2}))
    assert await read_texts(ctx) == {
        BOOK_7: ["Reef early.", "Heave to."],
        BOOK_8: ["Knead well."],
    }
    assert take_new_queries(readwise) == [
        {"includeDeleted": "true"},
        {"includeDeleted": "true", "ids": "7,8"},
    ]
    assert await read_progress(ctx) == (START - MARGIN, {})


async def test_an_export_and_the_api_give_the_same_base(
    apps: Apps, ctx: Context, readwise: FakeReadwise, project: str, tmp_path: Path
) -> None:
    readwise.put_book(7, *(f"Thought {number}." for number in range(7)))
    readwise.put_book(8, "Knead well.", source_url="https://example.com/bread")
    readwise.put_book(9)
    readwise.put_highlight(7, 2, "Thought 2.", note="Twice!", tags=[{"id": 5, "name": "again"}])
    await run_ingest(ctx)

    readwise.page_size = 1_000  # the whole account
    write_export(tmp_path, *readwise.make_page()["results"])
    file_app = apps(project=f"{project}-file", readwise_token=None, ingest_path=str(tmp_path))
    file_ctx = make_job_context(file_app)
    await run_ingest(file_ctx)

    of_export = await read_ingested_documents(file_ctx)
    of_library = await read_ingested_documents(ctx)
    for path, document in of_export.items():  # only a file marks what it adds, and says its age
        document.pop("changed_at", None)
        if path.startswith("chunks/"):
            assert document.pop("kept") == "added"
            document["fingerprint"] = of_library[path]["fingerprint"]
    assert of_library == of_export


async def test_a_run_without_changes_costs_one_request_and_two_reads(
    app: App, readwise: FakeReadwise
) -> None:
    for number in range(40):
        readwise.put_book(number, "Reef early.")
    readwise.advance(days=1)
    await measure_ingest(app)
    readwise.advance(days=1)
    take_new_queries(readwise)
    report, meter = await measure_ingest(app)
    assert report == Report()
    assert meter.documents_read == 2  # a query for due links, and the progress
    assert meter.documents_written == 1  # when it was read
    since = (START + timedelta(days=1) - MARGIN).isoformat()
    assert take_new_queries(readwise) == [{"includeDeleted": "true", "updatedAfter": since}]


async def test_the_first_run_reads_two_documents_per_book(app: App, readwise: FakeReadwise) -> None:
    readwise.page_size = 100
    for number in range(65):
        readwise.put_book(number, "Reef early.")
    _, meter = await measure_ingest(app)

    books, batches = 65, 3  # of up to 30 books
    # For each book, its source and the record that it was forgotten, neither of which exists; for
    # each batch, a query for chunks; and once, a query for due links and the progress.
    assert meter.documents_read == 2 * books + batches + 1 + 1
    # For each book, the source and its chunk; for each batch, the progress; once, when it was read.
    assert meter.documents_written == 2 * books + batches + 1
    assert len(readwise.calls) == 1 + batches


async def test_only_changed_books_are_read_again_completely(
    ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.put_book(7, "Reef early.", "Heave to.")
    readwise.put_book(8, "Knead well.")
    readwise.advance(days=1)
    await run_ingest(ctx)
    readwise.advance(days=1)
    readwise.put_highlight(7, 0, "Reef earlier.")
    readwise.put_highlight(7, 2, "Mind the boom.")
    readwise.put_book(7, readable_title="Sails")
    take_new_queries(readwise)

    report = await run_ingest(ctx)

    counts = {"sources": 1, "created": 2, "updated": 1, "deleted": 1, "read": 1}
    assert report == Report(Counter(counts))
    assert take_new_queries(readwise)[-1]["ids"] == "7"
    assert await read_texts(ctx) == {
        BOOK_7: ["Reef earlier.", "Heave to.", "Mind the boom."],
        BOOK_8: ["Knead well."],
    }
    assert (await read_documents(ctx, "sources"))[BOOK_7]["title"] == "Sails"


async def test_deleted_highlights_and_books_are_removed(
    ctx: Context, readwise: FakeReadwise
) -> None:
    """The last book loses its only highlight."""
    readwise.put_book(7, "Reef early.", "Heave to.")
    readwise.put_book(8, "Knead well.")
    readwise.put_book(9, "Trim the jib.")
    await run_ingest(ctx)
    readwise.advance(days=1)
    readwise.delete_highlight(7, 0)
    readwise.delete_book(8)
    readwise.delete_highlight(9, 0)
    assert (await run_ingest(ctx)).failures == []
    assert await read_texts(ctx) == {BOOK_7: ["Heave to."]}
    assert set(await read_documents(ctx, "forgotten_sources")) == {BOOK_8, BOOK_9}


async def test_a_deleted_book_missing_from_the_answer_is_removed(
    ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.put_book(7, "Reef early.")
    readwise.put_book(8, "Knead well.")
    await run_ingest(ctx)
    readwise.advance(days=1)
    readwise.delete_book(8)
    call_count = len(readwise.calls)
    readwise.on_request = call_at_request(call_count + 2, lambda: readwise.remove(8))
    assert (await run_ingest(ctx)).failures == []
    assert await read_texts(ctx) == {BOOK_7: ["Reef early."]}


async def test_a_book_missing_from_an_answer_stays_and_is_retried(
    ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.put_book(7, "Reef early.")
    await run_ingest(ctx)
    readwise.advance(days=1)
    readwise.put_highlight(7, 0, "Reef earlier.")
    call_count = len(readwise.calls)
    readwise.on_request = call_at_request(call_count + 2, lambda: readwise.remove(7))

    reason = "was requested, but is missing from the answer"
    assert (await run_ingest(ctx)).failures == [Failure("Readwise: Book 7", reason)]
    assert await read_texts(ctx) == {BOOK_7: ["Reef early."]}

    readwise.advance(days=1)
    readwise.put_book(7, "Reef earlier.")
    assert (await run_ingest(ctx)).failures == []
    assert await read_texts(ctx) == {BOOK_7: ["Reef earlier."]}


async def test_the_next_run_ingests_changes_made_during_a_run(
    ctx: Context, readwise: FakeReadwise
) -> None:
    """The next run reads the changes since this one started, by Readwise's clock."""
    readwise.put_book(7, "Reef early.")
    readwise.put_book(8, "Knead well.")

    def edit_book() -> None:
        readwise.advance(hours=2)
        readwise.put_highlight(8, 0, "Knead long.")
        readwise.advance(hours=2)

    readwise.page_size = 1
    readwise.on_request = call_at_request(5, edit_book)

    await run_ingest(ctx)
    assert (await read_texts(ctx))[BOOK_8] == ["Knead well."]
    await run_ingest(ctx)
    assert await read_texts(ctx) == {BOOK_7: ["Reef early."], BOOK_8: ["Knead long."]}


async def test_an_invalid_book_is_retried_and_blocks_no_other(
    ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.put_book(7, "Reef early.")
    readwise.put_book(8, "Knead well.")
    readwise.put_highlight(8, 1, "Rest it.", note=[])
    readwise.advance(days=1)
    reason = "highlights.1.note: Input should be a valid string"

    assert (await run_ingest(ctx)).failures == [Failure("Readwise: Book 8", reason)]
    assert await read_texts(ctx) == {BOOK_7: ["Reef early."]}
    pending = {"8": PendingBook("Book 8", has_highlights=True, tries=1, reason=reason)}
    assert await read_progress(ctx) == (START + timedelta(days=1) - MARGIN, pending)

    failure_counts = []
    for _ in range(5):
        readwise.advance(days=1)
        take_new_queries(readwise)
        failure_counts.append(len((await run_ingest(ctx)).failures))
        requested_ids = [query.get("ids") for query in take_new_queries(readwise)]
        assert requested_ids == [None, "8"][: 1 + failure_counts[-1]]
    assert failure_counts == [1, 1, 1, 1, 0]
    assert await DEAD_LETTERS.load(ctx, 9) == [Failure("Readwise: Book 8", reason)]
    retried = await asyncio.gather(DEAD_LETTERS.retry(ctx), DEAD_LETTERS.retry(ctx))
    assert sorted(retried) == [0, 1]
    assert len((await run_ingest(ctx)).failures) == 1

    readwise.put_book(8, "Knead well.", "Rest it.")
    assert (await run_ingest(ctx)).failures == []
    assert await read_progress(ctx) == (START + timedelta(days=6) - MARGIN, {})
    assert await read_texts(ctx) == {
        BOOK_7: ["Reef early."],
        BOOK_8: ["Knead well.", "Rest it."],
    }


async def test_a_change_revives_a_book_that_failed_too_often(
    ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.put_book(7, "Reef early.")
    readwise.put_highlight(7, 0, "Reef early.", note=[])
    for _ in range(MAX_TRIES):
        await run_ingest(ctx)
    assert len(await DEAD_LETTERS.load(ctx, 9)) == 1

    readwise.advance(days=1)
    readwise.put_highlight(7, 0, "Reef earlier.")
    await run_ingest(ctx)
    assert await read_texts(ctx) == {BOOK_7: ["Reef earlier."]}


async def test_unknown_fields_are_reported_once_per_run(
    ctx: Context, readwise: FakeReadwise
) -> None:
    """A date that cannot be read is reported with its book."""
    for book_id in range(1, 33):  # two batches
        readwise.put_book(book_id, shelf="A")
        readwise.put_highlight(book_id, 1, f"Thought {book_id}.", mood="calm")
    readwise.put_highlight(8, 1, "Rest it.", highlighted_at="May 31", mood="calm")
    report = await run_ingest(ctx)
    of_date = "“May 31” is not an ISO 8601 date such as 2024-05-31; field ignored"
    of_fields = "highlights.mood (32 times), shelf (32 times); kept without them"
    assert report.warnings == [
        Failure("Readwise: Book 8", f"highlights.0.highlighted_at: {of_date}"),
        Failure(
            "Readwise: fields", f"the export has fields that Carrel does not know: {of_fields}"
        ),
    ]
    assert report.failures == []
    assert (await read_progress(ctx))[1] == {}
    assert len(await read_texts(ctx)) == 32


async def test_the_next_run_continues_after_the_stored_books(
    ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.page_size = 100
    for number in range(1, 66):
        readwise.put_book(number, "Reef early.")
    assert await ingest(ctx, make_spent_budget()) == Report(finished=False)
    assert readwise.calls == []
    report = await ingest(ctx, make_one_step_budget())
    assert not report.finished
    assert report.counts["read"] == 30
    updated_after, pending = await read_progress(ctx)
    assert updated_after == START - MARGIN
    assert [int(book_id) for book_id in pending] == list(range(31, 66))

    readwise.advance(days=1)
    readwise.put_highlight(3, 0, "Reef earlier.")
    await run_ingest(ctx)
    assert len(await read_texts(ctx)) == 65
    assert (await read_texts(ctx))[BOOK_3] == ["Reef earlier."]


async def test_a_new_chunk_layout_reads_the_whole_account_again(
    ctx: Context, readwise: FakeReadwise
) -> None:
    readwise.put_book(7, "Reef early.")
    readwise.advance(days=1)
    await run_ingest(ctx)
    [(name, state)] = (await read_documents(ctx, "followed")).items()
    await set_fields(ctx, f"followed/{name}", {"layout": state["layout"] - 1})
    assert (await run_ingest(ctx)).counts["read"] == 1


async def test_a_failing_origin_blocks_no_other(
    app: App, ctx: Context, readwise: FakeReadwise, tmp_path: Path
) -> None:
    """Readwise refuses the token, and the folder is ingested and reported."""
    (tmp_path / "note.md").write_text("Trim the jib.")
    origins = {"readwise_token": SecretStr("another"), "ingest_path": str(tmp_path)}
    app.settings = app.settings.model_copy(update=origins)
    readwise.put_book(7, "Reef early.")
    report, _ = await measure_ingest(app)
    [failure] = report.failures
    assert failure.name == "readwise"
    assert "renew READWISE_TOKEN" in failure.reason
    assert report.counts["created"] == 1
    assert list((await read_texts(ctx)).values()) == [["Trim the jib."]]


async def test_a_missing_configuration_is_explained(app: App, project: str) -> None:
    app.settings = Settings(google_cloud_project=project)
    with pytest.raises(InvalidInput, match=r"INGEST_PATH .* READWISE_TOKEN .* INGEST_BUCKET"):
        await measure_ingest(app)
