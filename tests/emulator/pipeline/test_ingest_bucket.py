"""Ingest follows a Cloud Storage prefix: it reads each file once, and deletes missing ones."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from functions.jobs.ingest.bucket.sync import sync_bucket
from functions.jobs.ingest.job import count, ingest
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import Failure, Report
from tests.support.fakes.cloud_storage import FakeCloudStorage, Fault, Operation
from tests.support.jobs import make_ample_budget, make_one_step_budget, make_spent_budget
from tests.support.notes import NOTE_TEXT, save_note
from tests.support.readwise_runs import (
    read_ingested_documents,
    read_texts,
    run_confirmed_ingest,
    run_ingest,
)
from tests.support.source_files import format_json_lines, write_file
from tests.support.stored_documents import read_chunks, read_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

BUCKET = "library"
ADDRESS = f"gs://{BUCKET}/notes"
REEF, DOUGH, TESTS = "Reef early.", "Knead well.", "Flaky tests erode trust."


class Storage(FakeCloudStorage):
    """Cloud Storage in which something else may happen before a request.

    Attributes:
        before: What happens once before the next request of a kind.
    """

    def __init__(self) -> None:
        super().__init__(BUCKET, page_size=3)
        self.before: dict[Operation, Callable[[], object]] = {}

    def arrive(self, operation: Operation) -> Fault:
        self.before.pop(operation, lambda: None)()
        return super().arrive(operation)


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """A server for Cloud Storage with an empty bucket, which lists three objects a page."""
    with Storage() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.base_url)
        yield server


@pytest.fixture
def settings(project: str, storage: Storage) -> Settings:  # noqa: ARG001 - must be there
    """Settings by which ingest follows the bucket."""
    return Settings(google_cloud_project=project, ingest_bucket=ADDRESS)


def upload(storage: Storage, name: str, content: str | bytes) -> None:
    storage.put(BUCKET, f"notes/{name}", content)


def remove(storage: Storage, name: str) -> None:
    storage.delete(BUCKET, f"notes/{name}")


def record_lines(**texts: str) -> str:
    """Return these records as JSON Lines."""
    return format_json_lines(*({"id": name, "text": text} for name, text in texts.items()))


async def read_chunk_texts(ctx: Context) -> list[str]:
    """Return the texts of all chunks."""
    return sorted(chunk["content"] for chunk in (await read_chunks(ctx)).values())


async def test_files_of_every_kind_are_ingested(app: App, ctx: Context, storage: Storage) -> None:
    upload(storage, "a.md", f"# Sails\n\n{REEF}")
    upload(storage, "deep/er/b.txt", DOUGH)
    upload(storage, "c.jsonl", record_lines(x="One.", y="Two."))
    upload(storage, "d.json", '[{"user_book_id": 7, "highlights": [{"id": 1, "text": "Three."}]}]')
    for name in ("e.docx", ".hidden.md", ".git/f.md", "empty/"):
        upload(storage, name, "Not read.")
    storage.put(BUCKET, "notes-2024/g.md", "Of another folder.")
    report = await run_ingest(app)
    counts = Counter({"sources": 5, "created": 5, "read": 5})
    assert Report(counts, note="Not read: 1 .docx.") == report
    assert await read_chunk_texts(ctx) == [f"# Sails\n\n{REEF}", DOUGH, "One.", "Three.", "Two."]
    assert storage.calls["download"] == 4


async def test_folder_and_bucket_give_the_same_base(
    app: App, ctx: Context, storage: Storage, project: str, tmp_path: Path
) -> None:
    dated = f"---\ndate: 2024-05-31\n---\n{REEF}"
    record = {"id": "x", "text": "One.", "date": "2024-05-31"}
    notes = {"a.md": dated, "deep/b.txt": dated, "c.jsonl": format_json_lines(record)}
    for name, content in notes.items():
        upload(storage, name, content)
        write_file(tmp_path / "notes", name, content)
    await run_ingest(app)
    settings = Settings(google_cloud_project=f"{project}-disk", ingest_path=f"{tmp_path}/notes")
    by_path = App(settings)
    await run_ingest(by_path)
    assert await read_ingested_documents(
        by_path.context(Caller(), Meter())
    ) == await read_ingested_documents(ctx)
    await by_path.aclose()


async def test_idle_run_costs_two_reads_and_a_listing(app: App, storage: Storage) -> None:
    for number in range(40):
        upload(storage, f"{number}.md", f"Note {number}.")
    await run_ingest(app)
    storage.calls.clear()
    meter = Meter()
    assert await run_ingest(app, meter) == Report()
    # The links that are due, of which there are none, and what is known.
    assert (meter.documents_read, meter.documents_written) == (2, 0)
    assert (storage.calls["list"], storage.calls["download"]) == (14, 0)


async def test_new_file_costs_a_few_reads(app: App, ctx: Context, storage: Storage) -> None:
    for number in range(40):
        upload(storage, f"{number}.md", f"Note {number}.")
    await run_ingest(app)
    upload(storage, "new.md", REEF)
    storage.calls.clear()
    meter = Meter()
    await run_ingest(app, meter)
    assert REEF in await read_chunk_texts(ctx)
    # The links that are due; what is known, and the shard; the source, what was forgotten of it,
    # and its chunks, of which there are none.
    assert meter.documents_read == 6
    # What is about to be, twice two documents, of which one goes; a source and a chunk; what is.
    assert meter.documents_written == 8
    assert storage.calls["download"] == 1


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
    upload(storage, "c.jsonl", record_lines(x="One.", y="Two."))
    await run_confirmed_ingest(app)
    remove(storage, "b.md")
    remove(storage, "c.jsonl")
    assert (await run_confirmed_ingest(app)).failures == []
    assert await read_chunk_texts(ctx) == [REEF]
    assert len(await read_documents(ctx, "sources")) == 1
    upload(storage, "b.md", DOUGH)
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == [DOUGH, REEF]


async def test_a_missing_file_deletes_no_note(app: App, ctx: Context, storage: Storage) -> None:
    note = await save_note(app)
    upload(storage, "a.md", REEF)
    upload(storage, "b.md", DOUGH)
    await run_confirmed_ingest(app)
    remove(storage, "b.md")
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == [REEF, NOTE_TEXT]
    assert note["source_id"] in await read_documents(ctx, "sources")


async def test_record_missing_from_its_file_is_deleted(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "c.jsonl", record_lines(x="One.", y="Two."))
    await run_confirmed_ingest(app)
    upload(storage, "c.jsonl", record_lines(y="Two.", z="Three."))
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == ["Three.", "Two."]


async def test_book_marked_as_deleted_is_removed(app: App, ctx: Context, storage: Storage) -> None:
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


ALARM = (
    " disappeared, and nothing is forgotten: to forget their texts, run carrel jobs run ingest"
    " --yes (of a deployment, carrel --cloud jobs run ingest --yes)"
)


async def test_suddenly_empty_prefix_deletes_nothing(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "a.md", REEF)
    await run_ingest(app)
    remove(storage, "a.md")
    for _ in range(2):
        assert (await run_ingest(app)).failures == [Failure(ADDRESS, f"1 of 1 files{ALARM}")]
        assert await read_chunk_texts(ctx) == [REEF]
    assert (await run_confirmed_ingest(app)).failures == []
    assert await read_chunk_texts(ctx) == []
    assert await run_ingest(app) == Report()


async def test_more_than_a_third_must_be_confirmed(
    app: App, ctx: Context, storage: Storage
) -> None:
    """What is new is read all the same."""
    for number in range(9):
        upload(storage, f"{number}.md", f"Note {number}.")
    await run_ingest(app)
    for number in range(3):
        remove(storage, f"{number}.md")
    assert (await run_ingest(app)).failures == []
    for number in range(3, 6):
        remove(storage, f"{number}.md")
    upload(storage, "new.md", REEF)
    assert (await run_ingest(app)).failures == [Failure(ADDRESS, f"3 of 6 files{ALARM}")]
    assert (await run_ingest(app)).failures == [Failure(ADDRESS, f"3 of 7 files{ALARM}")]
    assert len(await read_chunk_texts(ctx)) == 7
    assert (await run_confirmed_ingest(app)).failures == []
    assert await read_chunk_texts(ctx) == ["Note 6.", "Note 7.", "Note 8.", REEF]
    assert await run_ingest(app) == Report()


async def test_many_records_that_left_a_file_must_be_confirmed(
    app: App, ctx: Context, storage: Storage
) -> None:
    """Records that moved to another file have not left."""
    records = {f"r{number}": f"Record {number}." for number in range(6)}
    moved = {name: records.pop(name) for name in ("r4", "r5")}
    upload(storage, "a.jsonl", record_lines(**records, **moved))
    await run_ingest(app)
    upload(storage, "a.jsonl", record_lines(r0=records["r0"]))
    upload(storage, "b.jsonl", record_lines(**moved))
    for _ in range(2):
        assert (await run_ingest(app)).failures == [Failure(ADDRESS, f"3 of 6 texts{ALARM}")]
        assert len(await read_chunk_texts(ctx)) == 6
    assert (await run_confirmed_ingest(app)).failures == []
    assert await read_chunk_texts(ctx) == ["Record 0.", "Record 4.", "Record 5."]
    await run_ingest(app)  # what two files had is read again
    assert await run_ingest(app) == Report()


async def test_empty_prefix_ingests_nothing(app: App) -> None:
    assert await run_ingest(app) == Report()


async def test_partly_stored_file_is_one_warning(app: App, ctx: Context, storage: Storage) -> None:
    upload(storage, "a.md", f"---\ndate: soon\n---\n{REEF}")
    reason = "line 2: date: “soon” is not an ISO 8601 date such as 2024-05-31; field ignored"
    report = await run_ingest(app)
    assert report.warnings == [Failure(f"{ADDRESS}/a.md", reason)]
    assert (report.failures, await read_chunk_texts(ctx)) == ([], [REEF])
    assert (await run_ingest(app)).warnings == []


async def test_unsupported_objects_are_counted(app: App, storage: Storage) -> None:
    for name in ("a.md", "b.docx", "x/c.DOCX", "d.xlsx", ".hidden.docx", "x/"):
        upload(storage, name, REEF)
    report = await run_ingest(app)
    assert (report.counts["read"], report.note) == (1, "Not read: 2 .docx, 1 .xlsx.")


async def test_broken_file_is_reported_once_and_blocks_no_other(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "a.md", REEF)
    upload(storage, "b.md", b"caf\0")
    upload(storage, "c.jsonl", record_lines(x="One.") + "{broken\n")
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


async def test_broken_file_deletes_nothing(app: App, ctx: Context, storage: Storage) -> None:
    upload(storage, "a.md", REEF)
    upload(storage, "c.jsonl", record_lines(x="One.", y="Two."))
    await run_ingest(app)
    upload(storage, "a.md", b"caf\0")
    upload(storage, "c.jsonl", record_lines(z="Three.") + "{broken\n")
    await run_ingest(app)
    assert await read_chunk_texts(ctx) == ["One.", REEF, "Three.", "Two."]
    upload(storage, "c.jsonl", record_lines(z="Three."))
    remove(storage, "a.md")
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == ["Three."]


async def test_last_read_file_defines_a_shared_record(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "old.jsonl", record_lines(x="One."))
    await run_confirmed_ingest(app)
    upload(storage, "new.jsonl", record_lines(x="Two.", y="Three."))
    reason = "has a record of old.jsonl too; its text was read later and is used; keep one of them"
    assert [Failure(f"{ADDRESS}/new.jsonl", reason)] == (await run_confirmed_ingest(app)).warnings
    assert await read_chunk_texts(ctx) == ["Three.", "Two."]
    assert await run_confirmed_ingest(app) == Report()
    remove(storage, "new.jsonl")
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == ["Two."]
    await run_confirmed_ingest(app)  # the file that is left is read again, and its text comes back
    assert await read_chunk_texts(ctx) == ["One."]
    remove(storage, "old.jsonl")
    upload(storage, "other.md", REEF)
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == [REEF]


async def test_shared_record_is_deleted_with_its_last_file(
    app: App, ctx: Context, storage: Storage
) -> None:
    names = [f"{number}.jsonl" for number in range(5)]
    for name in names:
        upload(storage, name, record_lines(x=f"As {name} says.", **{name: name}))
    report = await run_confirmed_ingest(app)
    assert len(report.warnings) == 10  # each says which of the others was read before
    [text] = set(await read_chunk_texts(ctx)) - set(names)
    assert await run_confirmed_ingest(app) == Report()
    for name in names:
        assert text.startswith("As ")
        remove(storage, name)
        upload(storage, "other.md", REEF)
        await run_confirmed_ingest(app)
        await run_confirmed_ingest(app)
        left = names[names.index(name) + 1 :]
        texts = {f"As {other} says." for other in left}
        assert bool(left) == bool(texts.intersection(await read_chunk_texts(ctx)))
    assert await read_chunk_texts(ctx) == [REEF]


async def test_record_stays_while_another_file_has_it(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "a.jsonl", record_lines(x="One."))
    await run_ingest(app)
    upload(storage, "b.jsonl", record_lines(x="Two.", y="Three."))
    await run_ingest(app)
    upload(storage, "b.jsonl", record_lines(y="Three."))
    for _ in range(2):
        await run_ingest(app)
    assert await read_chunk_texts(ctx) == ["One.", "Three."]
    assert await run_ingest(app) == Report()


async def test_renamed_file_keeps_its_records(app: App, ctx: Context, storage: Storage) -> None:
    upload(storage, "old.jsonl", record_lines(x="One.", y="Two."))
    await run_confirmed_ingest(app)
    remove(storage, "old.jsonl")
    upload(storage, "new.jsonl", record_lines(x="One.", y="Two."))
    report = await run_confirmed_ingest(app)
    assert report == Report(Counter({"read": 2}))
    assert await read_chunk_texts(ctx) == ["One.", "Two."]
    remove(storage, "new.jsonl")
    upload(storage, "other.md", REEF)
    await run_confirmed_ingest(app)
    assert await read_chunk_texts(ctx) == [REEF]


async def test_moved_record_stays(app: App, ctx: Context, storage: Storage) -> None:
    names = [f"{number}.jsonl" for number in range(6)]
    for name in names:
        upload(storage, name, record_lines(**{name: name}))
    await run_ingest(app)
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        upload(storage, name, record_lines(**{other: other}))
    assert (await run_ingest(app)).failures == []
    assert await read_chunk_texts(ctx) == names
    assert await run_ingest(app) == Report()


async def test_file_changed_while_read_is_read_again_next_time(
    app: App, ctx: Context, storage: Storage
) -> None:
    upload(storage, "a.md", REEF)
    upload(storage, "b.md", DOUGH)
    storage.before["download"] = lambda: upload(storage, "b.md", TESTS)
    assert (await run_ingest(app)).failures == []
    assert await read_chunk_texts(ctx) == [REEF]
    await run_ingest(app)
    assert await read_chunk_texts(ctx) == [TESTS, REEF]


async def test_next_run_completes_one_out_of_time(app: App, ctx: Context, storage: Storage) -> None:
    for number in range(70):
        upload(storage, f"{number}.md", f"Note {number}.")
    report = await ingest(ctx, make_one_step_budget())
    assert (report.finished, report.counts["read"]) == (False, 30)
    assert (await run_ingest(app)).counts == {"read": 40, "sources": 40, "created": 40}
    assert len(await read_chunk_texts(ctx)) == 70
    assert await run_ingest(app) == Report()


async def test_run_without_time_lists_nothing(ctx: Context, storage: Storage) -> None:
    assert await ingest(ctx, make_spent_budget()) == Report(finished=False)
    assert storage.calls == {}


async def test_exports_are_skipped_if_readwise_is_followed(
    app: App, ctx: Context, storage: Storage
) -> None:
    """An old export neither restores edited texts nor deletes a book when it is deleted."""
    upload(storage, "a.md", REEF)
    upload(storage, "d.json", '[{"user_book_id": 7, "highlights": [{"id": 1, "text": "Three."}]}]')
    await run_ingest(app)
    token = {"readwise_token": SecretStr("of-another"), "readwise_url": "http://127.0.0.1:9"}
    remove(storage, "d.json")
    upload(storage, "e.json", '[{"user_book_id": 8, "highlights": [{"id": 2, "text": "Four."}]}]')
    settings = app.settings.model_copy(update=token)
    with_token = replace(app.context(Caller(), Meter()), settings=settings)
    report = Report()
    await sync_bucket(ADDRESS, with_token, make_ample_budget(), report)
    assert report.failures == []
    assert {name for name in await read_texts(ctx) if name.startswith("readwise")} == {"readwise-7"}


async def test_bucket_of_unknown_size_has_no_total(ctx: Context) -> None:
    assert await count(ctx) == 0
