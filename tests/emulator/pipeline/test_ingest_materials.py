"""`ingest_materials` embeds what calls had no time for, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.jobs.ingest_materials.job import JOB, ingest_materials, waiting
from shared.core.caller import Caller
from shared.core.errors import Unavailable
from shared.core.meter import Meter
from shared.runtime.context import Backend
from shared.runtime.job import Budget, Busy, Report, run_job
from shared.workspaces.model import id_of
from shared.workspaces.repository import Erased, Materials
from tests.support.commit_hooks import WatchedBackend, after
from tests.support.fakes.openai import HANG, FakeOpenAI, Reply, refusal
from tests.support.materials import STRANGER, extracted, refused
from tests.support.stored_documents import ample, leases
from tests.support.stored_materials import (
    PARAGRAPHS,
    QUERY,
    asked,
    contents,
    embedded,
    pages,
    paragraph,
    settings_with,
    with_vectors,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from shared.runtime.context import Deps
    from tests.support.monotonic_clock import Monotonic

    Open = Callable[..., Backend]

pytestmark = pytest.mark.anyio

TEXT: Final = pages()
ID: Final = id_of(TEXT)
FIRST: Final = 32
"""Passages of the first batch."""
WELL: Final = Reply()


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    """The embedding model."""
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
async def opened(fake: FakeOpenAI, project: str) -> AsyncIterator[Open]:
    """Opens processes for whose calls materials are soon too long."""
    backends: list[Backend] = []

    def open_one(kind: Callable[..., Backend] = Backend, *how: Any, **fields: Any) -> Backend:
        short = {"extract_materials_characters": 500}
        embedder = fields.pop("embedder", None)
        settings = settings_with(fake, project, **(short | fields))
        backends.append(kind(settings, *how, embedder=embedder))
        return backends[-1]

    yield open_one
    for each in backends:
        await each.aclose()


@pytest.fixture
def backend(opened: Open) -> Backend:
    """The process that calls and runs come to."""
    return opened()


def without_caller(backend: Backend) -> Deps:
    """The capabilities of a run."""
    return backend.deps(Caller(), Meter())


def after_batches(fake: FakeOpenAI, batches: int) -> Budget:
    """A budget that is spent when the model has been asked so often from now on."""
    enough = len(fake.calls) + batches

    class AfterBatches(Budget):
        @property
        def spent(self) -> bool:
            return len(fake.calls) >= enough

    return AfterBatches(math.inf)


async def test_what_waited_is_found_as_if_it_had_been_embedded_at_once(
    backend: Backend, opened: Open, project: str
) -> None:
    pending = await extracted(backend, QUERY, materials=TEXT)
    assert ("pending", ID) == (pending["status"], pending["document"])
    assert 1 == await waiting(without_caller(backend))
    report = await run_job(JOB, backend)
    assert Report(Counter(embedded=PARAGRAPHS, ready=1)) == report
    assert 0 == await waiting(without_caller(backend))
    calm = opened(google_cloud_project=f"{project}-calm", extract_materials_characters=10**6)
    expected = await extracted(calm, QUERY, materials=TEXT)
    assert expected | {"known": True} == await extracted(backend, QUERY, document=ID)
    assert await contents(calm) == await contents(backend)


async def test_a_run_with_nothing_to_do_asks_the_model_nothing(
    backend: Backend, fake: FakeOpenAI
) -> None:
    assert Report() == await run_job(JOB, backend)
    assert [] == fake.calls


async def test_passages_that_several_materials_share_are_embedded_once(
    backend: Backend, fake: FakeOpenAI
) -> None:
    other = f"{TEXT}\n\n{paragraph(777)}"
    for text in (TEXT, other):
        await extracted(backend, QUERY, materials=text)
    await extracted(backend, QUERY, caller=STRANGER, materials=TEXT)
    report = await run_job(JOB, backend)
    assert isinstance(report, Report)
    assert {"embedded": 2 * PARAGRAPHS + 1, "ready": 3} == report.counts
    assert 2 * PARAGRAPHS + 1 == len(embedded(fake))


async def test_a_run_that_is_out_of_time_leaves_the_rest_to_the_next(
    backend: Backend, fake: FakeOpenAI
) -> None:
    await extracted(backend, QUERY, materials=TEXT)
    first = await ingest_materials(without_caller(backend), after_batches(fake, 1))
    assert ({"embedded": FIRST}, False) == (first.counts, first.finished)
    assert "NOT_FOUND" == (await refused(backend, QUERY, scope="task")).code
    second = await ingest_materials(without_caller(backend), ample())
    assert {"embedded": PARAGRAPHS - FIRST, "ready": 1} == second.counts
    assert TEXT.split("\n\n") == embedded(fake)


@pytest.mark.parametrize(
    "reply", [refusal(429, retry_after="60"), refusal(500, retry_after="60"), HANG]
)
async def test_a_model_that_is_down_stops_a_run_and_the_next_goes_on(
    backend: Backend, opened: Open, fake: FakeOpenAI, reply: Reply, monotonic: Monotonic
) -> None:
    await extracted(backend, QUERY, materials=TEXT)
    fake.script.append(WELL)
    fake.usual = reply
    fake.on_hang = partial(monotonic.turn_soon, 30)  # as long as embedding may take
    with pytest.raises(Unavailable) as error:
        await run_job(JOB, opened())
    assert error.value.retry_after
    assert set() == await leases(without_caller(backend))
    assert "NOT_FOUND" == (await refused(backend, QUERY, scope="task")).code
    fake.usual, before = WELL, len(embedded(fake))
    assert {paragraph(number) for number in range(FIRST)} == await with_vectors(backend)
    report = await run_job(JOB, backend)
    assert isinstance(report, Report)
    assert {"embedded": PARAGRAPHS - FIRST, "ready": 1} == report.counts
    assert TEXT.split("\n\n")[FIRST:] == embedded(fake)[before:]


async def test_materials_the_model_refuses_fail_and_hold_up_nobody(
    backend: Backend, fake: FakeOpenAI
) -> None:
    fake.refuses = paragraph(35)
    await extracted(backend, QUERY, materials=TEXT)
    await extracted(backend, QUERY, materials=pages(30, first=100))
    report = await run_job(JOB, backend)
    start = TEXT.index(fake.refuses)
    told = f"characters {start} to {start + len(fake.refuses)}"
    assert isinstance(report, Report)
    assert {"embedded": 62, "failed": 1, "ready": 1} == report.counts
    assert [ID] == [each.name for each in report.failures]
    assert told in report.failures[0].reason
    for _ in range(2):
        error = await refused(backend, QUERY, document=ID)
        assert "VALIDATION_ERROR" == error.code
        assert told in error.message
    found = await extracted(backend, QUERY, scope="task")
    assert 30 == found["considered"]
    assert 0 == await waiting(without_caller(backend))
    fake.refuses = ""
    again = await extracted(backend, QUERY, materials=TEXT)
    assert "pending" == again["status"]
    await run_job(JOB, backend)
    assert "ready" == (await extracted(backend, QUERY, document=ID))["status"]


async def test_what_fails_otherwise_is_put_off_and_delays_nobody(
    backend: Backend, fake: FakeOpenAI
) -> None:
    """An endpoint that answers nonsense to one text alone."""
    await extracted(backend, QUERY, materials=TEXT)
    await extracted(backend, QUERY, materials=pages(30, first=100))
    fake.nonsense_for = paragraph(35)
    report = await run_job(JOB, backend)
    assert isinstance(report, Report)
    assert {"embedded": 62, "ready": 1} == report.counts
    assert [ID] == [each.name for each in report.failures]
    assert 1 == await waiting(without_caller(backend))
    assert Report() == await run_job(JOB, backend)
    fake.nonsense_for = ""
    assert "ready" == (await extracted(backend, QUERY, document=ID))["status"]


async def test_materials_of_another_model_wait_to_be_brought_again(
    backend: Backend, opened: Open, fake: FakeOpenAI
) -> None:
    await extracted(backend, QUERY, materials=TEXT)
    documents = without_caller(backend).database.collection(
        "users/reader/rag_tasks/default/documents"
    )
    await documents.document(ID).update({"making.model": "words-2"})
    report = await run_job(JOB, backend)
    assert isinstance(report, Report)
    assert {"arriving": 1} == report.counts
    assert [] == fake.calls
    ready = await extracted(opened(extract_materials_characters=10**6), QUERY, materials=TEXT)
    assert ("ready", paragraph(31)) == (ready["status"], ready["contexts"][0])


async def test_a_run_out_of_time_takes_back_nothing_a_call_completed(
    backend: Backend, opened: Open, fake: FakeOpenAI
) -> None:
    await extracted(backend, QUERY, materials=TEXT)
    answers: list[dict[str, Any]] = []

    async def ask() -> None:
        answers.append(await extracted(backend, QUERY, document=ID))

    running = opened(WatchedBackend, after(1, ask))
    await ingest_materials(without_caller(running), after_batches(fake, 1))
    assert ["ready"] == [each["status"] for each in answers]
    found = await extracted(backend, QUERY, scope="task")
    assert answers[0] | {"known": None} == found | {"document": ID, "known": None}


async def test_two_runs_at_once_are_one(backend: Backend, opened: Open) -> None:
    await extracted(backend, QUERY, materials=TEXT)
    others: list[Report | Busy] = []

    async def run() -> None:
        others.append(await run_job(JOB, backend))

    await run_job(JOB, opened(WatchedBackend, after(2, run)))
    assert [Busy] == [type(each) for each in others]
    assert "ready" == (await extracted(backend, QUERY, document=ID))["status"]


async def test_a_call_and_a_run_embedding_the_same_both_end(backend: Backend, opened: Open) -> None:
    await extracted(backend, QUERY, materials=TEXT)
    answers: list[Any] = []

    async def ask() -> None:
        answers.append((await asked(backend, document=ID)).result)

    async with asyncio.timeout(60):
        report = await run_job(JOB, opened(WatchedBackend, after(2, ask)))
    assert isinstance(report, Report)
    assert report.finished
    assert ["ready"] == [each["status"] for each in answers]
    assert answers[0] == await extracted(backend, QUERY, document=ID)


async def test_what_is_half_erased_is_gone_to_whoever_stores(
    backend: Backend,
) -> None:
    """The document is gone, and nothing else yet."""
    await extracted(backend, QUERY, materials=TEXT)
    deps = without_caller(backend)
    store = Materials(deps.database, "reader", "default")
    material = (await store.look(ID)).material
    assert material
    await deps.database.document(f"{store.path}/documents", ID).delete()
    # It is no race that was lost: that would be tried again for a while, and be Unavailable.
    with pytest.raises(Erased):
        await store.change(material, next_at=None)
