"""A document that is erased during its upload, or uploaded during an erasure, is complete or gone.

Most tests disturb an upload or an erasure after its first commit, then another one after its second
commit, and so on, until the disturbed side makes no more commits. `commit` is the number of that
commit, and also of a database, since each attempt has its own.

A text that is too long for one call is deferred: the call stores the text, and later calls or the
job `ingest_materials` embed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from functions.jobs.ingest_materials.job import JOB as INGEST_MATERIALS
from functions.jobs.purge.job import JOB as PURGE
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import Report, run_job
from shared.workspaces.erasure import WorkspaceErasure
from shared.workspaces.model import content_id
from shared.workspaces.repository import Workspace
from tests.support.commit_hooks import (
    KILL_AT_SOME_OR_ALL_COMMITS,
    CommitHook,
    Response,
    Send,
    WatchedApp,
    call_after_commit,
    call_before_commit,
    send_commit,
)
from tests.support.fakes.embedder import WordEmbedder
from tests.support.materials import READER, extract_result
from tests.support.stored_materials import (
    QUERY,
    assert_workspace_is_empty,
    call_extract_with_deadline,
    find_differing_documents,
    make_text,
    read_stored_answers,
    read_workspaces,
)

Open = Callable[..., WatchedApp]


TEXT: Final = make_text()
DOCUMENT: Final = content_id(TEXT)
"""The id under which the text is stored."""
LOW_LIMIT: Final[dict[str, Any]] = {"extract_materials_characters": 500}
"""Settings that defer the text."""
BROKEN_EMBEDDER: Final = WordEmbedder()
BROKEN_EMBEDDER.is_down = True
ERASURE_SECONDS: Final = 60.0
"""An erasure of a few pages ends within this time, even if another process writes meanwhile."""


class Killed(Exception):
    """The process is killed."""


class ExpectedState(NamedTuple):
    """What an upload leaves that nothing disturbs.

    Attributes:
        result: The result of the upload.
        documents: The stored documents, by path.
    """

    result: dict[str, Any]
    documents: dict[str, dict[str, Any]]


@pytest.fixture
async def open_app(project: str) -> AsyncIterator[Open]:
    """A function that makes apps. Apps with the same number share a database.

    With `defers`, the app defers the text. With `is_down`, its embedder does not work.
    """
    apps: list[App] = []

    def make_app(
        number: int,
        commit_hook: CommitHook = send_commit,
        *,
        is_down: bool = False,
        defers: bool = False,
    ) -> WatchedApp:
        project_id = f"{project}-{number}"
        settings = Settings(google_cloud_project=project_id, **(LOW_LIMIT if defers else {}))
        embedder = BROKEN_EMBEDDER if is_down else WordEmbedder()
        app = WatchedApp(settings, commit_hook, embedder=embedder)
        apps.append(app)
        return app

    yield make_app
    for app in apps:
        await app.aclose()


async def die() -> None:
    """Kill the process."""
    raise Killed


async def erase(app: App, task: str = "default") -> None:
    """Erase a workspace of the user `reader`, as the command of the CLI does."""
    database = app.context(READER, Meter()).database
    erasure = WorkspaceErasure(database, Workspace(database, str(READER.user_id), task))
    if await erasure.begin():
        async for _ in erasure.delete_pages():
            pass


async def erase_and_begin_upload(erasing_app: App, broken_app: App) -> None:
    """Erase the workspace, then begin an upload that cannot be completed."""
    await erase(erasing_app)
    assert await get_error_code(broken_app, materials=TEXT) == "UNAVAILABLE"


@pytest.fixture
async def expected(open_app: Open) -> ExpectedState:
    """The result and the stored documents without any erasure."""
    undisturbed_app = open_app(-1)
    result = await extract_result(undisturbed_app, QUERY, materials=TEXT)
    return ExpectedState(result, await read_workspaces(undisturbed_app))


async def assert_whole_or_gone(app: App, expected: ExpectedState) -> None:
    """Assert that the document is complete or gone, and can be uploaded again."""
    project_id = app.settings.google_cloud_project
    documents = await read_workspaces(app)
    is_erasing = documents.get("default", {}).get("erasing")
    status = documents.get(f"default/documents/{DOCUMENT}", {}).get("status")
    if status == "ready" and not is_erasing:
        assert find_differing_documents(expected.documents, documents) == {}, project_id
    else:
        await assert_workspace_is_empty(app, TEXT)

    result = await extract_result(app, QUERY, materials=TEXT)
    assert result == expected.result | {"known": result["known"]}, project_id
    assert find_differing_documents(expected.documents, await read_workspaces(app)) == {}, (
        project_id
    )


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_a_document_erased_during_its_upload_is_gone(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    conflicts = 0
    for commit in range(0, 20, step):
        other_app = open_app(commit)
        uploading_app = open_app(commit, call_after_commit(commit, partial(erase, other_app)))
        answer = await call_extract_with_deadline(uploading_app, materials=TEXT)
        if uploading_app.commits < commit:
            break
        documents = await read_workspaces(other_app)
        if answer.error:
            conflicts += 1
            assert answer.error.code == "CONFLICT", commit
            assert "again" in answer.error.message
        if answer.error or commit == uploading_app.commits:
            assert documents == {}, commit
        await assert_whole_or_gone(other_app, expected)
    assert conflicts >= 3 / step  # at least the first three commits


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_a_document_erased_while_deferred_is_gone(open_app: Open, step: int) -> None:
    for commit in range(2, 20, step):
        other_app = open_app(commit, defers=True)
        uploading_app = open_app(
            commit, call_after_commit(commit, partial(erase, other_app)), defers=True
        )
        answer = await call_extract_with_deadline(uploading_app, materials=TEXT)
        if uploading_app.commits < commit:
            break
        assert await read_workspaces(other_app) == {}, commit
        assert answer.error is None or answer.error.code == "CONFLICT"
        assert await get_error_code(other_app, document=DOCUMENT) == "NOT_FOUND"
    assert commit > 4


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_a_document_erased_while_resumed_is_gone(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    for commit in range(1, 20, step):
        other_app = open_app(commit, defers=True)
        assert (await extract_result(other_app, QUERY, materials=TEXT))["status"] == "pending"
        asking_app = open_app(commit, call_after_commit(commit, partial(erase, other_app)))
        answer = await call_extract_with_deadline(asking_app, document=DOCUMENT)
        if asking_app.commits < commit:
            break
        assert await read_workspaces(other_app) == {}, commit
        assert answer.error is None or answer.error.code in ("CONFLICT", "NOT_FOUND")
        await assert_whole_or_gone(open_app(commit), expected)
    assert commit > 3


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_a_document_erased_during_the_job_is_gone(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    for commit in range(1, 20, step):
        other_app = open_app(commit, defers=True)
        assert (await extract_result(other_app, QUERY, materials=TEXT))["status"] == "pending"
        job_app = open_app(commit, call_after_commit(commit, partial(erase, other_app)))
        report = await run_job(INGEST_MATERIALS, job_app)
        if job_app.commits < commit:
            break
        assert isinstance(report, Report)
        assert await read_workspaces(other_app) == {}, commit
        assert report.failures == [], commit
        await assert_whole_or_gone(open_app(commit), expected)
    assert commit > 3


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_an_upload_during_an_erasure_is_whole_or_gone(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    for commit in range(1, 20, step):
        other_app = open_app(commit)
        await extract_result(other_app, QUERY, materials=TEXT)
        erasing_app = open_app(
            commit,
            call_after_commit(
                commit, partial(call_extract_with_deadline, other_app, materials=TEXT)
            ),
        )
        await erase(erasing_app)
        if erasing_app.commits < commit:
            break
        await assert_whole_or_gone(open_app(commit), expected)
    assert commit > 4


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_another_upload_during_an_erasure_is_whole_or_gone(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    for commit in range(1, 20, step):
        other_app = open_app(commit)
        await extract_result(other_app, QUERY, materials=make_text(3, first=500))
        erasing_app = open_app(
            commit,
            call_after_commit(
                commit, partial(call_extract_with_deadline, other_app, materials=TEXT)
            ),
        )
        await erase(erasing_app)
        if erasing_app.commits < commit:
            break
        await assert_whole_or_gone(open_app(commit), expected)
    assert commit > 4


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_a_call_never_continues_another_upload(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    for commit in range(2, 20, step):
        other_app = open_app(commit)
        broken_app = open_app(commit, is_down=True)
        uploading_app = open_app(
            commit,
            call_after_commit(commit, partial(erase_and_begin_upload, other_app, broken_app)),
        )
        await call_extract_with_deadline(uploading_app, materials=TEXT)
        if uploading_app.commits < commit:
            break
        await assert_whole_or_gone(open_app(commit), expected)
    assert commit > 4


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_the_job_never_continues_another_upload(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    for commit in range(1, 20, step):
        other_app, broken_app = open_app(commit, defers=True), open_app(commit, is_down=True)
        assert (await extract_result(other_app, QUERY, materials=TEXT))["status"] == "pending"
        job_app = open_app(
            commit,
            call_after_commit(commit, partial(erase_and_begin_upload, other_app, broken_app)),
        )
        await run_job(INGEST_MATERIALS, job_app)
        if job_app.commits < commit:
            break
        await assert_whole_or_gone(open_app(commit), expected)
    assert commit > 3


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_an_answer_of_an_erased_workspace_is_not_stored(open_app: Open, step: int) -> None:
    for commit in range(2, 20, step):
        other_app = open_app(commit)
        uploading_app = open_app(commit, call_after_commit(commit, partial(erase, other_app)))
        await call_extract_with_deadline(uploading_app, materials=TEXT, idempotency_key="k")
        if uploading_app.commits < commit:
            break
        assert await read_stored_answers(other_app) == [], commit
    assert commit > 4


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_two_concurrent_erasures_both_complete(open_app: Open, step: int) -> None:
    for commit in range(1, 20, step):
        other_app = open_app(commit)
        await extract_result(other_app, QUERY, materials=TEXT, idempotency_key="k")
        erasing_app = open_app(commit, call_after_commit(commit, partial(erase, other_app)))
        await erase(erasing_app)
        if erasing_app.commits < commit:
            break
        assert await read_workspaces(other_app) == {}, commit
        assert await read_stored_answers(other_app) == [], commit
    assert commit > 4
    await extract_result(other_app, QUERY, materials=TEXT)
    await asyncio.gather(*(erase(app) for app in (other_app, open_app(commit), other_app)))
    assert await read_workspaces(other_app) == {}


@pytest.mark.slow
@pytest.mark.parametrize("next_event", ["upload", "purge"])
async def test_a_partly_erased_workspace_can_be_purged(
    open_app: Open, expected: ExpectedState, next_event: str
) -> None:
    for commit in range(1, 20):
        app = open_app(commit)
        killed_app = open_app(commit, call_after_commit(commit, die))
        await extract_result(app, QUERY, materials=TEXT)
        with suppress(Killed):
            await erase(killed_app)
        if killed_app.commits < commit:
            break
        await assert_workspace_is_empty(app, TEXT)
        if next_event == "purge":
            await run_job(PURGE, app)
            assert await read_workspaces(app) == {}, commit
        await assert_whole_or_gone(app, expected)
    assert commit > 4


async def die_while_erasing(app: App) -> None:
    """Begin an erasure with an app that is killed during it."""
    with suppress(Killed):
        await erase(app)


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_an_erasure_completes_after_another_one_died(open_app: Open, step: int) -> None:
    for commit in range(1, 20, step):
        other_app = open_app(commit)
        killed_app = open_app(commit, call_after_commit(commit, die))
        await extract_result(other_app, QUERY, materials=TEXT)
        erasing_app = open_app(
            commit, call_before_commit(commit, partial(die_while_erasing, killed_app))
        )
        async with asyncio.timeout(ERASURE_SECONDS):
            await erase(erasing_app)
        assert await read_workspaces(other_app) == {}, commit
        if erasing_app.commits < commit:
            break
    assert commit > 4


async def erase_during_upload(open_on: Open, upload_commit: int, erasure_commit: int) -> int:
    """Upload a text, erase it during the upload, and let both continue at the same time.

    Args:
        open_on: Makes apps for one database.
        upload_commit: The commit of the upload after which the erasure begins.
        erasure_commit: The commit of the erasure before which the erasure pauses.

    Returns:
        The number of commits of the erasure.
    """
    erasure_has_paused = asyncio.Event()  # or ended, if it has fewer commits
    erasure_may_continue = asyncio.Event()
    erasures: list[asyncio.Task[None]] = []

    async def pause_erasure() -> None:
        erasure_has_paused.set()
        await erasure_may_continue.wait()

    erasing_app = open_on(call_before_commit(erasure_commit, pause_erasure))

    async def erase_all() -> None:
        await erase(erasing_app)
        erasure_has_paused.set()

    async def begin_erasure_after_commit(commit: int, send: Send) -> Response:
        try:
            return await send()
        finally:
            if commit == upload_commit:
                erasures.append(asyncio.create_task(erase_all()))
                await erasure_has_paused.wait()
            elif commit > upload_commit:
                erasure_may_continue.set()

    uploading_app = open_on(begin_erasure_after_commit)
    answer = await call_extract_with_deadline(uploading_app, materials=TEXT)
    assert answer.error is None or answer.error.code == "CONFLICT"
    erasure_may_continue.set()
    async with asyncio.timeout(ERASURE_SECONDS):
        await erasures[0]
    return erasing_app.commits


@pytest.mark.slow
@pytest.mark.parametrize("upload_commit", [2, 3, 4])
async def test_an_erasure_completes_during_an_upload(
    open_app: Open, expected: ExpectedState, upload_commit: int
) -> None:
    for commit in range(1, 20):
        open_on = partial(open_app, commit)
        erasure_commits = await erase_during_upload(open_on, upload_commit, commit)
        await assert_whole_or_gone(open_app(commit), expected)
        if erasure_commits < commit:
            break
    assert commit > 4


async def get_error_code(app: App, **arguments: Any) -> str | None:
    """Return the code of the error, if the call fails."""
    answer = await call_extract_with_deadline(app, **arguments)
    return answer.error.code if answer.error else None
