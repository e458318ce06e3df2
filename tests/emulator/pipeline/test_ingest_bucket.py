"""Ingest follows a Cloud Storage prefix: it reads each file once, and deletes missing ones.

A file of JSON Lines contains records; each becomes a source, which another file may define, too.
"""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from functions.jobs.ingest.bucket import follow_bucket
from functions.jobs.ingest.job import count, ingest
from functions.jobs.ingest.origin import sync
from functions.jobs.ingest.readers.readwise.export import derive_book_source_id, is_book
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from shared.runtime.job import Failure, Report
from tests.support.apps import Apps
from tests.support.fakes.cloud_storage import FakeCloudStorage, Fault, Operation
from tests.support.ingest_runs import (
    measure_ingest,
    read_ingested_documents,
    run_confirmed_ingest,
    run_ingest,
)
from tests.support.jobs import (
    make_ample_budget,
    make_job_context,
    make_one_step_budget,
    make_spent_budget,
)
from tests.support.knowledge import set_fields
from tests.support.source_files import format_json_lines, write_file
from tests.support.stored_documents import read_chunk_texts, read_chunks, read_documents

ADDRESS = "gs://library/notes"
REEF, DOUGH, TESTS = "Reef early.", "Knead well.", "Flaky tests erode trust."


@pytest.fixture
def settings(project: str) -> Settings:
    """Settings by which ingest follows the bucket."""
    return Settings(google_cloud_project=project, ingest_bucket=ADDRESS)


def upload(storage: FakeCloudStorage, name: str, content: str | bytes) -> None:
    storage.put("library", f"notes/{name}", content)


def remove(storage: FakeCloudStorage, name: str) -> None:
    storage.delete("library", f"notes/{name}")


def format_records(**texts: str) -> str:
    """Return records, given as texts by id, as JSON Lines."""
    records = ({"id": record_id, "text": text} for record_id, text in texts.items())
    return format_json_lines(*records)


async def test_files_of_every_kind_are_ingested(ctx: Context, storage: FakeCloudStorage) -> None:
    assert await run_ingest(ctx) == Report()
    upload(storage, "a.md", f"# Sails\n\n{REEF}")
    upload(storage, "deep/er/b.txt", DOUGH)
    upload(storage, "c.jsonl", format_records(x="One.", y="Two."))
    upload(storage, "d.json", '[{"user_book_id": 7, "highlights": [{"id": 1, "text": "Three."}]}]')
    for name in ("e.pptx", "x/f.PPTX", "g.xlsx", ".hidden.md", ".hidden.pptx", ".git/f.md", "x/"):
        upload(storage, name, "Not read.")
    storage.put("library", "notes-2024/g.md", "Of another folder.")

    report = await run_ingest(ctx)

    counts = Counter({"sources": 5, "created": 5, "read": 5})
    assert report == Report(counts, note="Not read: 2 .pptx, 1 .xlsx.")
    assert await read_chunk_texts(ctx) == [f"# Sails\n\n{REEF}", DOUGH, "One.", "Three.", "Two."]
    assert storage.calls["download"] == 4
    assert await count(ctx) == 0  # the files of a bucket are not counted


async def test_a_bucket_and_a_folder_of_the_same_files_give_the_same_base(
    apps: Apps, ctx: Context, storage: FakeCloudStorage, project: str, tmp_path: Path
) -> None:
    dated = f"---\ndate: 2024-05-31\n---\n{REEF}"
    record = {"id": "x", "text": "One.", "date": "2024-05-31"}
    notes = {"a.md": dated, "deep/b.txt": dated, "c.jsonl": format_json_lines(record)}
    for name, content in notes.items():
        upload(storage, name, content)
        write_file(tmp_path / "notes", name, content)
    folder_app = apps(
        project=f"{project}-disk", ingest_bucket=None, ingest_path=f"{tmp_path}/notes"
    )
    folder_ctx = make_job_context(folder_app)
    for context in (ctx, folder_ctx):
        await run_ingest(context)
    assert await read_ingested_documents(ctx) == await read_ingested_documents(folder_ctx)


async def test_a_run_reads_only_what_is_new(
    app: App, ctx: Context, storage: FakeCloudStorage
) -> None:
    for number in range(40):
        upload(storage, f"{number}.md", f"Note {number}.")
    await run_ingest(ctx)
    storage.calls.clear()
    report, meter = await measure_ingest(app)
    assert report == Report()
    assert meter.documents_read == 2  # a query for due links, and the state of the bucket
    assert meter.documents_written == 1  # when it was read
    assert storage.calls == {"list": 14}  # pages of three files

    upload(storage, "new.md", REEF)
    _, meter = await measure_ingest(app)
    assert REEF in await read_chunk_texts(ctx)
    assert storage.calls["download"] == 1
    # The query for due links and the state of the bucket; the source, the record that it was
    # forgotten, and the query for its chunks, none of which exist.
    assert meter.documents_read == 5
    # The source and the chunk; before and after these the state; and when it was read.
    assert meter.documents_written == 2 + 2 + 1


