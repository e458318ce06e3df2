"""An error of a batch job, Vertex AI or Cloud Storage loses no text and pays for none twice."""

import math
from dataclasses import replace
from typing import Final

import pytest

from shared.core.errors import InvalidInput, PlatformFault, Unavailable
from shared.pipeline.embedding.bulk import BulkServices
from shared.pipeline.embedding.chunks import embed_in_bulk
from shared.runtime.context import Context
from shared.runtime.job import Budget, Report
from tests.support.bulk_embedding import (
    NOTES_PER_SOURCE,
    assert_all_embedded_once,
    assert_no_bulk_files_left,
    replace_vector_by_error,
    run_bulk_embedding,
)
from tests.support.fakes.cloud_storage import BROKEN as STORAGE_BROKEN
from tests.support.fakes.cloud_storage import CLIENT_LEAVES_SOCKETS, FORBIDDEN, FakeCloudStorage
from tests.support.fakes.vertex_batch import BROKEN, LOST, FakeVertexBatch, Fault
from tests.support.knowledge import set_fields
from tests.support.stored_documents import read_documents

pytestmark = [
    pytest.mark.usefixtures("instant_sleep"),
    CLIENT_LEAVES_SOCKETS,
]

LONGER_THAN_A_RUN: Final = 120
"""A pause between two polls, in seconds. A run of these tests lasts up to 60 seconds."""


@pytest.mark.parametrize("state", ["JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED"])
async def test_the_next_run_starts_another_job_after_a_failed_one(
    base: Context,
    bulk: BulkServices,
    vertex: FakeVertexBatch,
    storage: FakeCloudStorage,
    state: str,
) -> None:
    vertex.final_state = state

    report = await run_bulk_embedding(base, bulk)
    [failure] = report.failures
    assert failure.name.endswith("batchPredictionJobs/1000")
    assert failure.reason.startswith(f"The batch job ended as {state}")
    assert "Secret" not in failure.reason
    assert report.counts == {}
    assert not report.finished
    assert storage.list_names("bulk") == []

    vertex.final_state = "JOB_STATE_SUCCEEDED"
    assert (await run_bulk_embedding(base, bulk)).counts == {"embedded": NOTES_PER_SOURCE}
    await assert_no_bulk_files_left(base, storage)


async def test_after_three_failed_jobs_texts_are_embedded_one_by_one(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, storage: FakeCloudStorage
) -> None:
    vertex.final_state = "JOB_STATE_FAILED"
    for _ in range(3):
        assert len((await run_bulk_embedding(base, bulk)).failures) == 1

    report = await run_bulk_embedding(base, bulk)
    assert report.counts == {"embedded": NOTES_PER_SOURCE}
    assert report.failures == []
    assert len(vertex.jobs) == 3
    assert len(vertex.embedded) == NOTES_PER_SOURCE
    await run_bulk_embedding(base, bulk)
    await assert_no_bulk_files_left(base, storage)


async def test_a_job_that_embeds_almost_nothing_fails_as_a_whole(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch
) -> None:
    vertex.rewrite = lambda lines: [lines[0], *map(replace_vector_by_error, lines[1:])]
    [failure] = (await run_bulk_embedding(base, bulk)).failures
    assert failure.reason == f"The batch job made 1 vectors of {NOTES_PER_SOURCE} texts."
    chunks = (await read_documents(base, "chunks")).values()
    assert not any(data["tries"] or data["parked"] for data in chunks)


async def test_outages_while_a_job_runs_lose_nothing(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, storage: FakeCloudStorage
) -> None:
    vertex.polls_until_end = 2
    await run_bulk_embedding(base, replace(bulk, poll_seconds=LONGER_THAN_A_RUN))
    vertex.faults["get"].extend([BROKEN] * 20)
    with pytest.raises(Unavailable):
        await run_bulk_embedding(base, bulk)
    vertex.faults.clear()
    storage.lasting_faults["list"] = STORAGE_BROKEN
    with pytest.raises(Unavailable):
        await run_bulk_embedding(base, bulk)
    storage.lasting_faults.clear()
    assert (await run_bulk_embedding(base, bulk)).counts == {"embedded": NOTES_PER_SOURCE}
    await assert_all_embedded_once(base, vertex, "Note")
    await assert_no_bulk_files_left(base, storage)


