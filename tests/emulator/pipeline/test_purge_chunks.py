"""Purge deletes chunks that should be gone, and no chunk that may be on its way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from functions.jobs.index.job import index
from functions.jobs.purge.job import purge
from functions.jobs.purge.sweep import EVERY
from functions.jobs.repair.job import repair
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Section, Source
from shared.pipeline.orphaned_chunks import PAGE, SETTLED
from shared.runtime.job import Report
from tests.support.clock import SettableClock
from tests.support.commit_hooks import WatchedBackend, before
from tests.support.fakes.embedder import WordEmbedder
from tests.support.index_lists import NOON, assert_exact
from tests.support.knowledge import BAKING, SAILING, in_chunks, write
from tests.support.stored_documents import ample, chunks, documents, nothing, tombstones
from tests.support.workspaces import of_job

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.runtime.context import Backend, Deps

pytestmark = pytest.mark.anyio

SOON = SETTLED + timedelta(seconds=1)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOON)


@pytest.fixture
def deps(backend: Backend) -> Deps:
    return of_job(backend)


async def save(deps: Deps, *sources: Source) -> None:
    """Bring sources in at noon, and index them."""
    await Ingestion(deps.database).save([in_chunks(each) for each in sources], NOON)
    await index(deps, ample())


async def lose(deps: Deps, path: str) -> None:
    """Let a document vanish, as nothing of ours does."""
    await deps.database.client.document(path).delete()


async def test_chunks_whose_source_is_gone_leave_the_base(deps: Deps, clock: SettableClock) -> None:
    await save(deps, BAKING, SAILING)
    await lose(deps, "sources/baking")
    clock.now += SOON
    assert Report(Counter(chunks=3)) == await purge(deps, ample())
    assert {"sailing"} == {data["source_id"] for data in (await chunks(deps)).values()}
    await index(deps, ample())
    await assert_exact(deps)


async def test_chunks_whose_source_is_still_to_come_stay(deps: Deps, clock: SettableClock) -> None:
    """Ingest writes the source last, and may have been killed before."""
    await save(deps, BAKING)
    await lose(deps, "sources/baking")
    clock.now += SETTLED
    assert Report() == await purge(deps, ample())
    await save(deps, BAKING)
    clock.now += EVERY
    assert Report() == await purge(deps, ample())
    assert 3 == len(await chunks(deps))


async def test_a_chunk_that_is_brought_in_again_meanwhile_stays(
    settings: Settings, deps: Deps, clock: SettableClock
) -> None:
    await save(deps, BAKING)
    await lose(deps, "sources/baking")
    clock.now += SOON
    [first, *others] = sorted(await chunks(deps))

    async def again() -> None:
        await write(deps, f"chunks/{first}", {"updated_at": clock()})

    raced = WatchedBackend(settings, before(1, again), clock=clock, embedder=WordEmbedder())
    assert Report(Counter(chunks=2)) == await purge(of_job(raced), ample())
    assert ({first}, set(others)) == (set(await chunks(deps)), set(await tombstones(deps)))
    await raced.aclose()


async def test_all_chunks_are_looked_at_once_a_week(
    deps: Deps, backend: Backend, clock: SettableClock
) -> None:
    await save(deps, BAKING)
    assert Report() == await purge(deps, ample())
    await lose(deps, "sources/baking")
    for _ in range(6):
        clock.advance(days=1)
        meter = Meter()
        assert Report() == await purge(backend.deps(Caller(), meter), ample())
        assert (0, True) == (meter.documents_written, meter.documents_read < 20)
    clock.advance(days=1, seconds=1)
    assert Report(Counter(chunks=3)) == await purge(deps, ample())


async def test_a_run_without_time_looks_at_a_page_and_the_next_goes_on(
    deps: Deps, clock: SettableClock
) -> None:
    sections = tuple(Section(f"Number {number}.") for number in range(2 * PAGE + 5))
    await Ingestion(deps.database).save([in_chunks(replace(BAKING, sections=sections))], NOON)
    await lose(deps, "sources/baking")
    clock.now += SOON
    reports = [await purge(deps, nothing()) for _ in range(4)]
    assert [False, False, False, True] == [report.finished for report in reports]
    assert [PAGE, PAGE, 5, 0] == [report.counts["chunks"] for report in reports]
    assert {} == await chunks(deps)
    clock.advance(days=1)
    meter = Meter()
    # What is left of them waits for the index job: it is read, page by page, and left to it.
    assert Report() == await purge(deps, ample())
    assert 0 == meter.documents_written


async def test_what_the_index_job_gave_up_is_forgotten_after_a_week(
    deps: Deps, clock: SettableClock
) -> None:
    await save(deps, BAKING, SAILING)
    await Ingestion(deps.database).save([in_chunks(replace(BAKING, sections=()))], NOON)
    [stuck, *waiting] = sorted(await tombstones(deps))
    given_up = {"pending": {}, "parked": {"index": "was refused"}}
    await deps.database.client.document(f"chunks/{stuck}").update(given_up)
    clock.now += SETTLED
    assert Report() == await purge(deps, ample())
    clock.advance(seconds=1)
    assert Report(Counter(tombstones=1)) == await purge(deps, ample())
    assert set(waiting) == set(await tombstones(deps))
    await index(deps, ample())
    await repair(deps, ample())
    await assert_exact(deps)


async def test_an_empty_base_is_not_written_to(deps: Deps) -> None:
    assert Report() == await purge(deps, ample())
    assert {} == await documents(deps, "meta")
