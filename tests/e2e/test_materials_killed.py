"""`extract_key_info` is killed after each commit. Nothing is half visible or done twice.

The tool embeds the passages of a text, its materials. If the text is too long for a call, the call
defers it: a job embeds it, or a later call with its document id resumes. Each kill has its own
database, which must end with the same documents as an undisturbed one.
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
from tests.support.commit_hooks import KILL_AT_SOME_OR_ALL_COMMITS
from tests.support.fakes.openai import FakeOpenAI
from tests.support.killable_children import start_killable_children
from tests.support.materials import READER, extract_result
from tests.support.stored_materials import (
    PARAGRAPH_COUNT,
    QUERY,
    assert_workspace_is_empty,
    find_differing_documents,
    list_embedded_passages,
    make_openai_fields,
    make_openai_settings,
    make_text,
    read_stored_answers,
    read_texts_with_vectors,
    read_workspaces,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.killable_children import KillableChildren

pytestmark = pytest.mark.anyio

TEXT: Final = make_text()
PASSAGES: Final = TEXT.split("\n\n")
DOCUMENT_ID: Final = content_id(TEXT)
FIRST_CALL: Final = {"query": QUERY, "materials": TEXT, "idempotency_key": "k"}
CALL_BY_ID: Final = {"query": QUERY, "document": DOCUMENT_ID, "idempotency_key": "later"}
LOW_LIMIT: Final[dict[str, Any]] = {"extract_materials_characters": 500}
"""Settings with which the text is too long for a call."""
MAX_COMMITS: Final = 20
"""More commits than any of these calls and jobs makes."""


@pytest.fixture(scope="module")
def killable() -> Iterator[KillableChildren]:
    """Processes that make calls and are killed."""
    with start_killable_children() as processes:
        yield processes


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    """The embedding model of all processes."""
    with FakeOpenAI() as server:
        yield server


@asynccontextmanager
async def open_app(
    fake: FakeOpenAI, project: str, offset: timedelta = timedelta(minutes=30), **options: Any
) -> AsyncIterator[App]:
    """Yield an app whose clock is ahead by `offset`, by default past leases of killed processes."""
    now = utc_now() + offset
    app = App(make_openai_settings(fake, project, **options), clock=lambda: now)
    yield app
    await app.aclose()


async def finishes_before_kill(
    killable: KillableChildren, fields: dict[str, Any], commits: int, **order: Any
) -> bool:
    """Run a process that is killed after some commits; return whether it finishes before.

    Args:
        killable: The processes.
        fields: The settings of the process.
        commits: The number of commits before the kill.
        order: What the process does, as `KillableChildren.survives` describes.
    """
    return await anyio.to_thread.run_sync(partial(killable.survives, fields, commits, **order))


async def call_tool(app: App, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call `extract_key_info`; return the result."""
    other_arguments = dict(arguments)
    return await extract_result(app, other_arguments.pop("query"), **other_arguments)


async def run_ingest(app: App) -> Report:
    """Run the job until it is finished."""
    report = await run_job(INGEST_MATERIALS, app)
    assert isinstance(report, Report), report
    assert report.finished
    return report


