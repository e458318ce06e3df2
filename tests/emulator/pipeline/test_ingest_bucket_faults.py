"""Ingest retries or reports errors of Cloud Storage, and deletes nothing."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from functions.jobs.ingest.bucket import BucketObjects
from shared.core.errors import InvalidInput, Unavailable
from shared.core.settings import Settings
from shared.runtime.context import Context
from shared.runtime.job import Failure, Report
from tests.support.fakes.cloud_storage import (
    BROKEN,
    CUT_CONNECTION,
    FORBIDDEN,
    HANG,
    THROTTLED,
    FakeCloudStorage,
    Fault,
    Operation,
)
from tests.support.ingest_runs import run_ingest
from tests.support.stored_documents import read_chunk_texts, read_documents

pytestmark = [pytest.mark.usefixtures("instant_sleep")]

ADDRESS: Final = "gs://library/notes"


@pytest.fixture
def settings(project: str) -> Settings:
    """Settings by which ingest follows the bucket."""
    return Settings(google_cloud_project=project, ingest_bucket=ADDRESS)


@pytest.fixture(autouse=True)
def files(storage: FakeCloudStorage) -> None:
    """Two files in the bucket."""
    storage.put("library", "notes/a.md", "Reef early.")
    storage.put("library", "notes/b.md", "Knead well.")


async def download_text(path: Path, **time_limits: float) -> str:
    """List the objects, download the first one to a path, and return its text."""
    async with BucketObjects(ADDRESS, "p", **time_limits) as objects:
        listing = await objects.fetch_listing()
        await objects.download("a.md", listing["a.md"].generation, path)
    return await asyncio.to_thread(path.read_text)


@pytest.mark.parametrize("fault", [BROKEN, THROTTLED, CUT_CONNECTION])
@pytest.mark.parametrize("operation", ["list", "download"])
async def test_a_temporary_error_is_retried(
    storage: FakeCloudStorage, tmp_path: Path, operation: Operation, fault: Fault
) -> None:
    storage.faults[operation].append(fault)
    assert await download_text(tmp_path / "a.md") == "Reef early."


@pytest.mark.parametrize("operation", ["list", "download"])
async def test_a_hanging_request_is_retried(
    storage: FakeCloudStorage, tmp_path: Path, operation: Operation
) -> None:
    storage.faults[operation].append(HANG)
    assert await download_text(tmp_path / "a.md", attempt_seconds=0.3) == "Reef early."


@pytest.mark.parametrize("fault", [BROKEN, THROTTLED, HANG])
@pytest.mark.parametrize("operation", ["list", "download"])
async def test_a_lasting_error_is_an_outage(
    storage: FakeCloudStorage, tmp_path: Path, operation: Operation, fault: Fault
) -> None:
    storage.lasting_faults[operation] = fault
    with pytest.raises(Unavailable, match="try again later"):
        await download_text(tmp_path / "a.md", attempt_seconds=0.1, retry_seconds=0.2)


async def test_an_outage_deletes_nothing(ctx: Context, storage: FakeCloudStorage) -> None:
    await run_ingest(ctx)
    storage.put("library", "notes/c.md", "Trim the jib.")

    storage.lasting_faults["list"] = FORBIDDEN
    with pytest.raises(InvalidInput, match=r"roles/storage\.objectViewer"):
        await run_ingest(ctx)
    assert await read_chunk_texts(ctx) == ["Knead well.", "Reef early."]

    storage.lasting_faults.clear()
    await run_ingest(ctx)
    assert await read_chunk_texts(ctx) == ["Knead well.", "Reef early.", "Trim the jib."]


async def test_a_listing_without_sizes_is_read(ctx: Context, storage: FakeCloudStorage) -> None:
    storage.unlisted_fields = frozenset({"size"})
    assert (await run_ingest(ctx)).failures == []
    assert await read_chunk_texts(ctx) == ["Knead well.", "Reef early."]


async def test_an_object_without_hashes_is_read_again_when_it_is_replaced(
    ctx: Context, storage: FakeCloudStorage
) -> None:
    """Google lists no hashes of an object that a key of the customer encrypts."""
    storage.unlisted_fields = frozenset({"md5Hash", "crc32c"})
    assert (await run_ingest(ctx)).failures == []
    storage.put("library", "notes/b.md", "Knead long.")
    assert (await run_ingest(ctx)).counts["read"] == 1
    assert await read_chunk_texts(ctx) == ["Knead long.", "Reef early."]
    assert await run_ingest(ctx) == Report()


async def test_control_characters_in_a_name_are_not_printed(
    ctx: Context, storage: FakeCloudStorage
) -> None:
    storage.put("library", "notes/\x1b[2J\nForged: \x9b2J\u202egpj.md", b"\0")
    reason = "is not text: there is a NUL byte at position 0"
    printed_name = f"{ADDRESS}/[2J Forged: 2Jgpj.md"
    assert (await run_ingest(ctx)).failures == [Failure(printed_name, reason)]


async def test_a_missing_bucket_is_reported_with_its_setting(
    ctx: Context, storage: FakeCloudStorage
) -> None:
    storage.buckets.clear()
    with pytest.raises(InvalidInput, match="INGEST_BUCKET"):
        await run_ingest(ctx)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "cannot be opened: it may be encrypted with a key that only its owner has"),
        (403, "cannot be opened: the service account of this job may not read it"),
    ],
)
async def test_a_refused_file_is_reported_and_read_by_the_next_run(
    ctx: Context, storage: FakeCloudStorage, status: int, reason: str
) -> None:
    storage.delete("library", "notes/b.md")
    await run_ingest(ctx)
    storage.put("library", "notes/b.md", "Knead well.")

    storage.faults["download"].append(Fault(status))
    assert (await run_ingest(ctx)).failures == [Failure(f"{ADDRESS}/b.md", reason)]
    assert await read_chunk_texts(ctx) == ["Reef early."]

    assert (await run_ingest(ctx)).failures == []
    assert await read_chunk_texts(ctx) == ["Knead well.", "Reef early."]


async def test_a_renamed_file_that_is_refused_is_read_by_the_next_run(
    ctx: Context, storage: FakeCloudStorage
) -> None:
    await run_ingest(ctx)
    former_sources = await read_documents(ctx, "sources")
    storage.delete("library", "notes/b.md")
    storage.put("library", "notes/dough.md", "Knead well.")

    storage.faults["download"].append(FORBIDDEN)
    assert len((await run_ingest(ctx)).failures) == 1
    assert await read_documents(ctx, "sources") == former_sources

    assert (await run_ingest(ctx)).failures == []
    sources = await read_documents(ctx, "sources")
    assert sources.keys() == former_sources.keys()
    assert sorted(source["title"] for source in sources.values()) == ["a", "dough"]
