"""The job `ingest_materials` embeds the texts that calls have deferred."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.jobs.ingest_materials.job import JOB, count_waiting, ingest_materials
from shared.core.caller import Caller
from shared.core.errors import Unavailable
from shared.core.meter import Meter
from shared.runtime.context import App
from shared.runtime.job import AlreadyRunning, Budget, Report, run_job
from shared.workspaces.model import content_id
from shared.workspaces.repository import DocumentErased, Workspace
from tests.support.commit_hooks import WatchedApp, call_after
from tests.support.fakes.openai import HANG, FakeOpenAI, Reply, make_error_reply
from tests.support.jobs import make_ample_budget
from tests.support.materials import STRANGER, extract_error, extract_result
from tests.support.stored_documents import read_leased_jobs
from tests.support.stored_materials import (
    PARAGRAPH_COUNT,
    QUERY,
    call_extract_with_deadline,
    list_embedded_passages,
    make_openai_settings,
    make_paragraph,
    make_text,
    read_texts_with_vectors,
    read_workspaces,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from shared.runtime.context import Context
    from tests.support.monotonic_clock import MonotonicClock

    Open = Callable[..., App]

pytestmark = pytest.mark.anyio

TEXT: Final = make_text()
ID: Final = content_id(TEXT)
FIRST_BATCH: Final = 32
"""The number of passages in the first batch."""
OK: Final = Reply()


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    """The embedding model."""
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
async def open_app(fake: FakeOpenAI, project: str) -> AsyncIterator[Open]:
    """A function that makes apps with a low limit, so that calls defer the text."""
    apps: list[App] = []

    def make_app(kind: Callable[..., App] = App, *how: Any, **fields: Any) -> App:
        short = {"extract_materials_characters": 500}
        embedder = fields.pop("embedder", None)
        settings = make_openai_settings(fake, project, **(short | fields))
        apps.append(kind(settings, *how, embedder=embedder))
        return apps[-1]

    yield make_app
    for app in apps:
        await app.aclose()


@pytest.fixture
def app(open_app: Open) -> App:
    """The app of calls and runs."""
    return open_app()


def make_job_context(app: App) -> Context:
    """Return the context of a job."""
    return app.context(Caller(), Meter())


def make_budget_of_batches(fake: FakeOpenAI, batches: int) -> Budget:
    """Return a budget that is spent after this many more requests to the model."""
    enough = len(fake.calls) + batches

    class AfterBatches(Budget):
        @property
        def spent(self) -> bool:
            return len(fake.calls) >= enough

    return AfterBatches(math.inf)


async def test_a_deferred_text_is_found_like_an_immediate_one(
    app: App, open_app: Open, project: str
) -> None:
    pending = await extract_result(app, QUERY, materials=TEXT)
    assert (pending["status"], pending["document"]) == ("pending", ID)
    assert await count_waiting(make_job_context(app)) == 1
    report = await run_job(JOB, app)
    assert report == Report(Counter(embedded=PARAGRAPH_COUNT, ready=1))
    assert await count_waiting(make_job_context(app)) == 0
    calm = open_app(google_cloud_project=f"{project}-calm", extract_materials_characters=10**6)
    expected = await extract_result(calm, QUERY, materials=TEXT)
    assert await extract_result(app, QUERY, document=ID) == expected | {"known": True}
    assert await read_workspaces(calm) == await read_workspaces(app)


async def test_a_run_with_nothing_to_do_embeds_nothing(app: App, fake: FakeOpenAI) -> None:
    assert await run_job(JOB, app) == Report()
    assert fake.calls == []


async def test_the_job_embeds_shared_passages_once(app: App, fake: FakeOpenAI) -> None:
    other = f"{TEXT}\n\n{make_paragraph(777)}"
    for text in (TEXT, other):
        await extract_result(app, QUERY, materials=text)
    await extract_result(app, QUERY, caller=STRANGER, materials=TEXT)
    report = await run_job(JOB, app)
    assert isinstance(report, Report)
    assert report.counts == {"embedded": 2 * PARAGRAPH_COUNT + 1, "ready": 3}
    assert len(list_embedded_passages(fake)) == 2 * PARAGRAPH_COUNT + 1


async def test_a_run_out_of_time_leaves_the_rest_to_the_next(app: App, fake: FakeOpenAI) -> None:
    await extract_result(app, QUERY, materials=TEXT)
    first = await ingest_materials(make_job_context(app), make_budget_of_batches(fake, 1))
    assert (first.counts, first.finished) == ({"embedded": FIRST_BATCH}, False)
    assert (await extract_error(app, QUERY, scope="task")).code == "NOT_FOUND"
    second = await ingest_materials(make_job_context(app), make_ample_budget())
    assert second.counts == {"embedded": PARAGRAPH_COUNT - FIRST_BATCH, "ready": 1}
    assert TEXT.split("\n\n") == list_embedded_passages(fake)


@pytest.mark.parametrize(
    "reply",
    [make_error_reply(429, retry_after="60"), make_error_reply(500, retry_after="60"), HANG],
)
async def test_an_outage_ends_a_run_and_the_next_resumes(
    app: App, open_app: Open, fake: FakeOpenAI, reply: Reply, monotonic: MonotonicClock
) -> None:
    await extract_result(app, QUERY, materials=TEXT)
    fake.script.append(OK)
    fake.usual = reply
    fake.on_hang = partial(monotonic.advance_soon, 30)  # as long as embedding may take
    with pytest.raises(Unavailable) as error:
        await run_job(JOB, open_app())
    assert error.value.retry_after
    assert await read_leased_jobs(make_job_context(app)) == set()
    assert (await extract_error(app, QUERY, scope="task")).code == "NOT_FOUND"
    fake.usual, before = OK, len(list_embedded_passages(fake))
    assert {
        make_paragraph(number) for number in range(FIRST_BATCH)
    } == await read_texts_with_vectors(app)
    report = await run_job(JOB, app)
    assert isinstance(report, Report)
    assert report.counts == {"embedded": PARAGRAPH_COUNT - FIRST_BATCH, "ready": 1}
    assert TEXT.split("\n\n")[FIRST_BATCH:] == list_embedded_passages(fake)[before:]


async def test_a_refused_text_fails_and_delays_no_other(app: App, fake: FakeOpenAI) -> None:
    fake.rejected_words = make_paragraph(35)
    await extract_result(app, QUERY, materials=TEXT)
    await extract_result(app, QUERY, materials=make_text(30, first=100))
    report = await run_job(JOB, app)
    start = TEXT.index(fake.rejected_words)
    message = f"characters {start} to {start + len(fake.rejected_words)}"
    assert isinstance(report, Report)
    assert report.counts == {"embedded": 62, "failed": 1, "ready": 1}
    assert [failure.name for failure in report.failures] == [ID]
    assert message in report.failures[0].reason
    for _ in range(2):
        error = await extract_error(app, QUERY, document=ID)
        assert error.code == "VALIDATION_ERROR"
        assert message in error.message
    result = await extract_result(app, QUERY, scope="task")
    assert result["considered"] == 30
    assert await count_waiting(make_job_context(app)) == 0
    fake.rejected_words = ""
    second = await extract_result(app, QUERY, materials=TEXT)
    assert second["status"] == "pending"
    await run_job(JOB, app)
    assert (await extract_result(app, QUERY, document=ID))["status"] == "ready"


async def test_a_refused_text_counts_as_progress(app: App, fake: FakeOpenAI) -> None:
    fake.rejected_words = make_paragraph(35)
    await extract_result(app, QUERY, materials=TEXT)
    await extract_result(app, QUERY, materials=make_text(30, first=100))
    steps: list[int] = []
    await ingest_materials(make_job_context(app), Budget(math.inf, steps.append))
    assert sum(steps) == 2


async def test_a_failing_text_is_deferred_and_delays_no_other(app: App, fake: FakeOpenAI) -> None:
    """The provider sends an invalid answer to one text only."""
    await extract_result(app, QUERY, materials=TEXT)
    await extract_result(app, QUERY, materials=make_text(30, first=100))
    fake.words_without_vector = make_paragraph(35)
    report = await run_job(JOB, app)
    assert isinstance(report, Report)
    assert report.counts == {"embedded": 62, "ready": 1}
    assert [failure.name for failure in report.failures] == [ID]
    assert await count_waiting(make_job_context(app)) == 1
    assert await run_job(JOB, app) == Report()
    fake.words_without_vector = ""
    assert (await extract_result(app, QUERY, document=ID))["status"] == "ready"


async def test_a_text_of_another_model_must_be_uploaded_again(
    app: App, open_app: Open, fake: FakeOpenAI
) -> None:
    await extract_result(app, QUERY, materials=TEXT)
    documents = make_job_context(app).database.collection(
        "users/reader/rag_tasks/default/documents"
    )
    await documents.document(ID).update({"making.model": "words-2"})
    report = await run_job(JOB, app)
    assert isinstance(report, Report)
    assert report.counts == {"arriving": 1}
    assert fake.calls == []
    ready = await extract_result(
        open_app(extract_materials_characters=10**6), QUERY, materials=TEXT
    )
    assert ("ready", make_paragraph(31)) == (ready["status"], ready["contexts"][0])


async def test_a_run_out_of_time_keeps_what_a_call_completed(
    app: App, open_app: Open, fake: FakeOpenAI
) -> None:
    await extract_result(app, QUERY, materials=TEXT)
    answers: list[dict[str, Any]] = []

    async def ask_document() -> None:
        answers.append(await extract_result(app, QUERY, document=ID))

    running = open_app(WatchedApp, call_after(1, ask_document))
    await ingest_materials(make_job_context(running), make_budget_of_batches(fake, 1))
    assert [answer["status"] for answer in answers] == ["ready"]
    result = await extract_result(app, QUERY, scope="task")
    assert answers[0] | {"known": None} == result | {"document": ID, "known": None}


async def test_concurrent_runs_exclude_each_other(app: App, open_app: Open) -> None:
    await extract_result(app, QUERY, materials=TEXT)
    others: list[Report | AlreadyRunning] = []

    async def run() -> None:
        others.append(await run_job(JOB, app))

    await run_job(JOB, open_app(WatchedApp, call_after(2, run)))
    assert [type(extraction) for extraction in others] == [AlreadyRunning]
    assert (await extract_result(app, QUERY, document=ID))["status"] == "ready"


async def test_a_call_and_a_run_embedding_one_text_both_end(app: App, open_app: Open) -> None:
    await extract_result(app, QUERY, materials=TEXT)
    answers: list[Any] = []

    async def ask_document() -> None:
        answers.append((await call_extract_with_deadline(app, document=ID)).result)

    async with asyncio.timeout(60):
        report = await run_job(JOB, open_app(WatchedApp, call_after(2, ask_document)))
    assert isinstance(report, Report)
    assert report.finished
    assert [answer["status"] for answer in answers] == ["ready"]
    assert answers[0] == await extract_result(app, QUERY, document=ID)


async def test_a_partly_erased_document_is_erased_for_writers(
    app: App,
) -> None:
    """Only the document is deleted so far."""
    await extract_result(app, QUERY, materials=TEXT)
    ctx = make_job_context(app)
    workspace = Workspace(ctx.database, "reader", "default")
    document = (await workspace.load_document(ID)).document
    assert document
    await ctx.database.document(f"{workspace.path}/documents", ID).delete()
    # It is no race that was lost: that would be tried again for a while, and be Unavailable.
    with pytest.raises(DocumentErased):
        await workspace.update(document, next_at=None)
