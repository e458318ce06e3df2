"""`extract_key_info` is killed after each of its commits: nothing is seen by half, nor done twice.

Each kill has a database of its own, which must hold in the end what one without a kill holds.
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
SHORT: Final[dict[str, Any]] = {"extract_materials_characters": 500}
"""Settings by which these materials are too long for a call."""


@pytest.fixture(scope="module")
def dying() -> Iterator[KillableChildren]:
    """Who makes the calls that die."""
    with killable_children() as them:
        yield them


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    """Embeds for everybody."""
    with FakeOpenAI() as server:
        yield server


@asynccontextmanager
async def opened(
    fake: FakeOpenAI, project: str, since: timedelta = timedelta(minutes=30), **more: Any
) -> AsyncIterator[App]:
    """A process that lives; by its clock, all leases of those that died have ended."""
    later = utc_now() + since
    app = App(openai_settings(fake, project, **more), clock=lambda: later)
    yield app
    await app.aclose()


async def survives(
    dying: KillableChildren, fields: dict[str, Any], commits: int, **order: Any
) -> bool:
    """Whether a process that dies after so many commits gets to its end before."""
    return await anyio.to_thread.run_sync(partial(dying.survives, fields, commits, **order))


async def asked(app: App, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer to a call."""
    answer = dict(arguments)
    return await extract_result(app, answer.pop("query"), **answer)


async def ingested(app: App) -> Report:
    """Run the job to its end."""
    report = await run_job(INGEST_MATERIALS, app)
    assert isinstance(report, Report), report
    assert report.finished
    return report


async def status(app: App) -> DocumentStatus | None:
    """What is stored of the materials says so."""
    record = (await stored_contents(app)).get(f"default/documents/{ID}")
    return DocumentStatus(record["status"]) if record else None


@SOME_OR_ALL
async def test_a_killed_call_can_be_repeated(
    dying: KillableChildren, fake: FakeOpenAI, project: str, step: int
) -> None:
    async with opened(fake, f"{project}-calm") as calm:
        answer = await asked(calm, ASKED)
        expected = await asked(calm, ASKED | {"idempotency_key": "other"})
        whole = await stored_contents(calm)
    assert PARAGRAPHS == answer["considered"]
    order = {"user": READER.user_id, "arguments": ASKED}
    for commits in range(0, 20, step):
        there = f"{project}-{commits}"
        fields = openai_fields(fake, there)
        if await survives(dying, fields, commits, **order):
            break
        async with opened(fake, there) as app:
            come = await status(app)
            if come is not DocumentStatus.READY:
                await assert_not_found(app, TEXT)
            stored, before = await texts_with_vectors(app), len(embedded_passages(fake))
            repeated = await asked(app, ASKED)
            assert (expected if come is DocumentStatus.READY else answer) | {
                "known": repeated["known"]
            } == repeated
            assert (commits, {}) == (commits, difference(whole, await stored_contents(app)))
            anew = embedded_passages(fake)[before:]
            assert sorted(set(TEXT.split("\n\n")) - stored) == sorted(anew), commits
    assert commits > 5


@SOME_OR_ALL
async def test_a_deferring_call_can_be_killed_after_any_commit(
    dying: KillableChildren, fake: FakeOpenAI, project: str, step: int
) -> None:
    async with opened(fake, f"{project}-calm", **SHORT) as calm:
        assert "pending" == (await asked(calm, ASKED))["status"]
        documents = await stored_contents(calm)
        await ingested(calm)
        answer = await asked(calm, BY_ID)
        whole = await stored_contents(calm)
    order = {"user": READER.user_id, "arguments": ASKED}
    for commits in range(0, 20, step):
        there = f"{project}-{commits}"
        fields = openai_fields(fake, there, **SHORT)
        if await survives(dying, fields, commits, **order):
            break
        async with opened(fake, there, **SHORT) as app:
            waits = await status(app) is DocumentStatus.WAITING
            if not waits:
                await assert_not_found(app, TEXT)
            before = len(embedded_passages(fake))
            repeated = await asked(app, ASKED)
            # What was answered as pending is answered so again, with the same key.
            assert ("pending", False) == (repeated["status"], repeated["known"])
            assert (commits, waits or documents) == (commits, waits or await stored_contents(app))
            await ingested(app)
            assert answer == await asked(app, BY_ID)
            assert (commits, {}) == (commits, difference(whole, await stored_contents(app)))
            assert sorted(TEXT.split("\n\n")) == sorted(embedded_passages(fake)[before:])
    assert commits > 5