async def test_a_new_chunk_layout_reads_the_whole_bucket_again(
    ctx: Context, storage: FakeCloudStorage
) -> None:
    upload(storage, "a.md", REEF)
    await run_ingest(ctx)
    [(name, state)] = (await read_documents(ctx, "followed")).items()
    await set_fields(ctx, f"followed/{name}", {"layout": state["layout"] - 1})
    assert (await run_ingest(ctx)).counts["read"] == 1


async def test_text_of_a_book_outranks_an_earlier_empty_record(
    ctx: Context, storage: FakeCloudStorage
) -> None:
    deleted = {"user_book_id": 7, "title": "A", "is_deleted": True, "highlights": []}
    present = {"user_book_id": 7, "title": "A", "highlights": [{"text": REEF}]}
    upload(storage, "export.json", json.dumps([deleted, present]))
    await run_ingest(ctx)
    assert await read_chunk_texts(ctx) == [REEF]


UNCONFIRMED = (
    " disappeared, and nothing is forgotten: to forget their texts, run .venv/bin/carrel jobs run"
    " ingest --yes"
)


async def test_deleting_all_files_must_be_confirmed(
    ctx: Context, storage: FakeCloudStorage
) -> None:
    upload(storage, "a.md", REEF)
    await run_ingest(ctx)
    remove(storage, "a.md")

    for _ in range(2):
        assert (await run_ingest(ctx)).failures == [Failure(ADDRESS, f"1 of 1 files{UNCONFIRMED}")]
        assert await read_chunk_texts(ctx) == [REEF]

    assert (await run_confirmed_ingest(ctx)).failures == []
    assert await read_chunk_texts(ctx) == []
    assert await run_ingest(ctx) == Report()


async def test_deleting_many_records_of_a_file_must_be_confirmed(
    ctx: Context, storage: FakeCloudStorage
) -> None:
    """Records that move to another file do not count."""
    texts = {f"r{number}": f"Record {number}." for number in range(6)}
    upload(storage, "a.jsonl", format_records(**texts))
    await run_ingest(ctx)

    upload(storage, "a.jsonl", format_records(r0=texts["r0"]))
    upload(storage, "b.jsonl", format_records(r4=texts["r4"], r5=texts["r5"]))
    for _ in range(2):
        assert (await run_ingest(ctx)).failures == [Failure(ADDRESS, f"3 of 6 texts{UNCONFIRMED}")]
        assert len(await read_chunk_texts(ctx)) == 6

    assert (await run_confirmed_ingest(ctx)).failures == []
    assert await read_chunk_texts(ctx) == ["Record 0.", "Record 4.", "Record 5."]
    await run_ingest(ctx)  # reads again the files that shared records
    assert await run_ingest(ctx) == Report()


async def test_an_unreadable_file_is_reported_once_and_blocks_no_other(
    ctx: Context, storage: FakeCloudStorage
) -> None:
    """A file of which a part is stored is a warning."""
    upload(storage, "a.md", f"---\ndate: soon\n---\n{REEF}")
    upload(storage, "b.md", b"caf\0")
    upload(storage, "c.jsonl", format_records(x="One.") + "{broken\n")
    of_date = "line 2: date: “soon” is not an ISO 8601 date such as 2024-05-31; field ignored"
    of_line = "is not JSON: Expecting property name enclosed in double quotes (column 2)"
    report = await run_ingest(ctx)
    assert report.warnings == [Failure(f"{ADDRESS}/a.md", of_date)]
    assert report.failures == [
        Failure(f"{ADDRESS}/b.md", "is not text: there is a NUL byte at position 3"),
        Failure(f"{ADDRESS}/c.jsonl line 2", of_line),
    ]
    assert await read_chunk_texts(ctx) == ["One.", REEF]
    assert await run_ingest(ctx) == Report()


