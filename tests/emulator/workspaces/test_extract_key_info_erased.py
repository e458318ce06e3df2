"""A document that is erased during its upload, or uploaded during an erasure, is complete or gone.

Most tests disturb work after its first commit, then again after its second commit, and so on, until
the work makes no more commits. `commit` is the number of that commit, and also of a database, since
each attempt has its own.

A text that is too long for one call is deferred: the call stores the text, and later calls or the
job `ingest_materials` embed it. An erasure first marks the workspace, and then deletes the
documents page by page.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from functions.jobs.ingest_materials.job import JOB as INGEST_MATERIALS
from functions.jobs.purge.job import JOB as PURGE
from shared.ai.embedding import Purpose
from shared.runtime.context import App
from shared.runtime.job import Report, run_job
from shared.workspaces.model import content_id
from tests.support.apps import Apps
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
from tests.support.fakes.recording_embedder import RecordingEmbedder
from tests.support.jobs import make_job_context
from tests.support.materials import extract_error, extract_result
from tests.support.stored_documents import read_app_documents
from tests.support.stored_materials import (
    QUERY,
    assert_workspace_is_empty,
    call_extract_with_deadline,
    make_text,
    read_workspaces,
)
from tests.support.workspaces import make_erasure

Work = Callable[[App], Awaitable[object]]
Open = Callable[..., WatchedApp]

TEXT: Final = make_text()
OTHER_TEXT: Final = make_text(3, first=500)
DOCUMENT: Final = content_id(TEXT)
"""The id under which the text is stored."""
STORED_ANSWERS: Final = "users/reader/replays"
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
def open_app(apps: Apps, project: str) -> Open:
    """A function that makes apps. Apps with the same number share a database.

    With `defers`, the app defers the text. With `is_down`, its embedder does not work.
    """

    def make_app(
        number: int, hook: CommitHook = send_commit, *, is_down: bool = False, defers: bool = False
    ) -> WatchedApp:
        embedder = WordEmbedder()
        embedder.is_down = is_down
        limit: dict[str, Any] = {"extract_materials_characters": 500} if defers else {}
        return apps(hook, embedder=embedder, project=f"{project}-{number}", **limit)

    return make_app


async def upload(app: App) -> str | None:
    """Upload the text; return the code of the error, if the call fails."""
    answer = await call_extract_with_deadline(app, materials=TEXT, idempotency_key="k")
    return answer.error.code if answer.error else None


async def upload_other(app: App) -> None:
    await extract_result(app, QUERY, materials=OTHER_TEXT)


async def ask(app: App) -> str | None:
    """Ask about the text, which embeds it if it was deferred."""
    answer = await call_extract_with_deadline(app, document=DOCUMENT)
    return answer.error.code if answer.error else None


async def run_ingest(app: App) -> None:
    report = await run_job(INGEST_MATERIALS, app)
    assert isinstance(report, Report)
    assert report.failures == []


async def erase(app: App) -> None:
    """Erase the workspace, as the command of the CLI does."""
    erasure = make_erasure(make_job_context(app), "default")
    if await erasure.begin():
        async for _ in erasure.delete_pages():
            pass


async def die() -> None:
    raise Killed


@pytest.fixture
async def expected(open_app: Open) -> ExpectedState:
    """The result and the stored documents without any erasure."""
    undisturbed_app = open_app(-1)
    result = await extract_result(undisturbed_app, QUERY, materials=TEXT)
    return ExpectedState(result, await read_workspaces(undisturbed_app))


async def assert_whole_or_gone(app: App, expected: ExpectedState) -> None:
    documents = await read_workspaces(app)
    is_erasing = documents.get("default", {}).get("erasing")
    status = documents.get(f"default/documents/{DOCUMENT}", {}).get("status")
    if status == "ready" and not is_erasing:
        assert documents == expected.documents, app.settings.google_cloud_project
    else:
        await assert_workspace_is_empty(app, TEXT)

    result = await extract_result(app, QUERY, materials=TEXT)
    assert result == expected.result | {"known": result["known"]}
    assert await read_workspaces(app) == expected.documents, app.settings.google_cloud_project


class Case(NamedTuple):
    """Work that is disturbed.

    Attributes:
        work: The work.
        prepare: What happens before.
        defers: Whether what happens before defers the text.
    """

    work: Work
    prepare: Work | None = None
    defers: bool = False


DEFERRED_UPLOAD: Final = Case(upload, defers=True)
RESUMED: Final = Case(ask, upload, defers=True)
JOB: Final = Case(run_ingest, upload, defers=True)


async def disturb(open_app: Open, case: Case, commit: int, disturbance: Work) -> bool:
    """Disturb work after a commit. Return whether it made so many."""
    other_app = open_app(commit, defers=case.defers)
    if case.prepare:
        await case.prepare(other_app)
    hook = call_after_commit(commit, partial(disturbance, other_app))
    app = open_app(commit, hook, defers=case is DEFERRED_UPLOAD)
    code = await case.work(app)
    assert code in (None, "CONFLICT", "NOT_FOUND"), commit
    return app.commits >= commit


@KILL_AT_SOME_OR_ALL_COMMITS
@pytest.mark.parametrize(
    "case",
    [Case(upload), DEFERRED_UPLOAD, RESUMED, JOB],
    ids=["upload", "deferred", "resumed", "job"],
)
async def test_a_document_erased_meanwhile_is_gone(
    open_app: Open, expected: ExpectedState, case: Case, step: int
) -> None:
    """So are the answers that were stored for its calls."""
    for commit in range(1 if case.prepare else 2, 20, step):
        if not await disturb(open_app, case, commit, erase):
            break
        app = open_app(commit)
        assert await read_workspaces(app) == {}, commit
        assert await read_app_documents(app, STORED_ANSWERS) == {}, commit
        await assert_whole_or_gone(app, expected)
    assert commit > 3


@KILL_AT_SOME_OR_ALL_COMMITS
@pytest.mark.parametrize("prepare", [upload, upload_other])
async def test_an_upload_during_an_erasure_is_whole_or_gone(
    open_app: Open, expected: ExpectedState, prepare: Work, step: int
) -> None:
    async def upload_again(app: App) -> None:
        await call_extract_with_deadline(app, materials=TEXT)

    for commit in range(1, 20, step):
        if not await disturb(open_app, Case(erase, prepare), commit, upload_again):
            break
        await assert_whole_or_gone(open_app(commit), expected)
    assert commit > 4


@KILL_AT_SOME_OR_ALL_COMMITS
@pytest.mark.parametrize("case", [Case(upload), JOB], ids=["upload", "job"])
async def test_no_work_continues_another_upload(
    open_app: Open, expected: ExpectedState, case: Case, step: int
) -> None:
    """The other one begins after an erasure, and cannot be completed."""
    for commit in range(1 if case.prepare else 2, 20, step):
        broken_app = open_app(commit, is_down=True)

        async def erase_and_begin_upload(app: App, broken_app: App = broken_app) -> None:
            await erase(app)
            assert await upload(broken_app) == "UNAVAILABLE"

        if not await disturb(open_app, case, commit, erase_and_begin_upload):
            break
        await assert_whole_or_gone(open_app(commit), expected)
    assert commit > 3


async def die_while_erasing(app: App) -> None:
    with suppress(Killed):
        await erase(app)


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_two_concurrent_erasures_both_complete(open_app: Open, step: int) -> None:
    """So does one that overtakes another, which died."""
    for commit in range(1, 20, step):
        app = open_app(commit)
        await upload(app)
        erasing_app = open_app(commit, call_after_commit(commit, partial(erase, app)))
        await erase(erasing_app)
        if erasing_app.commits >= commit:
            assert await read_workspaces(app) == {}, commit
            assert await read_app_documents(app, STORED_ANSWERS) == {}, commit

        await upload(app)
        killed_app = open_app(commit, call_after_commit(commit, die))
        hook = call_before_commit(commit, partial(die_while_erasing, killed_app))
        async with asyncio.timeout(ERASURE_SECONDS):
            await erase(open_app(commit, hook))
        assert await read_workspaces(app) == {}, commit
        if erasing_app.commits < commit:
            break
    assert commit > 4
    await upload(app)
    await asyncio.gather(*(erase(other) for other in (app, open_app(commit), app)))
    assert await read_workspaces(app) == {}


@KILL_AT_SOME_OR_ALL_COMMITS
@pytest.mark.parametrize("next_event", ["upload", "purge"])
async def test_a_partly_erased_workspace_is_not_found(
    open_app: Open, expected: ExpectedState, next_event: str, step: int
) -> None:
    """An upload or the purge completes the erasure."""
    for commit in range(1, 20, step):
        app = open_app(commit)
        killed_app = open_app(commit, call_after_commit(commit, die))
        await upload(app)
        await die_while_erasing(killed_app)
        if killed_app.commits < commit:
            break
        await assert_workspace_is_empty(app, TEXT)
        targets: list[dict[str, Any]] = [{"document": DOCUMENT}, {"scope": "task"}]
        for target in targets:
            message = (await extract_error(app, QUERY, **target)).message
            unknown = await extract_error(app, QUERY, **target, task_id="never")
            assert message == unknown.message.replace("never", "default")
        if next_event == "purge":
            await run_job(PURGE, app)
            assert await read_workspaces(app) == {}, commit
        await assert_whole_or_gone(app, expected)
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

    assert await upload(open_on(begin_erasure_after_commit)) in (None, "CONFLICT")
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


@pytest.mark.parametrize(
    "target", [{"document": DOCUMENT}, {"materials": TEXT}, {"scope": "task"}], ids=str
)
async def test_a_search_during_an_erasure_is_whole_or_not_found(
    apps: Apps, target: dict[str, Any]
) -> None:
    embedder = RecordingEmbedder()
    app = apps(embedder=embedder)
    await upload(app)

    async def erase_meanwhile(purpose: Purpose) -> None:
        embedder.meanwhile = None
        assert purpose is Purpose.QUERY
        await erase(apps())

    embedder.meanwhile = erase_meanwhile
    answer = await call_extract_with_deadline(app, query="Which thing?", **target, top_k=20)
    assert embedder.meanwhile is None
    if answer.error:
        assert answer.error.code in {"NOT_FOUND", "CONFLICT"}
    else:
        assert answer.result
        assert len(answer.result["contexts"]) == 20
    assert await read_workspaces(app) == {}
