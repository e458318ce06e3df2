"""The job `ingest_materials` embeds texts that were too long for a call of `extract_key_info`.

Such a call answers `pending`, and stores the text in the workspace of its user. A text is split
into passages, which are embedded in batches.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest

from functions.jobs.ingest_materials.job import JOB, count_waiting, ingest_materials
from shared.core.dates import Clock, utc_now
from shared.core.errors import Unavailable
from shared.firestore.documents import Reference
from shared.firestore.writes import Update
from shared.runtime.context import App
from shared.runtime.job import Budget, Report, run_job
from shared.workspaces.model import content_id
from shared.workspaces.repository import DocumentErased, Workspace
from tests.support.clock import SettableClock
from tests.support.commit_hooks import CommitHook, WatchedApp, call_after_commit, send_commit
from tests.support.fakes.openai import HANG, FakeOpenAI, Reply, make_error_reply
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.materials import STRANGER, extract_error, extract_result
from tests.support.monotonic_clock import MonotonicClock
from tests.support.stored_documents import read_leased_jobs
from tests.support.stored_materials import (
    PARAGRAPH_COUNT,
    PART_SIZE,
    QUERY,
    call_extract_with_deadline,
    list_embedded_passages,
    make_openai_settings,
    make_paragraph,
    make_text,
    read_workspaces,
)

OpenApp = Callable[..., App]

TEXT: Final = make_text()
DOCUMENT_ID: Final = content_id(TEXT)
SUCCESS: Final = Reply()


AT_ONCE: Final = {"extract_materials_characters": 10**6}
"""Settings with which a call embeds a long text itself."""


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    """The embedding model."""
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
async def open_app(fake: FakeOpenAI, project: str) -> AsyncIterator[OpenApp]:
    """Opens apps in which calls defer texts of more than 500 characters to the job.

    It takes the hook of a `WatchedApp`, if any, and fields of the settings.
    """
    apps: list[App] = []

    def make_app(hook: CommitHook = send_commit, clock: Clock = utc_now, **fields: Any) -> App:
        fields = {"extract_materials_characters": 500} | fields
        settings = make_openai_settings(fake, project, **fields)
        apps.append(WatchedApp(settings, hook, clock=clock))
        return apps[-1]

    yield make_app
    for app in apps:
        await app.aclose()


@pytest.fixture
def app(open_app: OpenApp) -> App:
    """An app in which calls are made and the job runs."""
    return open_app()


def make_budget_of_batches(fake: FakeOpenAI, batches: int) -> Budget:
    """Return a budget that is spent after this many more requests to the model."""
    max_calls = len(fake.calls) + batches

    class BudgetOfBatches(Budget):
        @property
        def spent(self) -> bool:
            return len(fake.calls) >= max_calls

    return BudgetOfBatches(math.inf)


@pytest.mark.requirement("001-A7")
async def test_a_deferred_text_is_found_like_an_immediate_one(
    app: App, open_app: OpenApp, project: str
) -> None:
    pending = await extract_result(app, QUERY, materials=TEXT)
    assert pending["status"] == "pending"
    assert pending["document"] == DOCUMENT_ID
    assert await count_waiting(make_job_context(app)) == 1

    report = await run_job(JOB, app)
    assert report == Report(Counter(embedded=PARAGRAPH_COUNT, ready=1))
    assert await run_job(JOB, app) == Report()
    assert await count_waiting(make_job_context(app)) == 0

    other_app = open_app(google_cloud_project=f"{project}-immediate", **AT_ONCE)
    immediate = await extract_result(other_app, QUERY, materials=TEXT)
    assert await extract_result(app, QUERY, document=DOCUMENT_ID) == immediate | {"known": True}
    assert await read_workspaces(app) == await read_workspaces(other_app)


async def test_passages_shared_by_texts_of_a_workspace_are_embedded_once(
    app: App, fake: FakeOpenAI
) -> None:
    """Another user's workspace shares nothing."""
    longer_text = f"{TEXT}\n\n{make_paragraph(777)}"
    for text in (TEXT, longer_text):
        await extract_result(app, QUERY, materials=text)
    await extract_result(app, QUERY, caller=STRANGER, materials=TEXT)
    of_reader, of_stranger = PARAGRAPH_COUNT + 1, PARAGRAPH_COUNT

    report = await run_job(JOB, app)

    assert isinstance(report, Report)
    assert report.counts["ready"] == 3
    assert len(list_embedded_passages(fake)) == of_reader + of_stranger


async def test_a_run_out_of_time_leaves_the_rest_to_the_next(app: App, fake: FakeOpenAI) -> None:
    await extract_result(app, QUERY, materials=TEXT)

    report = await ingest_materials(make_job_context(app), make_budget_of_batches(fake, 1))
    assert report.counts == {"embedded": PART_SIZE}
    assert not report.finished
    assert (await extract_error(app, QUERY, scope="task")).code == "NOT_FOUND"

    report = await ingest_materials(make_job_context(app), make_ample_budget())
    assert report.counts == {"embedded": PARAGRAPH_COUNT - PART_SIZE, "ready": 1}
    assert TEXT.split("\n\n") == list_embedded_passages(fake)