@SOME_OR_ALL
async def test_a_resuming_call_can_be_killed_after_any_commit(
    dying: KillableChildren, fake: FakeOpenAI, project: str, step: int
) -> None:
    async with opened(fake, f"{project}-calm", **SHORT) as calm:
        await asked(calm, ASKED)
        answer = await asked(calm, BY_ID)
        whole = await stored_contents(calm)
    order = {"user": READER.user_id, "arguments": BY_ID}
    for commits in range(0, 20, step):
        there = f"{project}-{commits}"
        async with opened(fake, there, **SHORT) as app:
            await asked(app, ASKED)
            fields = openai_fields(fake, there, **SHORT)
            if await survives(dying, fields, commits, **order):
                break
            stored, before = await texts_with_vectors(app), len(embedded_passages(fake))
            assert answer == await asked(app, BY_ID)
            assert (commits, {}) == (commits, difference(whole, await stored_contents(app)))
            anew = embedded_passages(fake)[before:]
            assert sorted(set(TEXT.split("\n\n")) - stored) == sorted(anew), commits
    assert commits > 3


@SOME_OR_ALL
async def test_a_killed_job_is_continued_by_the_next_run(
    dying: KillableChildren, fake: FakeOpenAI, project: str, step: int
) -> None:
    async with opened(fake, f"{project}-calm", **SHORT) as calm:
        await asked(calm, ASKED)
        await ingested(calm)
        whole = await stored_contents(calm)
        answer = await asked(calm, BY_ID)
    for commits in range(0, 20, step):
        there = f"{project}-{commits}"
        async with opened(fake, there, **SHORT) as app:
            await asked(app, ASKED)
            fields = openai_fields(fake, there, **SHORT)
            if await survives(dying, fields, commits, job="ingest_materials"):
                break
            stored, before = await texts_with_vectors(app), len(embedded_passages(fake))
            report = await ingested(app)
            assert (commits, {}) == (commits, difference(whole, await stored_contents(app)))
            anew = embedded_passages(fake)[before:]
            assert sorted(set(TEXT.split("\n\n")) - stored) == sorted(anew), commits
            assert len(anew) == report.counts["embedded"]
            assert answer == await asked(app, BY_ID)
    assert commits >= 3


@pytest.mark.slow
@pytest.mark.parametrize("order", [{"user": READER.user_id, "erase": "default"}, {"job": "purge"}])
async def test_a_killed_erasure_is_continued_by_the_next_purge(
    dying: KillableChildren, fake: FakeOpenAI, project: str, order: dict[str, Any]
) -> None:
    for commits in count():
        there = f"{project}-{commits}"
        fields = openai_fields(fake, there)
        async with opened(fake, there, timedelta(days=-100)) as long_ago:
            await asked(long_ago, ASKED)
        done = await survives(dying, fields, commits, **order)
        async with opened(fake, there) as app:
            if done:
                assert {} == await stored_contents(app)
                break
            if commits > ("job" in order):  # the first commit of a job is its lease
                await assert_not_found(app, TEXT)
            assert isinstance(await run_job(PURGE, app), Report)
            assert (commits, {}) == (commits, await stored_contents(app))
            assert (commits, []) == (commits, await stored_answers(app))
    assert commits > 4
