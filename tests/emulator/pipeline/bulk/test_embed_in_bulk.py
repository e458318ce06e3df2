"""The embed job embeds many pending chunks with one batch job of Vertex AI.

A batch job reads the texts from a file in Cloud Storage, and writes the vectors to another. `base`
has twelve pending notes: `Note 0.` to `Note 11.`
"""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from shared.ai import vertex_batch
from shared.core.errors import InvalidInput
from shared.core.settings import Settings
from shared.knowledge.source import Section
from shared.pipeline.embedding.bulk import BulkServices, make_bulk_services
from shared.runtime.context import Context
from shared.runtime.job import Report
from tests.support.bulk_embedding import (
    DIMENSION,
    NOTES_PER_SOURCE,
    assert_all_embedded_once,
    assert_no_bulk_files_left,
    compute_expected_vector,
    make_source_of_notes,
    read_vectors,
    replace_vector_by_error,
    run_bulk_embedding,
)
from tests.support.clock import NOON, SettableClock
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.vertex_batch import FakeVertexBatch
from tests.support.knowledge import ingest_sources
from tests.support.stored_documents import read_chunks_by_text, read_documents, read_tombstones

Rewrite = Callable[[list[bytes]], list[bytes]]
"""Changes the lines of a batch job's output."""


LONGER_THAN_A_RUN: Final = 120
"""A pause between two polls, in seconds. A run of these tests lasts up to 60 seconds."""


async def test_many_passages_are_embedded_by_one_job(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, storage: FakeCloudStorage
) -> None:
    report = await run_bulk_embedding(base, bulk)
    assert report.counts == {"embedded": NOTES_PER_SOURCE}
    assert report.failures == []
    assert report.finished
    assert len(vertex.jobs) == 1
    assert vertex.embedded == []
    await assert_all_embedded_once(base, vertex, "Note")
    await assert_no_bulk_files_left(base, storage)
    for data in (await read_documents(base, "chunks")).values():
        assert data["embedding_model"] == "gemini-embedding-001"
        assert math.hypot(*data["embedding"]) == pytest.approx(1)
        assert set(data["pending"]) == {"index", "card", "extract", "cluster"}

    reads_before = base.meter.documents_read
    assert await run_bulk_embedding(base, bulk) == Report()
    assert base.meter.documents_read - reads_before == 3
    assert len(vertex.jobs) == 1


async def test_a_few_passages_are_embedded_one_by_one(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch
) -> None:
    report = await run_bulk_embedding(base, replace(bulk, min_passages=NOTES_PER_SOURCE + 1))
    assert report.counts == {"embedded": NOTES_PER_SOURCE}
    assert len(vertex.jobs) == 0
    assert len(vertex.embedded) == NOTES_PER_SOURCE


async def test_a_run_whose_time_ends_leaves_the_job_to_the_next(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, storage: FakeCloudStorage
) -> None:
    vertex.polls_until_end = 3
    polls_once = replace(bulk, poll_seconds=LONGER_THAN_A_RUN)

    for _ in range(2):
        report = await run_bulk_embedding(base, polls_once)
        assert report.counts == {}
        assert not report.finished
        assert report.note == f"A batch job for {NOTES_PER_SOURCE} passages is under way."

    report = await run_bulk_embedding(base, polls_once)
    assert report.counts == {"embedded": NOTES_PER_SOURCE}
    await assert_all_embedded_once(base, vertex, "Note")
    await assert_no_bulk_files_left(base, storage)


async def test_notes_added_while_a_job_runs_are_embedded_one_by_one(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, clock: SettableClock
) -> None:
    vertex.polls_until_end = 2
    await run_bulk_embedding(base, replace(bulk, poll_seconds=LONGER_THAN_A_RUN))
    clock.now += timedelta(minutes=15)
    await ingest_sources(base, make_source_of_notes("Late"))
    report = await run_bulk_embedding(base, bulk)
    assert report.counts == {"embedded": 2 * NOTES_PER_SOURCE}
    assert len(vertex.embedded) == NOTES_PER_SOURCE
    await assert_all_embedded_once(base, vertex, "Note", "Late")


async def test_a_note_edited_while_a_job_runs_gets_its_new_vector(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, clock: SettableClock
) -> None:
    """A note that is deleted meanwhile gets none."""
    vertex.polls_until_end = 2
    await run_bulk_embedding(base, replace(bulk, poll_seconds=LONGER_THAN_A_RUN))
    clock.now += timedelta(minutes=15)
    sections = (Section("Note 0, edited."), *make_source_of_notes("Note").sections[2:])
    await ingest_sources(base, replace(make_source_of_notes("Note"), sections=sections))
    await run_bulk_embedding(base, bulk)
    vectors = await read_vectors(base)
    assert vectors["Note 0, edited."] == pytest.approx(compute_expected_vector("Note 0, edited."))
    assert len(vectors) == NOTES_PER_SOURCE - 1
    assert vertex.embedded == ["Notes Note 0, edited."]
    assert not any("embedding" in data for data in (await read_tombstones(base)).values())


