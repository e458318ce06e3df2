"""Documents erased during their upload, or uploaded during an erasure, are complete or gone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.jobs.ingest_materials.job import JOB as INGEST_MATERIALS
from functions.jobs.purge.job import JOB as PURGE
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.job import Report, run_job
from shared.workspaces.erasure import WorkspaceErasure
from shared.workspaces.model import content_id
from shared.workspaces.repository import Workspace
from tests.support.commit_hooks import SOME_OR_ALL, WatchedApp, after, before, send_commit
from tests.support.fakes.embedder import WordEmbedder
from tests.support.materials import READER, extract_result
from tests.support.stored_materials import (
    QUERY,
    ask,
    assert_not_found,
    difference,
    make_text,
    stored_answers,
    stored_contents,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from shared.runtime.context import App
    from tests.support.commit_hooks import CommitHook, Results, Send

    Open = Callable[..., WatchedApp]
    ExpectedState = tuple[dict[str, Any], dict[str, dict[str, Any]]]

pytestmark = pytest.mark.anyio

TEXT: Final = make_text()
ID: Final = content_id(TEXT)
LOW_LIMIT: Final[dict[str, Any]] = {"extract_materials_characters": 500}
"""Settings by which the text is too long for a call."""
DOWN: Final = WordEmbedder()
DOWN.down = True


ERASURE_SECONDS: Final = 60.0
"""The seconds within which an erasure of some pages ends, even beside another writer."""


class Killed(Exception):
    """Stands for a process that is killed."""


@pytest.fixture
async def open_app(project: str) -> AsyncIterator[Open]:
    """Makes apps; each number has its own database."""
    apps: list[App] = []

    def make_app(
        number: int, around: CommitHook = send_commit, *, down: bool = False, short: bool = False
    ) -> WatchedApp:
        settings = Settings(
            google_cloud_project=f"{project}-{number}", **(LOW_LIMIT if short else {})
        )
        app = WatchedApp(settings, around, embedder=DOWN if down else WordEmbedder())
        apps.append(app)
        return app

    yield make_app
    for app in apps:
        await app.aclose()


async def die() -> None:
    raise Killed


async def erase(app: App, task: str = "default") -> None:
    """Erase a workspace of the reader, as the command does."""
    database = app.context(READER, Meter()).database
    erasure = WorkspaceErasure(database, Workspace(database, str(READER.user_id), task))
    if await erasure.begin():
        async for _ in erasure.pages():
            pass


async def erase_and_begin(other: App, broken: App) -> None:
    """Erase the workspace, then begin an upload that cannot be completed."""
    await erase(other)
    assert await error_code(broken, materials=TEXT) == "UNAVAILABLE"


@pytest.fixture
async def expected(open_app: Open) -> ExpectedState:
    """The answer and the stored documents without any erasure."""
    calm = open_app(-1)
    return await extract_result(calm, QUERY, materials=TEXT), await stored_contents(calm)


async def assert_whole_or_gone(app: App, expected: ExpectedState) -> None:
    """Assert that the document is complete or gone, and can be uploaded again."""
    answer, documents_expected = expected
    project_id = app.settings.google_cloud_project
    documents = await stored_contents(app)
    erasing = documents.get("default", {}).get("erasing")
    if not erasing and documents.get(f"default/documents/{ID}", {}).get("status") == "ready":
        assert (project_id, difference(documents_expected, documents)) == (project_id, {})
    else:
        await assert_not_found(app, TEXT)
    result = await extract_result(app, QUERY, materials=TEXT)
    assert (project_id, answer | {"known": result["known"]}) == (project_id, result)
    assert (
        project_id,
        difference(documents_expected, await stored_contents(app)),
    ) == (project_id, {})


@SOME_OR_ALL
async def test_a_document_erased_during_its_upload_is_gone(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    conflicts = 0
    for commits in range(0, 20, step):
        other = open_app(commits)
        arriving = open_app(commits, after(commits, partial(erase, other)))
        answer = await ask(arriving, materials=TEXT)
        if arriving.commits < commits:
            break
        documents = await stored_contents(other)
        if answer.error:
            conflicts += 1
            assert (commits, answer.error.code) == (commits, "CONFLICT")
            assert "again" in answer.error.message
        if answer.error or commits == arriving.commits:
            assert (commits, documents) == (commits, {})
        await assert_whole_or_gone(other, expected)
    assert conflicts >= 3 / step


@SOME_OR_ALL
async def test_a_document_erased_while_deferred_is_gone(
    open_app: Open,
    step: int,
) -> None:
    for commits in range(2, 20, step):
        other = open_app(commits, short=True)
        arriving = open_app(commits, after(commits, partial(erase, other)), short=True)
        answer = await ask(arriving, materials=TEXT)
        if arriving.commits < commits:
            break
        assert (commits, await stored_contents(other)) == (commits, {})
        assert answer.error is None or "CONFLICT" == answer.error.code
        assert await error_code(other, document=ID) == "NOT_FOUND"
    assert commits > 4


@SOME_OR_ALL
async def test_a_document_erased_while_resumed_is_gone(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    for commits in range(1, 20, step):
        other = open_app(commits, short=True)
        assert (await extract_result(other, QUERY, materials=TEXT))["status"] == "pending"
        asking = open_app(commits, after(commits, partial(erase, other)))
        answer = await ask(asking, document=ID)
        if asking.commits < commits:
            break
        assert (commits, await stored_contents(other)) == (commits, {})
        assert answer.error is None or answer.error.code in ("CONFLICT", "NOT_FOUND")
        await assert_whole_or_gone(open_app(commits), expected)
    assert commits > 3


@SOME_OR_ALL
async def test_a_document_erased_during_the_job_is_gone(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    for commits in range(1, 20, step):
        other = open_app(commits, short=True)
        assert (await extract_result(other, QUERY, materials=TEXT))["status"] == "pending"
        running = open_app(commits, after(commits, partial(erase, other)))
        report = await run_job(INGEST_MATERIALS, running)
        if running.commits < commits:
            break
        assert isinstance(report, Report)
        assert (commits, await stored_contents(other)) == (commits, {})
        assert (commits, report.failures) == (commits, [])
        await assert_whole_or_gone(open_app(commits), expected)
    assert commits > 3


@SOME_OR_ALL
async def test_an_upload_during_an_erasure_is_whole_or_gone(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    for commits in range(1, 20, step):
        other = open_app(commits)
        await extract_result(other, QUERY, materials=TEXT)
        erasing = open_app(commits, after(commits, partial(ask, other, materials=TEXT)))
        await erase(erasing)
        if erasing.commits < commits:
            break
        await assert_whole_or_gone(open_app(commits), expected)
    assert commits > 4


@SOME_OR_ALL
async def test_another_upload_during_an_erasure_is_whole_or_gone(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    for commits in range(1, 20, step):
        other = open_app(commits)
        await extract_result(other, QUERY, materials=make_text(3, first=500))
        erasing = open_app(commits, after(commits, partial(ask, other, materials=TEXT)))
        await erase(erasing)
        if erasing.commits < commits:
            break
        await assert_whole_or_gone(open_app(commits), expected)
    assert commits > 4


@SOME_OR_ALL
async def test_a_call_never_continues_another_upload(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    for commits in range(2, 20, step):
        other, broken = open_app(commits), open_app(commits, down=True)
        arriving = open_app(commits, after(commits, partial(erase_and_begin, other, broken)))
        await ask(arriving, materials=TEXT)
        if arriving.commits < commits:
            break
        await assert_whole_or_gone(open_app(commits), expected)
    assert commits > 4


@SOME_OR_ALL
async def test_the_job_never_continues_another_upload(
    open_app: Open, expected: ExpectedState, step: int
) -> None:
    for commits in range(1, 20, step):
        other, broken = open_app(commits, short=True), open_app(commits, down=True)
        assert (await extract_result(other, QUERY, materials=TEXT))["status"] == "pending"
        running = open_app(commits, after(commits, partial(erase_and_begin, other, broken)))
        await run_job(INGEST_MATERIALS, running)
        if running.commits < commits:
            break
        await assert_whole_or_gone(open_app(commits), expected)
    assert commits > 3


@SOME_OR_ALL
async def test_an_answer_of_an_erased_workspace_is_not_stored(
    open_app: Open,
    step: int,
) -> None:
    for commits in range(2, 20, step):
        other = open_app(commits)
        arriving = open_app(commits, after(commits, partial(erase, other)))
        await ask(arriving, materials=TEXT, idempotency_key="k")
        if arriving.commits < commits:
            break
        assert (commits, await stored_answers(other)) == (commits, [])
    assert commits > 4


@SOME_OR_ALL
async def test_two_erasures_at_once_both_end(open_app: Open, step: int) -> None:
    for commits in range(1, 20, step):
        other = open_app(commits)
        await extract_result(other, QUERY, materials=TEXT, idempotency_key="k")
        erasing = open_app(commits, after(commits, partial(erase, other)))
        await erase(erasing)
        if erasing.commits < commits:
            break
        assert (
            commits,
            await stored_contents(other),
            await stored_answers(other),
        ) == (commits, {}, [])
    assert commits > 4
    await extract_result(other, QUERY, materials=TEXT)
    await asyncio.gather(*(erase(app) for app in (other, open_app(commits), other)))
    assert await stored_contents(other) == {}


@pytest.mark.slow
@pytest.mark.parametrize("then", ["upload", "purge"])
async def test_a_partly_erased_workspace_can_be_purged(
    open_app: Open, expected: ExpectedState, then: str
) -> None:
    for commits in range(1, 20):
        app, dying = open_app(commits), open_app(commits, after(commits, die))
        await extract_result(app, QUERY, materials=TEXT)
        with suppress(Killed):
            await erase(dying)
        if dying.commits < commits:
            break
        await assert_not_found(app, TEXT)
        if then == "purge":
            await run_job(PURGE, app)
            assert (commits, await stored_contents(app)) == (commits, {})
        await assert_whole_or_gone(app, expected)
    assert commits > 4


async def die_while_erasing(dying: App) -> None:
    with suppress(Killed):
        await erase(dying)


@SOME_OR_ALL
async def test_an_erasure_ends_beside_one_that_died(open_app: Open, step: int) -> None:
    for commits in range(1, 20, step):
        other, dying = open_app(commits), open_app(commits, after(commits, die))
        await extract_result(other, QUERY, materials=TEXT)
        erasing = open_app(commits, before(commits, partial(die_while_erasing, dying)))
        async with asyncio.timeout(ERASURE_SECONDS):
            await erase(erasing)
        assert (commits, await stored_contents(other)) == (commits, {})
        if erasing.commits < commits:
            break
    assert commits > 4


async def race(open_on: Open, arrived: int, erased: int) -> int:
    """Upload a text, erase it during the upload, and let both continue at the same time.

    Args:
        open_on: Makes apps for one database.
        arrived: The commit of the upload after which the erasure begins.
        erased: The commit of the erasure before which it pauses.

    Returns:
        The number of commits of the erasure.
    """
    paused, finished = asyncio.Event(), asyncio.Event()
    erasures: list[asyncio.Task[None]] = []

    async def pause() -> None:
        paused.set()
        await finished.wait()

    erasing_app = open_on(before(erased, pause))

    async def erase_all() -> None:
        await erase(erasing_app)
        paused.set()

    async def around(commit: int, send: Send) -> Results:
        try:
            return await send()
        finally:
            if commit == arrived:
                erasures.append(asyncio.create_task(erase_all()))
                await paused.wait()
            elif commit > arrived:
                finished.set()

    answer = await ask(open_on(around), materials=TEXT)
    assert answer.error is None or "CONFLICT" == answer.error.code
    finished.set()
    async with asyncio.timeout(ERASURE_SECONDS):
        await erasures[0]
    return erasing_app.commits


@pytest.mark.slow
@pytest.mark.parametrize("arrived", [2, 3, 4])
async def test_an_erasure_ends_beside_an_upload(
    open_app: Open, expected: ExpectedState, arrived: int
) -> None:
    for commits in range(1, 20):
        erasure_commits = await race(partial(open_app, commits), arrived, commits)
        await assert_whole_or_gone(open_app(commits), expected)
        if erasure_commits < commits:
            break
    assert commits > 4


async def error_code(app: App, **arguments: Any) -> str | None:
    """Return the code of the error, if the call fails."""
    answer = await ask(app, **arguments)
    return answer.error.code if answer.error else None