async def test_an_unconfirmed_job_is_found_by_the_next_run(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch
) -> None:
    vertex.faults["create"].append(LOST)
    vertex.faults["list"].extend([Fault(), *[BROKEN] * 20])
    with pytest.raises(Unavailable):
        await run_bulk_embedding(base, bulk)
    vertex.faults.clear()
    await run_bulk_embedding(base, bulk)
    assert len(vertex.jobs) == 1
    await assert_all_embedded_once(base, vertex, "Note")


async def test_a_forbidden_bucket_is_given_up_after_three_runs(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, storage: FakeCloudStorage
) -> None:
    storage.lasting_faults["upload"] = FORBIDDEN
    for _ in range(3):
        with pytest.raises(PlatformFault, match=r"roles/storage\.objectUser"):
            await run_bulk_embedding(base, bulk)
    assert (await run_bulk_embedding(base, bulk)).counts == {"embedded": NOTES_PER_SOURCE}
    assert len(vertex.jobs) == 0
    assert len(vertex.embedded) == NOTES_PER_SOURCE


async def test_a_refused_job_is_given_up_after_three_runs(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch
) -> None:
    vertex.faults["create"].extend([Fault(400)] * 3)
    for _ in range(3):
        with pytest.raises(InvalidInput, match="BULK_BUCKET"):
            await run_bulk_embedding(base, bulk)
    assert (await run_bulk_embedding(base, bulk)).counts == {"embedded": NOTES_PER_SOURCE}
    assert len(vertex.embedded) == NOTES_PER_SOURCE


async def test_a_job_of_another_model_is_cancelled(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, storage: FakeCloudStorage
) -> None:
    vertex.polls_until_end = 9
    await run_bulk_embedding(base, replace(bulk, poll_seconds=LONGER_THAN_A_RUN))

    task = (await read_documents(base, "meta"))["bulk_embedding"]["task"]
    await set_fields(base, "meta/bulk_embedding", {"task": task | {"model": "of yesterday"}})
    vertex.polls_until_end = 1

    await run_bulk_embedding(base, bulk)
    states = [job.state for job in vertex.jobs.values()]
    assert states == ["JOB_STATE_CANCELLED", "JOB_STATE_SUCCEEDED"]
    await assert_all_embedded_once(base, vertex, "Note")
    await assert_no_bulk_files_left(base, storage)


async def test_stored_vectors_are_kept_if_the_files_cannot_be_deleted(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, storage: FakeCloudStorage
) -> None:
    storage.lasting_faults["delete"] = STORAGE_BROKEN
    with pytest.raises(Unavailable):
        await run_bulk_embedding(base, bulk)
    storage.lasting_faults.clear()
    assert (await run_bulk_embedding(base, bulk)).counts == {}
    await assert_all_embedded_once(base, vertex, "Note")
    await assert_no_bulk_files_left(base, storage)


async def test_a_run_that_ends_while_it_reads_the_output_loses_nothing(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, storage: FakeCloudStorage
) -> None:
    report = Report()

    class BudgetUntilOutput(Budget):
        """A budget that is spent when the batch job has written its output."""

        @property
        def spent(self) -> bool:
            return any(name.endswith("predictions.jsonl") for name in storage.list_names("bulk"))

    await embed_in_bulk(bulk, base, BudgetUntilOutput(math.inf), report)
    assert report.counts == {}
    assert not report.finished

    await run_bulk_embedding(base, bulk)
    await assert_all_embedded_once(base, vertex, "Note")