async def test_notes_beyond_the_limit_of_a_job_are_left_to_the_next(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, clock: SettableClock
) -> None:
    clock.now += timedelta(minutes=1)
    await ingest_sources(base, make_source_of_notes("Late"))
    await run_bulk_embedding(base, replace(bulk, max_rows=NOTES_PER_SOURCE))
    assert [len(job.texts) for job in vertex.jobs.values()] == [NOTES_PER_SOURCE, NOTES_PER_SOURCE]
    await assert_all_embedded_once(base, vertex, "Note", "Late")


async def test_texts_without_a_vector_are_deferred_and_tried_alone(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, clock: SettableClock
) -> None:
    """One of the texts has an error, another a vector that is too short."""

    def refuse_two(lines: list[bytes]) -> list[bytes]:
        lines = [replace_vector_by_error(line) if b"Note 3." in line else line for line in lines]
        return [shorten_vector(line) if b"Note 4." in line else line for line in lines]

    vertex.rewrite = refuse_two

    report = await run_bulk_embedding(base, bulk)
    reason = "INTERNAL_ERROR: The batch job returned no usable vector for this text."
    assert [failure.reason for failure in report.failures] == [reason] * 2
    assert report.counts == {"embedded": NOTES_PER_SOURCE - 2}
    refused_chunk = (await read_chunks_by_text(base))["Note 3."]
    assert refused_chunk["tries"] == {"embed": 1}
    assert refused_chunk["pending"]["embed"] == NOON + timedelta(minutes=2)

    clock.now += timedelta(minutes=2)
    assert (await run_bulk_embedding(base, bulk)).counts == {"embedded": 2}
    assert sorted(vertex.embedded) == ["Notes Note 3.", "Notes Note 4."]


def damage_one_line(lines: list[bytes]) -> list[bytes]:
    """Cut the first line in half, and add two other lines that are not valid."""
    return [*lines[1:], b"{", b"null", lines[0][: len(lines[0]) // 2]]


def shorten_vector(line: bytes) -> bytes:
    """Remove the last number of a vector."""
    answer = json.loads(line)
    answer["response"]["embedding"]["values"].pop()
    return json.dumps(answer).encode()


@pytest.mark.parametrize(
    ("rewrite", "counts"),
    [
        (lambda lines: lines[1:], {"embedded": NOTES_PER_SOURCE}),
        (damage_one_line, {"embedded": NOTES_PER_SOURCE, "unreadable": 3}),
        (lambda lines: [*lines, *lines], {"embedded": NOTES_PER_SOURCE}),
        (
            lambda lines: [*lines, b'{"key": "of:nobody", "response": {}}'],
            {"embedded": NOTES_PER_SOURCE},
        ),
    ],
    ids=["missing line", "damaged line", "repeated lines", "line of an unknown chunk"],
)
async def test_notes_missing_from_the_output_are_embedded_afterwards(
    base: Context,
    bulk: BulkServices,
    vertex: FakeVertexBatch,
    rewrite: Rewrite,
    counts: dict[str, int],
) -> None:
    vertex.rewrite = rewrite
    report = await run_bulk_embedding(base, bulk)
    assert report.counts == counts
    assert report.failures == []
    assert len(await read_vectors(base)) == NOTES_PER_SOURCE


async def test_vectors_longer_than_requested_are_cut(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch
) -> None:
    vertex.dimension = 3 * DIMENSION
    await run_bulk_embedding(base, bulk)
    assert set(map(len, (await read_vectors(base)).values())) == {DIMENSION}


async def test_a_missing_package_is_named(
    base: Context, bulk: BulkServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vertex_batch, "find_spec", lambda _: None)
    with pytest.raises(InvalidInput, match="run `pip install google-cloud-aiplatform`"):
        await run_bulk_embedding(base, bulk)


@pytest.mark.parametrize(
    ("changes", "is_available"),
    [
        ({}, True),
        ({"bulk_bucket": None}, False),
        ({"embedding_provider": "local"}, False),
        ({"embedding_model": "text-embedding-005"}, False),
    ],
)
def test_bulk_embedding_needs_a_bucket_and_a_known_model(
    changes: dict[str, Any], *, is_available: bool
) -> None:
    fields = {"embedding_provider": "vertex", "bulk_bucket": "gs://bulk/work"} | changes
    assert (make_bulk_services(Settings(**fields)) is not None) == is_available
