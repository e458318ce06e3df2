"""Materials are erased while they arrive, and arrive while they are erased: whole, or gone."""

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
from tests.support.commit_hooks import SOME_OR_ALL, WatchedApp, after, before, plainly
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
    from tests.support.commit_hooks import Around, Results, Send

    Open = Callable[..., WatchedApp]
    Whole = tuple[dict[str, Any], dict[str, dict[str, Any]]]

pytestmark = pytest.mark.anyio

TEXT: Final = make_text()
ID: Final = content_id(TEXT)
SHORT: Final[dict[str, Any]] = {"extract_materials_characters": 500}
"""Settings by which these materials are too long for a call."""
DOWN: Final = WordEmbedder()
DOWN.down = True


SOON: Final = 60.0
"""Seconds in which an erasure of some pages is over, even where somebody is in its way."""


class Died(Exception):
    """Stands for a process that is killed."""


@pytest.fixture
async def opened(project: str) -> AsyncIterator[Open]:
    """Opens processes, each number on a database of its own."""
    backends: list[App] = []

    def open_one(
        number: int, around: Around = plainly, *, down: bool = False, short: bool = False
    ) -> WatchedApp:
        settings = Settings(google_cloud_project=f"{project}-{number}", **(SHORT if short else {}))
        app = WatchedApp(settings, around, embedder=DOWN if down else WordEmbedder())
        backends.append(app)
        return app

    yield open_one
    for app in backends:
        await app.aclose()


async def die() -> None:
    raise Died


async def erase(app: App, task: str = "default") -> None:
    """Erase a task of the reader's, as the command does."""
    database = app.context(READER, Meter()).database
    erasure = WorkspaceErasure(database, Workspace(database, str(READER.user_id), task))
    if await erasure.begin():
        async for _ in erasure.pages():
            pass


async def erase_and_begin(other: App, broken: App) -> None:
    """Erase the task, and bring the same materials where that cannot be finished."""
    await erase(other)
    assert await code(broken, materials=TEXT) == "UNAVAILABLE"


@pytest.fixture
async def whole(opened: Open) -> Whole:
    """The answer, and what is stored, where nobody erases anything."""
    calm = opened(-1)
    return await extract_result(calm, QUERY, materials=TEXT), await stored_contents(calm)


async def assert_whole_or_gone(app: App, whole: Whole) -> None:
    """Either all of the text is there and is found, or nothing is; and it can be brought again."""
    answer, everything = whole
    there = app.settings.google_cloud_project
    documents = await stored_contents(app)
    erasing = documents.get("default", {}).get("erasing")
    if not erasing and documents.get(f"default/documents/{ID}", {}).get("status") == "ready":
        assert (there, {}) == (there, difference(everything, documents))
    else:
        await assert_not_found(app, TEXT)
    result = await extract_result(app, QUERY, materials=TEXT)
    assert (there, answer | {"known": result["known"]}) == (there, result)
    assert (there, {}) == (there, difference(everything, await stored_contents(app)))


@SOME_OR_ALL
async def test_a_document_erased_during_its_upload_is_gone(
    opened: Open, whole: Whole, step: int
) -> None:
    conflicts = 0
    for commits in range(0, 20, step):
        other = opened(commits)
        arriving = opened(commits, after(commits, partial(erase, other)))
        answer = await ask(arriving, materials=TEXT)
        if arriving.commits < commits:
            break
        documents = await stored_contents(other)
        if answer.error:
            conflicts += 1
            assert (commits, "CONFLICT") == (commits, answer.error.code)
            assert "again" in answer.error.message
        if answer.error or commits == arriving.commits:
            assert (commits, {}) == (commits, documents)
        await assert_whole_or_gone(other, whole)
    assert conflicts >= 3 / step


