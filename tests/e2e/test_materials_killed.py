"""`extract_key_info` killed after each commit: nothing is half visible, and nothing is done twice.

Each kill has its own database, which must end with the same documents as one without a kill.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
import pytest

from functions.jobs.ingest_materials.job import JOB as INGEST_MATERIALS
from functions.jobs.purge.job import JOB as PURGE
from shared.core.dates import utc_now
from shared.runtime.context import App
from shared.runtime.job import Report, run_job
from shared.workspaces.model import DocumentStatus, content_id
from tests.support.commit_hooks import SOME_OR_ALL
from tests.support.fakes.openai import FakeOpenAI
from tests.support.killable_children import killable_children
from tests.support.materials import READER, extract_result
from tests.support.stored_materials import (
    PARAGRAPHS,
    QUERY,
    assert_not_found,
    difference,
    embedded_passages,
    make_text,
    openai_fields,
    openai_settings,
    stored_answers,
    stored_contents,
    texts_with_vectors,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.killable_children import KillableChildren

pytestmark = pytest.mark.anyio

TEXT: Final = make_text()
ID: Final = content_id(TEXT)
ASKED: Final = {"query": QUERY, "materials": TEXT, "idempotency_key": "k"}
BY_ID: Final = {"query": QUERY, "document": ID, "idempotency_key": "later"}
LOW_LIMIT: Final[dict[str, Any]] = {"extract_materials_characters": 500}
"""Settings by which the text is too long for a call."""


@pytest.fixture(scope="module")
def killable() -> Iterator[KillableChildren]:
    """Processes that make calls and are killed."""
    with killable_children() as them:
        yield them


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    """The embedding model of all processes."""
    with FakeOpenAI() as server:
        yield server


@asynccontextmanager
async def open_app(
    fake: FakeOpenAI, project: str, since: timedelta = timedelta(minutes=30), **more: Any
) -> AsyncIterator[App]:
    """An app whose clock is past the leases of killed processes."""
    later = utc_now() + since
    app = App(openai_settings(fake, project, **more), clock=lambda: later)
    yield app
    await app.aclose()


async def survives(
    killable: KillableChildren, fields: dict[str, Any], commits: int, **order: Any
) -> bool:
    """Whether a process that is killed after so many commits ends before."""
    return await anyio.to_thread.run_sync(partial(killable.survives, fields, commits, **order))


async def ask_tool(app: App, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of a call."""
    answer = dict(arguments)
    return await extract_result(app, answer.pop("query"), **answer)


async def run_ingest(app: App) -> Report:
    """Run the job to its end."""
    report = await run_job(INGEST_MATERIALS, app)
    assert isinstance(report, Report), report
    assert report.finished
    return report


async def stored_status(app: App) -> DocumentStatus | None:
    """The stored status of the document."""
    record = (await stored_contents(app)).get(f"default/documents/{ID}")
    return DocumentStatus(record["status"]) if record else None


@SOME_OR_ALL
async def test_a_killed_call_can_be_repeated(
    killable: KillableChildren, fake: FakeOpenAI, project: str, step: int
) -> None:
    async with open_app(fake, f"{project}-calm") as calm:
        answer = await ask_tool(calm, ASKED)
        expected = await ask_tool(calm, ASKED | {"idempotency_key": "other"})
        expected_documents = await stored_contents(calm)
    assert answer["considered"] == PARAGRAPHS
    order = {"user": READER.user_id, "arguments": ASKED}
    for commits in range(0, 20, step):
        own_project = f"{project}-{commits}"
        fields = openai_fields(fake, own_project)
        if await survives(killable, fields, commits, **order):
            break
        async with open_app(fake, own_project) as app:
            status_after = await stored_status(app)
            if status_after is not DocumentStatus.READY:
                await assert_not_found(app, TEXT)
            stored, before = await texts_with_vectors(app), len(embedded_passages(fake))
            repeated = await ask_tool(app, ASKED)
            assert (expected if status_after is DocumentStatus.READY else answer) | {
                "known": repeated["known"]
            } == repeated
            assert difference(expected_documents, await stored_contents(app)) == {}, commits
            newly_embedded = embedded_passages(fake)[before:]
            assert sorted(newly_embedded) == sorted(set(TEXT.split("\n\n")) - stored), commits
    assert commits > 5


