"""A run of ingest that follows a bucket and is killed after any commit is completed by the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from shared.core.settings import Settings
from shared.runtime.job import Report
from tests.support.commit_hooks import WatchedApp
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.jobs import make_job_context
from tests.support.killable_children import start_killable_children
from tests.support.readwise_runs import read_ingested_documents, run_confirmed_ingest, run_ingest
from tests.support.source_files import format_json_lines
from tests.support.stored_documents import read_chunk_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

BUCKET: Final = "library"
ADDRESS: Final = f"gs://{BUCKET}/notes"
NOTE_COUNT: Final = 35
"""The number of notes: more than a run stores with one commit."""


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCloudStorage]:
    """A server for Cloud Storage with an empty bucket."""
    with FakeCloudStorage(BUCKET) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.base_url)
        yield server


@pytest.fixture
def settings(project: str, storage: FakeCloudStorage) -> Settings:  # noqa: ARG001 - sets the address
    """Settings by which ingest follows the bucket."""
    return Settings(**make_setting_fields(project))


def make_setting_fields(project: str) -> dict[str, Any]:
    return {"google_cloud_project": project, "ingest_bucket": ADDRESS}


def upload_note(storage: FakeCloudStorage, name: str, text: str) -> None:
    storage.put(BUCKET, f"notes/{name}", f"---\ndate: 2024-05-31\n---\n{text}")


def upload_records(storage: FakeCloudStorage, name: str, *ids: str) -> None:
    records = (
        {"id": record_id, "text": f"Record {record_id}.", "date": "2024-05-31"} for record_id in ids
    )
    storage.put(BUCKET, f"notes/{name}", format_json_lines(*records))


def change_files(storage: FakeCloudStorage) -> None:
    """Edit every file, and delete or rename some of them."""
    for number in range(NOTE_COUNT):
        upload_note(storage, f"{number}.md", f"Note {number}, edited.")
    upload_records(storage, "renamed.jsonl", "a", "b", "c")
    for name in ("0.md", "1.md", "records.jsonl"):
        storage.delete(BUCKET, f"notes/{name}")


async def test_the_next_run_completes_one_killed_after_any_commit(
    settings: Settings, app: App, ctx: Context, storage: FakeCloudStorage
) -> None:
    """The result is the same as in another database, in which no run is killed."""
    project = settings.google_cloud_project
    undisturbed = WatchedApp(Settings(**make_setting_fields(f"{project}-undisturbed")))
    for number in range(NOTE_COUNT):
        upload_note(storage, f"{number}.md", f"Note {number}.")
    upload_records(storage, "records.jsonl", "a", "b")
    for target in (undisturbed, app):
        await run_ingest(target)
    change_files(storage)

    undisturbed.commits = 0
    await run_ingest(undisturbed)
    with start_killable_children() as children:
        kills = children.run_ingest_until_it_finishes(make_setting_fields(project))

    # One commit more: `renamed.jsonl` is read again after the run that was killed before it could
    # forget `records.jsonl`.
    assert kills == undisturbed.commits + 1
    assert await run_ingest(app) == Report()
    expected = await read_ingested_documents(make_job_context(undisturbed))
    assert await read_ingested_documents(ctx) == expected
    await undisturbed.aclose()


async def test_records_of_a_file_that_only_a_killed_run_saw_are_deleted(
    settings: Settings, app: App, ctx: Context, storage: FakeCloudStorage
) -> None:
    """Another file and a record are deleted before the next run, too."""
    fields = make_setting_fields(settings.google_cloud_project)
    upload_note(storage, "a.md", "Reef early.")
    upload_records(storage, "records.jsonl", "a", "b")
    with start_killable_children() as children:
        assert not children.survives(fields, 2, ingest=True)
    assert len(await read_chunk_texts(ctx)) == 3

    storage.delete(BUCKET, "notes/a.md")
    upload_records(storage, "records.jsonl", "b")
    await run_confirmed_ingest(app)

    assert await read_chunk_texts(ctx) == ["Record b."]