@SOME_OR_ALL
async def test_a_document_erased_while_deferred_is_gone(
    opened: Open,
    step: int,
) -> None:
    for commits in range(2, 20, step):
        other = opened(commits, short=True)
        arriving = opened(commits, after(commits, partial(erase, other)), short=True)
        answer = await ask(arriving, materials=TEXT)
        if arriving.commits < commits:
            break
        assert (commits, {}) == (commits, await stored_contents(other))
        assert answer.error is None or "CONFLICT" == answer.error.code
        assert "NOT_FOUND" == await code(other, document=ID)
    assert commits > 4


@SOME_OR_ALL
async def test_a_document_erased_while_resumed_is_gone(
    opened: Open, whole: Whole, step: int
) -> None:
    for commits in range(1, 20, step):
        other = opened(commits, short=True)
        assert "pending" == (await extract_result(other, QUERY, materials=TEXT))["status"]
        asking = opened(commits, after(commits, partial(erase, other)))
        answer = await ask(asking, document=ID)
        if asking.commits < commits:
            break
        assert (commits, {}) == (commits, await stored_contents(other))
        assert answer.error is None or answer.error.code in ("CONFLICT", "NOT_FOUND")
        await assert_whole_or_gone(opened(commits), whole)
    assert commits > 3


@SOME_OR_ALL
async def test_a_document_erased_during_the_job_is_gone(
    opened: Open, whole: Whole, step: int
) -> None:
    for commits in range(1, 20, step):
        other = opened(commits, short=True)
        assert "pending" == (await extract_result(other, QUERY, materials=TEXT))["status"]
        running = opened(commits, after(commits, partial(erase, other)))
        report = await run_job(INGEST_MATERIALS, running)
        if running.commits < commits:
            break
        assert isinstance(report, Report)
        assert (commits, {}) == (commits, await stored_contents(other))
        assert (commits, []) == (commits, report.failures)
        await assert_whole_or_gone(opened(commits), whole)
    assert commits > 3


@SOME_OR_ALL
async def test_an_upload_during_an_erasure_is_whole_or_gone(
    opened: Open, whole: Whole, step: int
) -> None:
    for commits in range(1, 20, step):
        other = opened(commits)
        await extract_result(other, QUERY, materials=TEXT)
        erasing = opened(commits, after(commits, partial(ask, other, materials=TEXT)))
        await erase(erasing)
        if erasing.commits < commits:
            break
        await assert_whole_or_gone(opened(commits), whole)
    assert commits > 4


@SOME_OR_ALL
async def test_another_upload_during_an_erasure_is_whole_or_gone(
    opened: Open, whole: Whole, step: int
) -> None:
    for commits in range(1, 20, step):
        other = opened(commits)
        await extract_result(other, QUERY, materials=make_text(3, first=500))
        erasing = opened(commits, after(commits, partial(ask, other, materials=TEXT)))
        await erase(erasing)
        if erasing.commits < commits:
            break
        await assert_whole_or_gone(opened(commits), whole)
    assert commits > 4


@SOME_OR_ALL
async def test_a_call_never_continues_another_upload(opened: Open, whole: Whole, step: int) -> None:
    for commits in range(2, 20, step):
        other, broken = opened(commits), opened(commits, down=True)
        arriving = opened(commits, after(commits, partial(erase_and_begin, other, broken)))
        await ask(arriving, materials=TEXT)
        if arriving.commits < commits:
            break
        await assert_whole_or_gone(opened(commits), whole)
    assert commits > 4


@SOME_OR_ALL
async def test_the_job_never_continues_another_upload(
    opened: Open, whole: Whole, step: int
) -> None:
    for commits in range(1, 20, step):
        other, broken = opened(commits, short=True), opened(commits, down=True)
        assert "pending" == (await extract_result(other, QUERY, materials=TEXT))["status"]
        running = opened(commits, after(commits, partial(erase_and_begin, other, broken)))
        await run_job(INGEST_MATERIALS, running)
        if running.commits < commits:
            break
        await assert_whole_or_gone(opened(commits), whole)
    assert commits > 3