@pytest.mark.parametrize(
    "reply",
    [make_error_reply(429, retry_after="60"), make_error_reply(500, retry_after="60"), HANG],
)
async def test_an_outage_ends_a_run_and_the_next_resumes(
    app: App, open_app: OpenApp, fake: FakeOpenAI, reply: Reply, monotonic: MonotonicClock
) -> None:
    """The first part succeeds, and all later requests fail."""
    await extract_result(app, QUERY, materials=TEXT)
    fake.script.extend([SUCCESS, SUCCESS])
    fake.usual = reply
    fake.on_hang = partial(monotonic.advance_soon, 30)  # as long as embedding may take

    with pytest.raises(Unavailable) as error:
        await run_job(JOB, open_app())
    assert error.value.retry_after
    assert await read_leased_jobs(make_job_context(app)) == set()
    assert (await extract_error(app, QUERY, scope="task")).code == "NOT_FOUND"

    fake.usual = SUCCESS
    count_before = len(list_embedded_passages(fake))
    report = await run_job(JOB, app)
    assert isinstance(report, Report)
    assert report.counts == {"embedded": PARAGRAPH_COUNT - PART_SIZE, "ready": 1}
    assert list_embedded_passages(fake)[count_before:] == TEXT.split("\n\n")[PART_SIZE:]


async def test_a_text_that_the_model_refuses_fails_and_delays_no_other(
    app: App, fake: FakeOpenAI
) -> None:
    """The model refuses a passage of the second part; an upload of the text tries again."""
    refused_passage = make_paragraph(70)
    fake.rejected_words = refused_passage
    await extract_result(app, QUERY, materials=TEXT)
    await extract_result(app, QUERY, materials=make_text(30, first=100))

    steps: list[int] = []
    report = await ingest_materials(make_job_context(app), Budget(math.inf, steps.append))

    assert sum(steps) == 2
    start = TEXT.index(refused_passage)
    message = f"characters {start} to {start + len(refused_passage)}"
    assert report.counts == {"embedded": 30, "failed": 1, "ready": 1}
    assert [failure.name for failure in report.failures] == [DOCUMENT_ID]
    assert message in report.failures[0].reason
    for _ in range(2):
        error = await extract_error(app, QUERY, document=DOCUMENT_ID)
        assert error.code == "VALIDATION_ERROR"
        assert message in error.message
    out = await extract_result(app, QUERY, scope="task")
    assert out["considered"] == 30
    assert await count_waiting(make_job_context(app)) == 0

    fake.rejected_words = ""
    out = await extract_result(app, QUERY, materials=TEXT)
    assert out["status"] == "pending"
    await run_job(JOB, app)
    assert (await extract_result(app, QUERY, document=DOCUMENT_ID))["status"] == "ready"


async def test_a_failing_text_is_deferred_and_delays_no_other(
    open_app: OpenApp, fake: FakeOpenAI, clock: SettableClock
) -> None:
    """The provider sends an invalid answer to one text only."""
    app = open_app(clock=clock)
    await extract_result(app, QUERY, materials=TEXT)
    await extract_result(app, QUERY, materials=make_text(30, first=100))
    fake.words_without_vector = make_paragraph(70)

    report = await run_job(JOB, app)

    assert isinstance(report, Report)
    assert report.counts == {"embedded": 30, "ready": 1}
    assert [failure.name for failure in report.failures] == [DOCUMENT_ID]
    assert await count_waiting(make_job_context(app)) == 1
    assert await run_job(JOB, app) == Report()

    fake.words_without_vector = ""
    clock.advance(minutes=2)
    assert (await extract_result(app, QUERY, document=DOCUMENT_ID))["status"] == "ready"


async def test_a_text_of_another_model_must_be_uploaded_again(
    app: App, open_app: OpenApp, fake: FakeOpenAI
) -> None:
    """The text was to be embedded with a model that the settings no longer name."""
    await extract_result(app, QUERY, materials=TEXT)
    document = Reference("users/reader/rag_tasks/default/documents", DOCUMENT_ID)
    change = Update(document, {"profile.model": "words-2"})
    await make_job_context(app).database.commit([change])

    report = await run_job(JOB, app)

    assert isinstance(report, Report)
    assert report.counts == {"arriving": 1}
    assert fake.calls == []
    out = await extract_result(open_app(**AT_ONCE), QUERY, materials=TEXT)
    assert out["status"] == "ready"
    assert out["contexts"][0] == make_paragraph(31)


async def test_vectors_of_the_configured_model_are_kept(app: App, fake: FakeOpenAI) -> None:
    """The text waited for another model, to which the base was not migrated in the end."""
    await extract_result(app, QUERY, materials=TEXT)
    await run_job(JOB, app)
    document = Reference("users/reader/rag_tasks/default/documents", DOCUMENT_ID)
    await make_job_context(app).database.commit([Update(document, {"status": "waiting"})])
    count = len(fake.calls)
    assert await run_job(JOB, app) == Report(Counter(embedded=0, ready=1))
    assert len(fake.calls) == count
    assert (await extract_result(app, QUERY, document=DOCUMENT_ID))["status"] == "ready"


async def test_a_call_and_a_run_that_embed_one_text_both_finish(
    app: App, open_app: OpenApp
) -> None:
    await extract_result(app, QUERY, materials=TEXT)
    outs: list[Any] = []

    async def complete_by_call() -> None:
        outs.append((await call_extract_with_deadline(app, document=DOCUMENT_ID)).result)

    async with asyncio.timeout(60):
        report = await run_job(JOB, open_app(call_after_commit(2, complete_by_call)))

    assert isinstance(report, Report)
    assert report.finished
    [out] = outs
    assert out["status"] == "ready"
    assert out == await extract_result(app, QUERY, document=DOCUMENT_ID)


async def test_a_partly_erased_document_cannot_be_updated(app: App) -> None:
    """The erasure has deleted the document, and not yet its parts."""
    await extract_result(app, QUERY, materials=TEXT)
    ctx = make_job_context(app)
    workspace = Workspace(ctx.database, "reader", "default")
    document = (await workspace.load_document(DOCUMENT_ID)).document
    assert document
    await (
        ctx.database.connection.client.collection(f"{workspace.path}/documents")
        .document(DOCUMENT_ID)
        .delete()
    )

    with pytest.raises(DocumentErased):
        await workspace.update(document, tries=1)
