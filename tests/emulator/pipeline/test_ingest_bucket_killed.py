"""The next run completes one that follows a bucket and was killed after any commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.job import Report
from tests.support.commit_hooks import WatchedApp
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.killable_children import start_killable_children
from tests.support.readwise_runs import read_ingested_documents, run_confirmed_ingest, run_ingest
from tests.support.source_files import format_json_lines
from tests.support.stored_documents import read_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

BUCKET: Final = "library"
ADDRESS: Final = f"gs://{BUCKET}/notes"


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCloudStorage]:
    """A server for Cloud Storage with an empty bucket."""
    with FakeCloudStorage(BUCKET) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.base_url)
        yield server


@pytest.fixture
def settings(project: str, storage: FakeCloudStorage) -> Settings:  # noqa: ARG001 - must be there
    """Settings by which ingest follows the bucket."""
    return Settings(**read_fields(project))


def read_fields(project: str) -> dict[str, Any]:
    return {"google_cloud_project": project, "ingest_bucket": ADDRESS}


def upload(storage: FakeCloudStorage, name: str, text: str) -> None:
    storage.put(BUCKET, f"notes/{name}", f"---\ndate: 2024-05-31\n---\n{text}")


def upload_records(storage: FakeCloudStorage, name: str, *ids: str) -> None:
    records = (
        {"id": record_id, "text": f"Record {record_id}.", "date": "2024-05-31"} for record_id in ids
    )
    storage.put(BUCKET, f"notes/{name}", format_json_lines(*records))


def change_files(storage: FakeCloudStorage) -> None:
    """Edit every file, and delete some."""
    for number in range(35):
        upload(storage, f"{number}.md", f"Note {number}, again.")
    upload_records(storage, "renamed.jsonl", "a", "b", "c")
    for name in ("0.md", "1.md", "records.jsonl"):
        storage.delete(BUCKET, f"notes/{name}")


async def test_next_run_completes_one_killed_after_any_commit(
    settings: Settings, app: App, ctx: Context, storage: FakeCloudStorage
) -> None:
    project = settings.google_cloud_project
    calmly = settings.model_copy(update={"google_cloud_project": f"{project}-calm"})
    for number in range(35):
        upload(storage, f"{number}.md", f"Note {number}.")
    upload_records(storage, "records.jsonl", "a", "b")
    calm = WatchedApp(calmly)
    for target in (calm, app):
        await run_ingest(target)
    change_files(storage)
    calm.commits = 0
    await run_ingest(calm)
    with start_killable_children() as dying:
        # One more: `renamed.jsonl` is read again after the run that was killed before it could
        # forget `records.jsonl`.
        assert calm.commits + 1 == dying.count_ingest_kills(read_fields(project))
    assert await run_ingest(app) == Report()
    assert await read_ingested_documents(
        calm.context(Caller(), Meter())
    ) == await read_ingested_documents(ctx)
    await calm.aclose()


async def test_records_of_a_killed_run_and_deleted_file_go(
    settings: Settings, app: App, ctx: Context, storage: FakeCloudStorage
) -> None:
    """Only the killed run has seen the file."""
    project = settings.google_cloud_project
    upload(storage, "a.md", "Reef early.")
    upload_records(storage, "records.jsonl", "a", "b")
    with start_killable_children() as dying:
        assert not dying.survives(read_fields(project), 2, ingest=True)
    assert len(await read_chunks(ctx)) == 3
    storage.delete(BUCKET, "notes/a.md")
    upload_records(storage, "records.jsonl", "b")
    await run_confirmed_ingest(app)
    assert [chunk["content"] for chunk in (await read_chunks(ctx)).values()] == ["Record b."]
