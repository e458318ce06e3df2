"""Ingest follows a Cloud Storage prefix: it reads each file once, and deletes missing ones.

A file of JSON Lines contains records; each becomes a source, which another file may define, too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from functions.jobs.ingest.bucket.sync import sync_bucket
from functions.jobs.ingest.job import count, ingest
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from shared.runtime.job import Failure, Report
from tests.support.fakes.cloud_storage import FakeCloudStorage, Fault, Operation
from tests.support.jobs import (
    make_ample_budget,
    make_job_context,
    make_one_step_budget,
    make_spent_budget,
)
from tests.support.notes import NOTE_TEXT, save_note
from tests.support.readwise_runs import read_ingested_documents, run_confirmed_ingest, run_ingest
from tests.support.source_files import format_json_lines, write_file
from tests.support.stored_documents import read_chunk_texts, read_documents

BUCKET = "library"
ADDRESS = f"gs://{BUCKET}/notes"
REEF, DOUGH, TESTS = "Reef early.", "Knead well.", "Flaky tests erode trust."


class Storage(FakeCloudStorage):
    """Cloud Storage in which a test can change files between two requests.

    Attributes:
        hooks: For each operation, a function that is called once, before the next such request.
    """

    def __init__(self) -> None:
        super().__init__(BUCKET, page_size=3)
        self.hooks: dict[Operation, Callable[[], object]] = {}

    def arrive(self, operation: Operation) -> Fault:
        if hook := self.hooks.pop(operation, None):
            hook()
        return super().arrive(operation)


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """A server for Cloud Storage with an empty bucket, which lists three objects per page."""
    with Storage() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.base_url)
        yield server


@pytest.fixture
def settings(project: str, storage: Storage) -> Settings:  # noqa: ARG001 - sets the address
    """Settings by which ingest follows the bucket."""
    return Settings(google_cloud_project=project, ingest_bucket=ADDRESS)


def upload(storage: Storage, name: str, content: str | bytes) -> None:
    storage.put(BUCKET, f"notes/{name}", content)


def remove(storage: Storage, name: str) -> None:
    storage.delete(BUCKET, f"notes/{name}")


def format_records(**texts: str) -> str:
    """Return records, given as texts by id, as JSON Lines."""
    records = ({"id": record_id, "text": text} for record_id, text in texts.items())
    return format_json_lines(*records)


async def test_files_of_every_kind_are_ingested(app: App, ctx: Context, storage: Storage) -> None:
    upload(storage, "a.md", f"# Sails\n\n{REEF}")
    upload(storage, "deep/er/b.txt", DOUGH)
    upload(storage, "c.jsonl", format_records(x="One.", y="Two."))
    upload(storage, "d.json", '[{"user_book_id": 7, "highlights": [{"id": 1, "text": "Three."}]}]')
    for name in ("e.docx", ".hidden.md", ".git/f.md", "empty/"):
        upload(storage, name, "Not read.")
    storage.put(BUCKET, "notes-2024/g.md", "Of another folder.")

    report = await run_ingest(app)

    counts = Counter({"sources": 5, "created": 5, "read": 5})
    assert report == Report(counts, note="Not read: 1 .docx.")
    assert await read_chunk_texts(ctx) == [f"# Sails\n\n{REEF}", DOUGH, "One.", "Three.", "Two."]
    assert storage.calls["download"] == 4


async def test_a_bucket_and_a_folder_of_the_same_files_give_the_same_base(
    app: App, ctx: Context, storage: Storage, project: str, tmp_path: Path
) -> None:
    dated = f"---\ndate: 2024-05-31\n---\n{REEF}"
    record = {"id": "x", "text": "One.", "date": "2024-05-31"}
    notes = {"a.md": dated, "deep/b.txt": dated, "c.jsonl": format_json_lines(record)}
    for name, content in notes.items():
        upload(storage, name, content)
        write_file(tmp_path / "notes", name, content)
    settings = Settings(google_cloud_project=f"{project}-disk", ingest_path=f"{tmp_path}/notes")
    folder_app = App(settings)

    await run_ingest(app)
    await run_ingest(folder_app)

    of_folder = await read_ingested_documents(make_job_context(folder_app))
    assert await read_ingested_documents(ctx) == of_folder
    await folder_app.aclose()


async def test_a_run_without_changes_costs_two_reads_and_a_listing(
    app: App, storage: Storage
) -> None:
    for number in range(40):
        upload(storage, f"{number}.md", f"Note {number}.")
    await run_ingest(app)
    storage.calls.clear()
    meter = Meter()

    assert await run_ingest(app, meter) == Report()

    assert meter.documents_read == 2  # a query for due links, and the state of the bucket
    assert meter.documents_written == 0
    assert storage.calls["list"] == 14  # pages of three files
    assert storage.calls["download"] == 0


async def test_a_new_file_costs_six_reads_and_eight_writes(
    app: App, ctx: Context, storage: Storage
) -> None:
    for number in range(40):
        upload(storage, f"{number}.md", f"Note {number}.")
    await run_ingest(app)
    upload(storage, "new.md", REEF)
    storage.calls.clear()
    meter = Meter()

    await run_ingest(app, meter)

    assert REEF in await read_chunk_texts(ctx)
    assert storage.calls["download"] == 1
    # The query for due links, the state of the bucket and the shard of the file; the source, the
    # record that it was forgotten, and the query for its chunks, none of which exist.
    assert meter.documents_read == 6
    # The source and the chunk. Before and after these, the state is written: the new version of the
    # shard, the deletion of the former version, and the state of the bucket.
    assert meter.documents_written == 2 + 2 * 3


async def test_only_an_edited_file_is_read_again(app: App, ctx: Context, storage: Storage) -> None:
    upload(storage, "a.md", REEF)
    upload(storage, "b.md", DOUGH)
    await run_ingest(app)
    upload(storage, "b.md", TESTS)
    storage.calls.clear()
    assert (await run_ingest(app)).counts["read"] == 1
    assert await read_chunk_texts(ctx) == [TESTS, REEF]
    assert storage.calls["download"] == 1


async def test_files_missing_from_the_prefix_are_deleted(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "a.md", REEF)
    upload(storage, "b.md", DOUGH)
    upload(storage, "c.jsonl", format_records(x="One.", y="Two."))
    await run_confirmed_ingest(app)

    remove(storage, "b.md")
    remove(storage, "c.jsonl")
    assert (await run_confirmed_ingest(app)).failures == []
    assert await read_chunk_texts(ctx) == [REEF]
    assert len(await read_documents(ctx, "sources")) == 1

    upload(storage, "b.md", DOUGH)
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == [DOUGH, REEF]


async def test_a_missing_file_does_not_delete_saved_notes(
    app: App, ctx: Context, storage: Storage
) -> None:
    note = await save_note(app)
    upload(storage, "a.md", REEF)
    upload(storage, "b.md", DOUGH)
    await run_confirmed_ingest(app)
    remove(storage, "b.md")
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == [REEF, NOTE_TEXT]
    assert note["source_id"] in await read_documents(ctx, "sources")


async def test_a_record_missing_from_its_file_is_deleted(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "c.jsonl", format_records(x="One.", y="Two."))
    await run_confirmed_ingest(app)
    upload(storage, "c.jsonl", format_records(y="Two.", z="Three."))
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == ["Three.", "Two."]


async def test_a_book_marked_as_deleted_is_removed(
    app: App, ctx: Context, storage: Storage
) -> None:
    book = '{"user_book_id": %d, "is_deleted": %s, "highlights": [{"id": 1, "text": "Book %d."}]}'
    upload(storage, "d.json", f"[{book % (7, 'false', 7)}, {book % (8, 'false', 8)}]")
    await run_ingest(app)
    upload(storage, "d.json", f"[{book % (7, 'true', 7)}, {book % (8, 'false', 8)}]")
    await run_ingest(app)
    assert await read_chunk_texts(ctx) == ["Book 8."]


async def test_text_of_a_book_outranks_an_earlier_empty_record(
    app: App, ctx: Context, storage: Storage
) -> None:
    deleted = {"user_book_id": 7, "title": "A", "is_deleted": True, "highlights": []}
    present = {"user_book_id": 7, "title": "A", "highlights": [{"text": REEF}]}
    upload(storage, "export.json", json.dumps([deleted, present]))
    await run_ingest(app)
    assert await read_chunk_texts(ctx) == [REEF]


UNCONFIRMED = (
    " disappeared, and nothing is forgotten: to forget their texts, run .venv/bin/carrel jobs run"
    " ingest --yes"
)


async def test_deleting_all_files_must_be_confirmed(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "a.md", REEF)
    await run_ingest(app)
    remove(storage, "a.md")

    for _ in range(2):
        assert (await run_ingest(app)).failures == [Failure(ADDRESS, f"1 of 1 files{UNCONFIRMED}")]
        assert await read_chunk_texts(ctx) == [REEF]

    assert (await run_confirmed_ingest(app)).failures == []
    assert await read_chunk_texts(ctx) == []
    assert await run_ingest(app) == Report()


async def test_deleting_over_a_third_of_the_files_must_be_confirmed(
    app: App, ctx: Context, storage: Storage
) -> None:
    """A new file is read even if the deletions are not confirmed."""
    for number in range(9):
        upload(storage, f"{number}.md", f"Note {number}.")
    await run_ingest(app)

    for number in range(3):  # exactly a third
        remove(storage, f"{number}.md")
    assert (await run_ingest(app)).failures == []

    for number in range(3, 6):
        remove(storage, f"{number}.md")
    upload(storage, "new.md", REEF)
    assert (await run_ingest(app)).failures == [Failure(ADDRESS, f"3 of 6 files{UNCONFIRMED}")]
    assert (await run_ingest(app)).failures == [Failure(ADDRESS, f"3 of 7 files{UNCONFIRMED}")]
    assert len(await read_chunk_texts(ctx)) == 7

    assert (await run_confirmed_ingest(app)).failures == []
    assert await read_chunk_texts(ctx) == ["Note 6.", "Note 7.", "Note 8.", REEF]
    assert await run_ingest(app) == Report()


async def test_deleting_many_records_of_a_file_must_be_confirmed(
    app: App, ctx: Context, storage: Storage
) -> None:
    """Records that move to another file do not count."""
    texts = {f"r{number}": f"Record {number}." for number in range(6)}
    upload(storage, "a.jsonl", format_records(**texts))
    await run_ingest(app)

    upload(storage, "a.jsonl", format_records(r0=texts["r0"]))
    upload(storage, "b.jsonl", format_records(r4=texts["r4"], r5=texts["r5"]))
    for _ in range(2):
        assert (await run_ingest(app)).failures == [Failure(ADDRESS, f"3 of 6 texts{UNCONFIRMED}")]
        assert len(await read_chunk_texts(ctx)) == 6

    assert (await run_confirmed_ingest(app)).failures == []
    assert await read_chunk_texts(ctx) == ["Record 0.", "Record 4.", "Record 5."]
    await run_ingest(app)  # reads again the files that shared records
    assert await run_ingest(app) == Report()


async def test_an_empty_prefix_ingests_nothing(app: App) -> None:
    assert await run_ingest(app) == Report()


async def test_a_file_stored_in_part_is_warned_about_once(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "a.md", f"---\ndate: soon\n---\n{REEF}")
    reason = "line 2: date: “soon” is not an ISO 8601 date such as 2024-05-31; field ignored"
    report = await run_ingest(app)
    assert report.warnings == [Failure(f"{ADDRESS}/a.md", reason)]
    assert report.failures == []
    assert await read_chunk_texts(ctx) == [REEF]
    assert (await run_ingest(app)).warnings == []


async def test_unsupported_objects_are_counted(app: App, storage: Storage) -> None:
    for name in ("a.md", "b.docx", "x/c.DOCX", "d.xlsx", ".hidden.docx", "x/"):
        upload(storage, name, REEF)
    report = await run_ingest(app)
    assert report.counts["read"] == 1
    assert report.note == "Not read: 2 .docx, 1 .xlsx."


async def test_foreign_exports_in_a_bucket_are_no_failures(app: App, storage: Storage) -> None:
    upload(storage, "a.md", REEF)
    upload(storage, "package.json", '{"name": "vault"}')
    upload(storage, "book.json", '{"readingJourney": {}, "highlights": []}')
    report = await run_ingest(app)
    assert report.failures == []
    assert report.note == "Not read: 1 .json."
    [warning] = report.warnings
    assert warning.name == f"{ADDRESS}/book.json"
    assert "Libby" in warning.reason


async def test_an_unreadable_file_is_reported_once_and_blocks_no_other(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "a.md", REEF)
    upload(storage, "b.md", b"caf\0")
    upload(storage, "c.jsonl", format_records(x="One.") + "{broken\n")
    expected = {
        (f"{ADDRESS}/b.md", "is not text: there is a NUL byte at position 3"),
        (
            f"{ADDRESS}/c.jsonl line 2",
            "is not JSON: Expecting property name enclosed in double quotes (column 2)",
        ),
    }
    report = await run_ingest(app)
    assert {(failure.name, failure.reason) for failure in report.failures} == expected
    assert await read_chunk_texts(ctx) == ["One.", REEF]
    assert await run_ingest(app) == Report()


async def test_an_unreadable_file_deletes_nothing(app: App, ctx: Context, storage: Storage) -> None:
    upload(storage, "a.md", REEF)
    upload(storage, "c.jsonl", format_records(x="One.", y="Two."))
    await run_ingest(app)

    upload(storage, "a.md", b"caf\0")
    upload(storage, "c.jsonl", format_records(z="Three.") + "{broken\n")
    await run_ingest(app)
    assert await read_chunk_texts(ctx) == ["One.", REEF, "Three.", "Two."]

    upload(storage, "c.jsonl", format_records(z="Three."))
    remove(storage, "a.md")
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == ["Three."]


async def test_a_record_in_two_files_has_the_text_that_was_read_last(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "old.jsonl", format_records(x="One."))
    await run_confirmed_ingest(app)

    upload(storage, "new.jsonl", format_records(x="Two.", y="Three."))
    reason = "has a record of old.jsonl too; its text was read later and is used; keep one of them"
    report = await run_confirmed_ingest(app)
    assert report.warnings == [Failure(f"{ADDRESS}/new.jsonl", reason)]
    assert await read_chunk_texts(ctx) == ["Three.", "Two."]
    assert await run_confirmed_ingest(app) == Report()

    remove(storage, "new.jsonl")
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == ["Two."]
    await run_confirmed_ingest(app)  # reads the other file again, whose text replaces the last
    assert await read_chunk_texts(ctx) == ["One."]

    remove(storage, "old.jsonl")
    upload(storage, "other.md", REEF)
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == [REEF]


async def test_a_record_in_many_files_is_deleted_with_the_last_of_them(
    app: App, ctx: Context, storage: Storage
) -> None:
    """Each file has the shared record `x`, with its own text, and a record that no other has."""
    names = [f"{number}.jsonl" for number in range(5)]
    for name in names:
        upload(storage, name, format_records(x=f"As {name} says.", **{name: name}))
    report = await run_confirmed_ingest(app)
    assert len(report.warnings) == 4 + 3 + 2 + 1  # for each file, the files that were read before
    [text] = set(await read_chunk_texts(ctx)) - set(names)
    assert text.startswith("As ")
    assert await run_confirmed_ingest(app) == Report()

    remaining_names = set(names)
    for name in names:
        remove(storage, name)
        remaining_names.remove(name)
        upload(storage, "other.md", REEF)
        await run_confirmed_ingest(app)  # may delete the shared record
        await run_confirmed_ingest(app)  # reads it again from another file
        possible_texts = {f"As {remaining} says." for remaining in remaining_names}
        stored_texts = possible_texts.intersection(await read_chunk_texts(ctx))
        assert len(stored_texts) == (1 if remaining_names else 0)
    assert await read_chunk_texts(ctx) == [REEF]


async def test_a_record_stays_while_another_file_has_it(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "a.jsonl", format_records(x="One."))
    await run_ingest(app)
    upload(storage, "b.jsonl", format_records(x="Two.", y="Three."))
    await run_ingest(app)

    upload(storage, "b.jsonl", format_records(y="Three."))
    for _ in range(2):
        await run_ingest(app)
    assert await read_chunk_texts(ctx) == ["One.", "Three."]
    assert await run_ingest(app) == Report()


async def test_a_renamed_file_keeps_its_records(app: App, ctx: Context, storage: Storage) -> None:
    upload(storage, "old.jsonl", format_records(x="One.", y="Two."))
    await run_confirmed_ingest(app)

    remove(storage, "old.jsonl")
    upload(storage, "new.jsonl", format_records(x="One.", y="Two."))
    report = await run_confirmed_ingest(app)
    assert report == Report(Counter({"read": 2}))
    assert await read_chunk_texts(ctx) == ["One.", "Two."]

    remove(storage, "new.jsonl")
    upload(storage, "other.md", REEF)
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == [REEF]


async def test_records_that_move_to_another_file_stay(
    app: App, ctx: Context, storage: Storage
) -> None:
    """Each of six files gets the only record of the next one."""
    names = [f"{number}.jsonl" for number in range(6)]
    for name in names:
        upload(storage, name, format_records(**{name: name}))
    await run_ingest(app)
    for name, next_name in zip(names, [*names[1:], names[0]], strict=True):
        upload(storage, name, format_records(**{next_name: next_name}))
    assert (await run_ingest(app)).failures == []
    assert await read_chunk_texts(ctx) == names
    assert await run_ingest(app) == Report()


async def test_a_file_changed_during_a_run_is_read_by_the_next_run(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "a.md", REEF)
    upload(storage, "b.md", DOUGH)
    storage.hooks["download"] = lambda: upload(storage, "b.md", TESTS)
    assert (await run_ingest(app)).failures == []
    assert await read_chunk_texts(ctx) == [REEF]
    await run_ingest(app)
    assert await read_chunk_texts(ctx) == [TESTS, REEF]


async def test_the_next_run_completes_one_out_of_time(
    app: App, ctx: Context, storage: Storage
) -> None:
    for number in range(70):
        upload(storage, f"{number}.md", f"Note {number}.")
    report = await ingest(ctx, make_one_step_budget())
    assert not report.finished
    assert report.counts["read"] == 30
    assert (await run_ingest(app)).counts == {"read": 40, "sources": 40, "created": 40}
    assert len(await read_chunk_texts(ctx)) == 70
    assert await run_ingest(app) == Report()


async def test_a_run_without_time_lists_no_objects(ctx: Context, storage: Storage) -> None:
    assert await ingest(ctx, make_spent_budget()) == Report(finished=False)
    assert storage.calls == {}


async def test_exports_are_skipped_if_readwise_is_synchronized(
    app: App, ctx: Context, storage: Storage
) -> None:
    """An old export neither restores edited texts nor deletes a book when it is deleted."""
    upload(storage, "a.md", REEF)
    upload(storage, "d.json", '[{"user_book_id": 7, "highlights": [{"id": 1, "text": "Three."}]}]')
    await run_ingest(app)
    remove(storage, "d.json")
    upload(storage, "e.json", '[{"user_book_id": 8, "highlights": [{"id": 2, "text": "Four."}]}]')

    account = {"readwise_token": SecretStr("of-another"), "readwise_url": "http://127.0.0.1:9"}
    settings = app.settings.model_copy(update=account)
    report = Report()
    await sync_bucket(ADDRESS, replace(ctx, settings=settings), make_ample_budget(), report)

    assert report.failures == []
    source_ids = await read_documents(ctx, "sources")
    assert [name for name in source_ids if name.startswith("readwise")] == ["readwise-7"]


async def test_the_files_of_a_bucket_are_not_counted(ctx: Context) -> None:
    assert await count(ctx) == 0