async def read_stored_status(app: App) -> DocumentStatus | None:
    """Return the stored status of the document."""
    record = (await read_workspaces(app)).get(f"default/documents/{DOCUMENT_ID}")
    return DocumentStatus(record["status"]) if record else None


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_a_killed_call_can_be_repeated(
    killable: KillableChildren, fake: FakeOpenAI, project: str, step: int
) -> None:
    async with open_app(fake, f"{project}-undisturbed") as undisturbed:
        answer = await call_tool(undisturbed, FIRST_CALL)
        second_answer = await call_tool(undisturbed, FIRST_CALL | {"idempotency_key": "other"})
        expected_documents = await read_workspaces(undisturbed)
    assert answer["considered"] == PARAGRAPH_COUNT

    order = {"user": READER.user_id, "arguments": FIRST_CALL}
    for commits in range(0, MAX_COMMITS, step):
        killed_project = f"{project}-{commits}"
        fields = make_openai_fields(fake, killed_project)
        if await finishes_before_kill(killable, fields, commits, **order):
            break
        async with open_app(fake, killed_project) as app:
            status = await read_stored_status(app)
            if status is not DocumentStatus.READY:
                await assert_workspace_is_empty(app, TEXT)

            stored_passages = await read_texts_with_vectors(app)
            embedded_count = len(list_embedded_passages(fake))
            repeated = await call_tool(app, FIRST_CALL)
            expected_answer = second_answer if status is DocumentStatus.READY else answer
            assert repeated == expected_answer | {"known": repeated["known"]}
            assert find_differing_documents(expected_documents, await read_workspaces(app)) == {}, (
                commits
            )
            newly_embedded = list_embedded_passages(fake)[embedded_count:]
            assert sorted(newly_embedded) == sorted(set(PASSAGES) - stored_passages), commits
    assert commits > 5  # fewer would mean that the kills missed most of the work


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_a_deferring_call_can_be_killed_after_any_commit(
    killable: KillableChildren, fake: FakeOpenAI, project: str, step: int
) -> None:
    async with open_app(fake, f"{project}-undisturbed", **LOW_LIMIT) as undisturbed:
        assert (await call_tool(undisturbed, FIRST_CALL))["status"] == "pending"
        documents = await read_workspaces(undisturbed)
        await run_ingest(undisturbed)
        answer = await call_tool(undisturbed, CALL_BY_ID)
        expected_documents = await read_workspaces(undisturbed)

    order = {"user": READER.user_id, "arguments": FIRST_CALL}
    for commits in range(0, MAX_COMMITS, step):
        killed_project = f"{project}-{commits}"
        fields = make_openai_fields(fake, killed_project, **LOW_LIMIT)
        if await finishes_before_kill(killable, fields, commits, **order):
            break
        async with open_app(fake, killed_project, **LOW_LIMIT) as app:
            is_waiting = await read_stored_status(app) is DocumentStatus.WAITING
            if not is_waiting:
                await assert_workspace_is_empty(app, TEXT)

            embedded_count = len(list_embedded_passages(fake))
            repeated = await call_tool(app, FIRST_CALL)
            # A repeated call with the same key returns the first answer: pending.
            assert repeated["status"] == "pending"
            assert repeated["known"] is False
            if not is_waiting:
                assert await read_workspaces(app) == documents, commits
            await run_ingest(app)
            assert await call_tool(app, CALL_BY_ID) == answer
            assert find_differing_documents(expected_documents, await read_workspaces(app)) == {}, (
                commits
            )
            assert sorted(list_embedded_passages(fake)[embedded_count:]) == sorted(PASSAGES)
    assert commits > 5  # fewer would mean that the kills missed most of the work


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_a_resuming_call_can_be_killed_after_any_commit(
    killable: KillableChildren, fake: FakeOpenAI, project: str, step: int
) -> None:
    async with open_app(fake, f"{project}-undisturbed", **LOW_LIMIT) as undisturbed:
        await call_tool(undisturbed, FIRST_CALL)
        answer = await call_tool(undisturbed, CALL_BY_ID)
        expected_documents = await read_workspaces(undisturbed)

    order = {"user": READER.user_id, "arguments": CALL_BY_ID}
    for commits in range(0, MAX_COMMITS, step):
        killed_project = f"{project}-{commits}"
        async with open_app(fake, killed_project, **LOW_LIMIT) as app:
            await call_tool(app, FIRST_CALL)
            fields = make_openai_fields(fake, killed_project, **LOW_LIMIT)
            if await finishes_before_kill(killable, fields, commits, **order):
                break

            stored_passages = await read_texts_with_vectors(app)
            embedded_count = len(list_embedded_passages(fake))
            assert await call_tool(app, CALL_BY_ID) == answer
            assert find_differing_documents(expected_documents, await read_workspaces(app)) == {}, (
                commits
            )
            newly_embedded = list_embedded_passages(fake)[embedded_count:]
            assert sorted(newly_embedded) == sorted(set(PASSAGES) - stored_passages), commits
    assert commits > 3


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_a_killed_job_is_continued_by_the_next_run(
    killable: KillableChildren, fake: FakeOpenAI, project: str, step: int
) -> None:
    async with open_app(fake, f"{project}-undisturbed", **LOW_LIMIT) as undisturbed:
        await call_tool(undisturbed, FIRST_CALL)
        await run_ingest(undisturbed)
        expected_documents = await read_workspaces(undisturbed)
        answer = await call_tool(undisturbed, CALL_BY_ID)
    for commits in range(0, MAX_COMMITS, step):
        killed_project = f"{project}-{commits}"
        async with open_app(fake, killed_project, **LOW_LIMIT) as app:
            await call_tool(app, FIRST_CALL)
            fields = make_openai_fields(fake, killed_project, **LOW_LIMIT)
            if await finishes_before_kill(killable, fields, commits, job="ingest_materials"):
                break

            stored_passages = await read_texts_with_vectors(app)
            embedded_count = len(list_embedded_passages(fake))
            report = await run_ingest(app)
            assert find_differing_documents(expected_documents, await read_workspaces(app)) == {}, (
                commits
            )
            newly_embedded = list_embedded_passages(fake)[embedded_count:]
            assert sorted(newly_embedded) == sorted(set(PASSAGES) - stored_passages), commits
            assert report.counts["embedded"] == len(newly_embedded)
            assert await call_tool(app, CALL_BY_ID) == answer
    assert commits >= 3


@pytest.mark.slow
@pytest.mark.parametrize("order", [{"user": READER.user_id, "erase": "default"}, {"job": "purge"}])
async def test_a_killed_erasure_is_continued_by_the_next_purge(
    killable: KillableChildren, fake: FakeOpenAI, project: str, order: dict[str, Any]
) -> None:
    for commits in count():
        killed_project = f"{project}-{commits}"
        fields = make_openai_fields(fake, killed_project)
        async with open_app(fake, killed_project, timedelta(days=-100)) as long_ago:
            await call_tool(long_ago, FIRST_CALL)
        has_finished = await finishes_before_kill(killable, fields, commits, **order)
        async with open_app(fake, killed_project) as app:
            if has_finished:
                assert await read_workspaces(app) == {}
                break
            if commits > ("job" in order):  # the first commit of a job is its lease
                await assert_workspace_is_empty(app, TEXT)
            assert isinstance(await run_job(PURGE, app), Report)
            assert await read_workspaces(app) == {}, commits
            assert await read_stored_answers(app) == [], commits
    assert commits > 4