@SOME_OR_ALL
async def test_an_answer_of_an_erased_workspace_is_not_stored(
    opened: Open,
    step: int,
) -> None:
    for commits in range(2, 20, step):
        other = opened(commits)
        arriving = opened(commits, after(commits, partial(erase, other)))
        await ask(arriving, materials=TEXT, idempotency_key="k")
        if arriving.commits < commits:
            break
        assert (commits, []) == (commits, await stored_answers(other))
    assert commits > 4


@SOME_OR_ALL
async def test_two_erasures_at_once_both_end(opened: Open, step: int) -> None:
    for commits in range(1, 20, step):
        other = opened(commits)
        await extract_result(other, QUERY, materials=TEXT, idempotency_key="k")
        erasing = opened(commits, after(commits, partial(erase, other)))
        await erase(erasing)
        if erasing.commits < commits:
            break
        assert (commits, {}, []) == (
            commits,
            await stored_contents(other),
            await stored_answers(other),
        )
    assert commits > 4
    await extract_result(other, QUERY, materials=TEXT)
    await asyncio.gather(*(erase(app) for app in (other, opened(commits), other)))
    assert {} == await stored_contents(other)


@pytest.mark.slow
@pytest.mark.parametrize("then", ["bring", "purge"])
async def test_a_partly_erased_workspace_can_be_purged(
    opened: Open, whole: Whole, then: str
) -> None:
    for commits in range(1, 20):
        app, dying = opened(commits), opened(commits, after(commits, die))
        await extract_result(app, QUERY, materials=TEXT)
        with suppress(Died):
            await erase(dying)
        if dying.commits < commits:
            break
        await assert_not_found(app, TEXT)
        if then == "purge":
            await run_job(PURGE, app)
            assert (commits, {}) == (commits, await stored_contents(app))
        await assert_whole_or_gone(app, whole)
    assert commits > 4


async def die_while_erasing(dying: App) -> None:
    with suppress(Died):
        await erase(dying)


@SOME_OR_ALL
async def test_an_erasure_ends_beside_one_that_died(opened: Open, step: int) -> None:
    for commits in range(1, 20, step):
        other, dying = opened(commits), opened(commits, after(commits, die))
        await extract_result(other, QUERY, materials=TEXT)
        erasing = opened(commits, before(commits, partial(die_while_erasing, dying)))
        async with asyncio.timeout(SOON):
            await erase(erasing)
        assert (commits, {}) == (commits, await stored_contents(other))
        if erasing.commits < commits:
            break
    assert commits > 4


async def raced(open_here: Open, arrived: int, erased: int) -> int:
    """Bring materials; after so many commits erase them until before so many; then go on at once.

    Returns:
        How many commits the erasure took.
    """
    reached, finished = asyncio.Event(), asyncio.Event()
    under_way: list[asyncio.Task[None]] = []

    async def pause() -> None:
        reached.set()
        await finished.wait()

    eraser = open_here(before(erased, pause))

    async def erase_all() -> None:
        await erase(eraser)
        reached.set()

    async def around(commit: int, send: Send) -> Results:
        try:
            return await send()
        finally:
            if commit == arrived:
                under_way.append(asyncio.create_task(erase_all()))
                await reached.wait()
            elif commit > arrived:
                finished.set()

    answer = await ask(open_here(around), materials=TEXT)
    assert answer.error is None or "CONFLICT" == answer.error.code
    finished.set()
    async with asyncio.timeout(SOON):
        await under_way[0]
    return eraser.commits


@pytest.mark.slow
@pytest.mark.parametrize("arrived", [2, 3, 4])
async def test_an_erasure_ends_beside_an_upload(opened: Open, whole: Whole, arrived: int) -> None:
    for commits in range(1, 20):
        took = await raced(partial(opened, commits), arrived, commits)
        await assert_whole_or_gone(opened(commits), whole)
        if took < commits:
            break
    assert commits > 4


async def code(app: App, **arguments: Any) -> str | None:
    """The code of the error that is answered, if it is one."""
    answer = await ask(app, **arguments)
    return answer.error.code if answer.error else None