async def test_a_record_in_two_files_has_the_text_that_was_read_last(
    ctx: Context, storage: FakeCloudStorage
) -> None:
    upload(storage, "old.jsonl", format_records(x="One."))
    await run_confirmed_ingest(ctx)

    upload(storage, "new.jsonl", format_records(x="Two.", y="Three."))
    reason = "has a record of old.jsonl too; its text was read later and is used; keep one of them"
    report = await run_confirmed_ingest(ctx)
    assert report.warnings == [Failure(f"{ADDRESS}/new.jsonl", reason)]
    assert await read_chunk_texts(ctx) == ["Three.", "Two."]
    assert await run_confirmed_ingest(ctx) == Report()

    remove(storage, "new.jsonl")
    await run_confirmed_ingest(ctx)
    assert await read_chunk_texts(ctx) == ["Two."]
    await run_confirmed_ingest(ctx)  # reads the other file again, whose text replaces the last
    assert await read_chunk_texts(ctx) == ["One."]

    remove(storage, "old.jsonl")
    upload(storage, "other.md", REEF)
    await run_confirmed_ingest(ctx)
    assert await read_chunk_texts(ctx) == [REEF]


async def test_renamed_objects_keep_their_sources(ctx: Context, storage: FakeCloudStorage) -> None:
    """An object that was uploaded again with the same content is not read again."""
    upload(storage, "a.md", REEF)
    upload(storage, "old.jsonl", format_records(x="One.", y="Two."))
    await run_ingest(ctx)
    before = await read_chunks(ctx)

    remove(storage, "a.md")
    upload(storage, "deep/b.md", REEF)
    remove(storage, "old.jsonl")
    upload(storage, "new.jsonl", format_records(x="One.", y="Two."))
    report = await run_ingest(ctx)
    assert report == Report(Counter({"read": 3, "sources": 1, "updated": 1}))  # the title
    assert (await read_chunks(ctx)).keys() == before.keys()

    upload(storage, "deep/b.md", REEF)
    assert await run_ingest(ctx) == Report()


async def test_records_that_move_to_another_file_stay(
    ctx: Context, storage: FakeCloudStorage
) -> None:
    """Each of six files gets the only record of the next one."""
    names = [f"{number}.jsonl" for number in range(6)]
    for name in names:
        upload(storage, name, format_records(**{name: name}))
    await run_ingest(ctx)
    for name, next_name in zip(names, [*names[1:], names[0]], strict=True):
        upload(storage, name, format_records(**{next_name: next_name}))
    assert (await run_ingest(ctx)).failures == []
    assert await read_chunk_texts(ctx) == names
    assert await run_ingest(ctx) == Report()


async def test_a_file_changed_during_a_run_is_read_by_the_next_run(
    ctx: Context, storage: FakeCloudStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(storage, "a.md", REEF)
    upload(storage, "b.md", DOUGH)
    arrive = storage.arrive

    def change_before_download(operation: Operation) -> Fault:
        if operation == "download" and not storage.calls["download"]:
            upload(storage, "b.md", TESTS)
        return arrive(operation)

    monkeypatch.setattr(storage, "arrive", change_before_download)
    assert (await run_ingest(ctx)).failures == []
    assert await read_chunk_texts(ctx) == [REEF]
    await run_ingest(ctx)
    assert await read_chunk_texts(ctx) == [TESTS, REEF]


async def test_the_next_run_completes_one_out_of_time(
    ctx: Context, storage: FakeCloudStorage
) -> None:
    for number in range(70):
        upload(storage, f"{number}.md", f"Note {number}.")
    assert await ingest(ctx, make_spent_budget()) == Report(finished=False)
    assert storage.calls == {}
    report = await ingest(ctx, make_one_step_budget())
    assert not report.finished
    assert report.counts["read"] == 30
    assert (await run_ingest(ctx)).counts == {"read": 40, "sources": 40, "created": 40}
    assert len(await read_chunk_texts(ctx)) == 70
    assert await run_ingest(ctx) == Report()


async def test_exports_are_skipped_if_readwise_is_synchronized(
    ctx: Context, storage: FakeCloudStorage
) -> None:
    """An old export neither restores edited texts nor deletes a book when it is deleted."""
    upload(storage, "a.md", REEF)
    upload(storage, "d.json", '[{"user_book_id": 7, "highlights": [{"id": 1, "text": "Three."}]}]')
    await run_ingest(ctx)
    remove(storage, "d.json")
    upload(storage, "e.json", '[{"user_book_id": 8, "highlights": [{"id": 2, "text": "Four."}]}]')

    account = {"readwise_token": SecretStr("of-another"), "readwise_url": "http://127.0.0.1:9"}
    settings = ctx.settings.model_copy(update=account)
    context, budget, report = replace(ctx, settings=settings), make_ample_budget(), Report()
    async with follow_bucket(context, budget) as bucket:
        await sync(bucket, context, budget, report)

    assert report.failures == []
    source_ids = await read_documents(ctx, "sources")
    assert list(filter(is_book, source_ids)) == [derive_book_source_id("7")]
