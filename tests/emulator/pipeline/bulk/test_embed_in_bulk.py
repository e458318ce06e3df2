"""The embed job embeds thousands of pending chunks by one batch job."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from shared.core.settings import Settings
from shared.knowledge.source import Section
from shared.pipeline.embedding.bulk import BulkServices, make_bulk_services
from shared.runtime.job import Report
from tests.support.bulk_embedding import (
    DIMENSION,
    NOTES_PER_SOURCE,
    assert_all_embedded_once,
    assert_nothing_left,
    compute_expected_vector,
    make_source_of_notes,
    read_vectors,
    replace_vector_by_error,
    run_bulk_embedding,
)
from tests.support.clock import NOON
from tests.support.knowledge import ingest_sources
from tests.support.stored_documents import read_chunks_by_text, read_documents

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.runtime.context import Context
    from tests.support.clock import SettableClock
    from tests.support.fakes.cloud_storage import FakeCloudStorage
    from tests.support.fakes.vertex_batch import FakeVertexBatch

    Rewrite = Callable[[list[bytes]], list[bytes]]

pytestmark = pytest.mark.anyio


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
    await assert_nothing_left(base, storage)


async def test_what_is_embedded_in_bulk_goes_on_as_if_embedded_alone(
    base: Context, bulk: BulkServices
) -> None:
    await run_bulk_embedding(base, bulk)
    for data in (await read_documents(base, "chunks")).values():
        assert data["embedding_model"] == "gemini-embedding-001"
        assert math.hypot(*data["embedding"]) == pytest.approx(1)
        assert set(data["pending"]) == {"index", "card", "extract", "cluster"}


async def test_a_few_passages_are_embedded_one_by_one(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch
) -> None:
    report = await run_bulk_embedding(base, replace(bulk, min_passages=NOTES_PER_SOURCE + 1))
    assert report.counts == {"embedded": NOTES_PER_SOURCE}
    assert len(vertex.jobs) == 0
    assert len(vertex.embedded) == NOTES_PER_SOURCE


async def test_a_run_with_nothing_to_do_costs_three_reads(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch
) -> None:
    await run_bulk_embedding(base, bulk)
    before = base.meter.documents_read
    assert await run_bulk_embedding(base, bulk) == Report()
    assert base.meter.documents_read - before == 3
    assert len(vertex.jobs) == 1


async def test_a_run_whose_time_ends_leaves_the_job_to_the_next(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, storage: FakeCloudStorage
) -> None:
    vertex.polls_until_end = 3
    for _ in range(2):
        report = await run_bulk_embedding(base, replace(bulk, poll_seconds=120))
        assert report.counts == {}
        assert not report.finished
        assert report.note == f"A batch job for {NOTES_PER_SOURCE} passages is under way."
    assert (await run_bulk_embedding(base, replace(bulk, poll_seconds=120))).counts == {
        "embedded": NOTES_PER_SOURCE
    }
    await assert_all_embedded_once(base, vertex, "Note")
    await assert_nothing_left(base, storage)


async def test_what_comes_while_a_job_is_under_way_is_embedded_at_once(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, clock: SettableClock
) -> None:
    vertex.polls_until_end = 2
    await run_bulk_embedding(base, replace(bulk, poll_seconds=120))
    clock.now += timedelta(minutes=15)
    await ingest_sources(base, make_source_of_notes("Late"))
    report = await run_bulk_embedding(base, bulk)
    assert report.counts == {"embedded": 2 * NOTES_PER_SOURCE}
    assert len(vertex.embedded) == NOTES_PER_SOURCE
    await assert_all_embedded_once(base, vertex, "Note", "Late")


async def test_a_note_edited_meanwhile_gets_the_vector_of_its_new_text(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch, clock: SettableClock
) -> None:
    vertex.polls_until_end = 2
    await run_bulk_embedding(base, replace(bulk, poll_seconds=120))
    clock.now += timedelta(minutes=15)
    sections = (Section("Note 0, edited."), *make_source_of_notes("Note").sections[1:])
    await ingest_sources(base, replace(make_source_of_notes("Note"), sections=sections))
    await run_bulk_embedding(base, bulk)
    vectors = await read_vectors(base)
    assert vectors["Note 0, edited."] == pytest.approx(compute_expected_vector("Note 0, edited."))
    assert len(vectors) == NOTES_PER_SOURCE
    assert vertex.embedded == ["Notes Note 0, edited."]


async def test_a_deleted_note_stays_deleted(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch
) -> None:
    vertex.polls_until_end = 2
    await run_bulk_embedding(base, replace(bulk, poll_seconds=120))
    await ingest_sources(base, replace(make_source_of_notes("Note"), sections=()))
    await run_bulk_embedding(base, bulk)
    assert not any("embedding" in data for data in (await read_documents(base, "chunks")).values())


async def test_what_is_too_much_for_one_job_is_left_to_the_next(
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
    def refusing(lines: list[bytes]) -> list[bytes]:
        return [replace_vector_by_error(line) if b"Note 3." in line else line for line in lines]

    vertex.rewrite = refusing
    report = await run_bulk_embedding(base, bulk)
    reason = "INTERNAL_ERROR: The batch job returned no usable vector for this text."
    assert [failure.reason for failure in report.failures] == [reason]
    odd = (await read_chunks_by_text(base))["Note 3."]
    assert odd["tries"] == {"embed": 1}
    assert odd["pending"]["embed"] == NOON + timedelta(minutes=2)
    clock.now += timedelta(minutes=2)
    assert (await run_bulk_embedding(base, bulk)).counts == {"embedded": 1}
    assert vertex.embedded == ["Notes Note 3."]


def halved(lines: list[bytes]) -> list[bytes]:
    return [*lines[1:], b"{", b"null", lines[0][: len(lines[0]) // 2]]


def with_one_too_short(lines: list[bytes]) -> list[bytes]:
    answer = json.loads(lines[0])
    answer["response"]["embedding"]["values"].pop()
    return [json.dumps(answer).encode(), *lines[1:]]


@pytest.mark.parametrize(
    ("rewrite", "counts"),
    [
        (lambda lines: lines[1:], {"embedded": NOTES_PER_SOURCE}),
        (halved, {"embedded": NOTES_PER_SOURCE, "unreadable": 3}),
        (lambda lines: [*lines, *lines], {"embedded": NOTES_PER_SOURCE}),
        (
            lambda lines: [*lines, b'{"key": "of:nobody", "response": {}}'],
            {"embedded": NOTES_PER_SOURCE},
        ),
    ],
    ids=["a row is missing", "half a row", "rows come twice", "rows of nobody"],
)
async def test_what_a_job_leaves_out_is_embedded_after_it(
    base: Context,
    bulk: BulkServices,
    vertex: FakeVertexBatch,
    rewrite: Rewrite,
    counts: dict[str, int],
) -> None:
    vertex.rewrite = rewrite
    report = await run_bulk_embedding(base, bulk)
    assert counts == report.counts
    assert report.failures == []
    assert len(await read_vectors(base)) == NOTES_PER_SOURCE


async def test_a_vector_of_another_length_is_refused(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch
) -> None:
    vertex.rewrite = with_one_too_short
    report = await run_bulk_embedding(base, bulk)
    assert report.counts == {"embedded": NOTES_PER_SOURCE - 1}
    assert len(report.failures) == 1


async def test_vectors_longer_than_asked_for_are_cut(
    base: Context, bulk: BulkServices, vertex: FakeVertexBatch
) -> None:
    vertex.dimension = 3 * DIMENSION
    await run_bulk_embedding(base, bulk)
    assert set(map(len, (await read_vectors(base)).values())) == {DIMENSION}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"bulk_bucket": None}, False),
        ({"embedding_provider": "local"}, False),
        ({"vertex_model": "text-embedding-005"}, False),
    ],
)
def test_bulk_needs_a_bucket_and_a_model_that_it_knows(
    changed: dict[str, Any], *, expected: bool
) -> None:
    vertex = {"embedding_provider": "vertex", "bulk_bucket": "gs://bulk/work"}
    assert (make_bulk_services(Settings(**vertex | changed)) is not None) == expected