@SOME_OR_ALL
async def test_a_deferring_call_can_be_killed_after_any_commit(
    killable: KillableChildren, fake: FakeOpenAI, project: str, step: int
) -> None:
    async with open_app(fake, f"{project}-calm", **LOW_LIMIT) as calm:
        assert (await ask_tool(calm, ASKED))["status"] == "pending"
        documents = await stored_contents(calm)
        await run_ingest(calm)
        answer = await ask_tool(calm, BY_ID)
        expected_documents = await stored_contents(calm)
    order = {"user": READER.user_id, "arguments": ASKED}
    for commits in range(0, 20, step):
        own_project = f"{project}-{commits}"
        fields = openai_fields(fake, own_project, **LOW_LIMIT)
        if await survives(killable, fields, commits, **order):
            break
        async with open_app(fake, own_project, **LOW_LIMIT) as app:
            waits = await stored_status(app) is DocumentStatus.WAITING
            if not waits:
                await assert_not_found(app, TEXT)
            before = len(embedded_passages(fake))
            repeated = await ask_tool(app, ASKED)
            # What was answered as pending is answered so again, with the same key.
            assert repeated["status"] == "pending"
            assert repeated["known"] is False
            assert (waits or await stored_contents(app)) == (waits or documents), commits
            await run_ingest(app)
            assert await ask_tool(app, BY_ID) == answer
            assert difference(expected_documents, await stored_contents(app)) == {}, commits
            assert sorted(embedded_passages(fake)[before:]) == sorted(TEXT.split("\n\n"))
    assert commits > 5


@SOME_OR_ALL
async def test_a_resuming_call_can_be_killed_after_any_commit(
    killable: KillableChildren, fake: FakeOpenAI, project: str, step: int
) -> None:
    async with open_app(fake, f"{project}-calm", **LOW_LIMIT) as calm:
        await ask_tool(calm, ASKED)
        answer = await ask_tool(calm, BY_ID)
        expected_documents = await stored_contents(calm)
    order = {"user": READER.user_id, "arguments": BY_ID}
    for commits in range(0, 20, step):
        own_project = f"{project}-{commits}"
        async with open_app(fake, own_project, **LOW_LIMIT) as app:
            await ask_tool(app, ASKED)
            fields = openai_fields(fake, own_project, **LOW_LIMIT)
            if await survives(killable, fields, commits, **order):
                break
            stored, before = await texts_with_vectors(app), len(embedded_passages(fake))
            assert await ask_tool(app, BY_ID) == answer
            assert difference(expected_documents, await stored_contents(app)) == {}, commits
            newly_embedded = embedded_passages(fake)[before:]
            assert sorted(newly_embedded) == sorted(set(TEXT.split("\n\n")) - stored), commits
    assert commits > 3


@SOME_OR_ALL
async def test_a_killed_job_is_continued_by_the_next_run(
    killable: KillableChildren, fake: FakeOpenAI, project: str, step: int
) -> None:
    async with open_app(fake, f"{project}-calm", **LOW_LIMIT) as calm:
        await ask_tool(calm, ASKED)
        await run_ingest(calm)
        expected_documents = await stored_contents(calm)
        answer = await ask_tool(calm, BY_ID)
    for commits in range(0, 20, step):
        own_project = f"{project}-{commits}"
        async with open_app(fake, own_project, **LOW_LIMIT) as app:
            await ask_tool(app, ASKED)
            fields = openai_fields(fake, own_project, **LOW_LIMIT)
            if await survives(killable, fields, commits, job="ingest_materials"):
                break
            stored, before = await texts_with_vectors(app), len(embedded_passages(fake))
            report = await run_ingest(app)
            assert difference(expected_documents, await stored_contents(app)) == {}, commits
            newly_embedded = embedded_passages(fake)[before:]
            assert sorted(newly_embedded) == sorted(set(TEXT.split("\n\n")) - stored), commits
            assert report.counts["embedded"] == len(newly_embedded)
            assert await ask_tool(app, BY_ID) == answer
    assert commits >= 3


@pytest.mark.slow
@pytest.mark.parametrize("order", [{"user": READER.user_id, "erase": "default"}, {"job": "purge"}])
async def test_a_killed_erasure_is_continued_by_the_next_purge(
    killable: KillableChildren, fake: FakeOpenAI, project: str, order: dict[str, Any]
) -> None:
    for commits in count():
        own_project = f"{project}-{commits}"
        fields = openai_fields(fake, own_project)
        async with open_app(fake, own_project, timedelta(days=-100)) as long_ago:
            await ask_tool(long_ago, ASKED)
        done = await survives(killable, fields, commits, **order)
        async with open_app(fake, own_project) as app:
            if done:
                assert await stored_contents(app) == {}
                break
            if commits > ("job" in order):  # the first commit of a job is its lease
                await assert_not_found(app, TEXT)
            assert isinstance(await run_job(PURGE, app), Report)
            assert await stored_contents(app) == {}, commits
            assert await stored_answers(app) == [], commits
    assert commits > 4
