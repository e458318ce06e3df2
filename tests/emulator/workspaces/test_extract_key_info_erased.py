"""A document that is erased during its upload, or uploaded during an erasure, is complete or gone.

Most tests disturb work after its first commit, then again after its second commit, and so on, until
the work ends before it is disturbed. Each attempt has a database of its own, with the number of
that commit.

A text that is too long for one call is deferred: the call stores the text, and later calls or the
job `ingest_materials` embed it. An erasure first marks the workspace, and then deletes the
documents page by page.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from functions.jobs.ingest_materials.job import JOB as INGEST_MATERIALS
from functions.jobs.purge.job import JOB as PURGE
from shared.ai.embedding import Purpose
from shared.firestore.retention import ERASURE_BEGUN
from shared.runtime.context import App
from shared.runtime.job import Report, run_job
from shared.workspaces import repository
from shared.workspaces.model import content_id
from tests.support.apps import Apps
from tests.support.commit_hooks import (
    KILL_AT_SOME_OR_ALL_COMMITS,
    CommitHook,
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
OpenApp = Callable[..., WatchedApp]

TEXT: Final = make_text()
OTHER_TEXT: Final = make_text(3, first=500)
DOCUMENT: Final = content_id(TEXT)
"""The id under which the text is stored."""
STORED_ANSWERS: Final = "users/reader/replays"
MAX_COMMITS: Final = 20
"""Disturbed work makes fewer commits."""
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
def open_app(apps: Apps, project: str, monkeypatch: pytest.MonkeyPatch) -> OpenApp:
    """A function that makes apps. Apps with the same number share a database.

    With `defers`, the app defers the text. With `is_down`, its embedder does not work. Each part is
    stored by a commit of its own, as those of a long text.
    """
    monkeypatch.setattr(repository, "MAX_WRITTEN_BYTES", 1)

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
        async for _ in erasure.complete():
            pass


async def die() -> None:
    raise Killed


@pytest.fixture
async def expected(open_app: OpenApp) -> ExpectedState:
    """The result and the stored documents without any erasure."""
    undisturbed_app = open_app(-1)
    result = await extract_result(undisturbed_app, QUERY, materials=TEXT)
    return ExpectedState(result, await read_workspaces(undisturbed_app))


async def assert_whole_or_gone(app: App, expected: ExpectedState) -> None:
    documents = await read_workspaces(app)
    is_erasing = documents.get("default", {}).get("touched_at") == ERASURE_BEGUN
    status = documents.get(f"default/documents/{DOCUMENT}", {}).get("status")
    if is_erasing or status not in {"ready", "waiting"}:
        await assert_workspace_is_empty(app, TEXT)

    result = await extract_result(app, QUERY, materials=TEXT)
    assert result == expected.result | {"known": result["known"]}
    assert await read_workspaces(app) == expected.documents, app.settings.google_cloud_project


class Scenario(NamedTuple):
    """Work that is disturbed, and what another app did before.

    Attributes:
        work: The work.
        before: What the other app did, if anything.
        work_defers: Whether the work defers the text.
        other_defers: Whether the other app does.
    """

    work: Work
    before: Work | None = None
    work_defers: bool = False
    other_defers: bool = False


UPLOAD: Final = Scenario(upload)
DEFERRED_UPLOAD: Final = Scenario(upload, work_defers=True, other_defers=True)
QUESTION_ABOUT_DEFERRED: Final = Scenario(ask, upload, other_defers=True)
JOB_AFTER_DEFERRED: Final = Scenario(run_ingest, upload, other_defers=True)


def list_commits(scenario: Scenario, step: int) -> Iterator[int]:
    """Yield the numbers of commits after which to disturb work; fail if the work never ends.

    The first commit of an upload into an empty workspace leaves nothing to erase.
    """
    yield from range(1 if scenario.before else 2, MAX_COMMITS, step)
    pytest.fail(f"The work makes more than {MAX_COMMITS} commits.")


async def disturb(open_app: OpenApp, scenario: Scenario, commit: int, disturbance: Work) -> bool:
    """Disturb work after a commit. Return whether it made that many commits."""
    other_app = open_app(commit, defers=scenario.other_defers)
    if scenario.before:
        await scenario.before(other_app)
    hook = call_after_commit(commit, partial(disturbance, other_app))
    app = open_app(commit, hook, defers=scenario.work_defers)
    code = await scenario.work(app)
    assert code in (None, "CONFLICT", "NOT_FOUND"), commit
    return app.commits >= commit


@KILL_AT_SOME_OR_ALL_COMMITS
@pytest.mark.parametrize(
    "scenario",
    [UPLOAD, DEFERRED_UPLOAD, QUESTION_ABOUT_DEFERRED, JOB_AFTER_DEFERRED],
    ids=["upload", "deferred upload", "question", "job"],
)
async def test_a_document_erased_meanwhile_is_gone(
    open_app: OpenApp, expected: ExpectedState, scenario: Scenario, step: int
) -> None:
    """The answers that were stored for its calls are gone, too."""
    for commit in list_commits(scenario, step):
        if not await disturb(open_app, scenario, commit, erase):
            break
        app = open_app(commit)
        assert await read_workspaces(app) == {}, commit
        assert await read_app_documents(app, STORED_ANSWERS) == {}, commit
        await assert_whole_or_gone(app, expected)
    assert commit > 3


@KILL_AT_SOME_OR_ALL_COMMITS
@pytest.mark.parametrize("stored", [upload, upload_other])
async def test_an_upload_during_an_erasure_is_whole_or_gone(
    open_app: OpenApp, expected: ExpectedState, stored: Work, step: int
) -> None:
    async def upload_again(app: App) -> None:
        await call_extract_with_deadline(app, materials=TEXT)

    erasure = Scenario(erase, stored)
    for commit in list_commits(erasure, step):
        if not await disturb(open_app, erasure, commit, upload_again):
            break
        await assert_whole_or_gone(open_app(commit), expected)
    assert commit > 4


@pytest.mark.parametrize("commit", [2, 3, 4, 5])
async def test_an_erasure_deletes_nothing_of_an_upload_that_finished_it(
    open_app: OpenApp, expected: ExpectedState, commit: int
) -> None:
    """The upload is made right before a commit that would delete what it stores again."""
    app = open_app(commit)
    await upload(app)

    async def upload_again() -> None:
        await extract_result(app, QUERY, materials=TEXT)

    await erase(open_app(commit, call_before_commit(commit, upload_again)))
    assert await read_workspaces(app) == expected.documents


@KILL_AT_SOME_OR_ALL_COMMITS
@pytest.mark.parametrize("scenario", [UPLOAD, JOB_AFTER_DEFERRED], ids=["upload", "job"])
async def test_no_work_continues_another_upload(
    open_app: OpenApp, expected: ExpectedState, scenario: Scenario, step: int
) -> None:
    """The other upload is made after an erasure, and waits because its embedder is down."""
    for commit in list_commits(scenario, step):
        broken_app = open_app(commit, is_down=True)

        async def erase_and_begin_upload(app: App, broken_app: App = broken_app) -> None:
            await erase(app)
            assert await upload(broken_app) == "UNAVAILABLE"

        if not await disturb(open_app, scenario, commit, erase_and_begin_upload):
            break
        await assert_whole_or_gone(open_app(commit), expected)
    assert commit > 3


async def die_in_erasure(app: App) -> None:
    with suppress(Killed):
        await erase(app)


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_two_interleaved_erasures_both_complete(open_app: OpenApp, step: int) -> None:
    erasure = Scenario(erase, upload)
    for commit in list_commits(erasure, step):
        if not await disturb(open_app, erasure, commit, erase):
            break
        assert await read_workspaces(open_app(commit)) == {}, commit
        assert await read_app_documents(open_app(commit), STORED_ANSWERS) == {}, commit
    assert commit > 4


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_an_erasure_overtaken_by_one_that_died_completes(
    open_app: OpenApp, step: int
) -> None:
    erasure = Scenario(erase, upload)
    for commit in list_commits(erasure, step):
        await upload(open_app(commit))
        killed_app = open_app(commit, call_after_commit(commit, die))
        hook = call_before_commit(commit, partial(die_in_erasure, killed_app))
        erasing_app = open_app(commit, hook)
        async with asyncio.timeout(ERASURE_SECONDS):
            await erase(erasing_app)
        assert await read_workspaces(erasing_app) == {}, commit
        if erasing_app.commits < commit:
            break
    assert commit > 4


@KILL_AT_SOME_OR_ALL_COMMITS
@pytest.mark.parametrize("next_event", ["upload", "purge"])
async def test_a_partly_erased_workspace_is_not_found(
    open_app: OpenApp, expected: ExpectedState, next_event: str, step: int
) -> None:
    """An upload or the purge completes the erasure."""
    for commit in list_commits(Scenario(erase, upload), step):
        app = open_app(commit)
        killed_app = open_app(commit, call_after_commit(commit, die))
        await upload(app)
        await die_in_erasure(killed_app)
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
