"""The call that defers a text pays for its first answer; each later answer has its price.

A receipt without a price is charged the price of the tool.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.jobs.ingest_materials.job import JOB as INGEST_MATERIALS
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.job import run_job
from shared.workspaces.model import content_id
from shared.workspaces.repository import Workspace
from tests.support.commit_hooks import (
    SOME_OR_ALL,
    WatchedApp,
    call_after,
    send_commit,
    send_commit_twice,
)
from tests.support.fakes.embedder import WordEmbedder
from tests.support.materials import READER
from tests.support.stored_materials import call_extract_with_deadline, make_text, read_workspaces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from shared.runtime.context import App
    from tests.support.commit_hooks import CommitHook

    Open = Callable[..., WatchedApp]

pytestmark = pytest.mark.anyio

TEXT: Final = make_text()
ID: Final = content_id(TEXT)
LOW_LIMIT: Final[dict[str, Any]] = {"extract_materials_characters": 500}
"""Settings by which the text is too long for a call."""
FREE: Final = 0
FULL_PRICE: Final = None


class Killed(Exception):
    """An exception that stands for a kill of the process."""


async def die() -> None:
    raise Killed


@pytest.fixture
async def open_app(project: str) -> AsyncIterator[Open]:
    """A function that makes apps. Each number has its own database."""
    apps: list[WatchedApp] = []

    def make_app(
        number: int = 0, around: CommitHook = send_commit, *, down: bool = False
    ) -> WatchedApp:
        settings = Settings(google_cloud_project=f"{project}-{number}", **LOW_LIMIT)
        embedder = WordEmbedder()
        embedder.is_down = down
        apps.append(WatchedApp(settings, around, embedder=embedder))
        return apps[-1]

    yield make_app
    for app in apps:
        await app.aclose()


async def read_status_and_price(app: App, **arguments: Any) -> tuple[str, int | None]:
    """Return the status or error code of a call, and its price."""
    answer = await call_extract_with_deadline(app, **arguments)
    if answer.error:
        return answer.error.code, FREE
    assert answer.result
    return answer.result["status"], answer.receipt.price


async def upload_and_ask(app: App) -> None:
    """Upload the text and get an answer."""
    assert await read_status_and_price(app, materials=TEXT) == ("pending", FULL_PRICE)
    assert await read_status_and_price(app, document=ID) == ("ready", FREE)


async def ask_and_append(app: App, answers: list[tuple[str, int | None]]) -> None:
    """Ask about the document, and append the status and the price."""
    answers.append(await read_status_and_price(app, document=ID))


async def test_an_immediate_answer_costs_each_time(open_app: Open) -> None:
    app = open_app()
    text = make_text(5)
    assert await read_status_and_price(app, materials=text) == ("ready", FULL_PRICE)
    assert await read_status_and_price(app, materials=text) == ("ready", FULL_PRICE)
    assert await read_status_and_price(app, document=content_id(text)) == ("ready", FULL_PRICE)


@pytest.mark.parametrize("target", [{"document": ID}, {"materials": TEXT}])
async def test_the_first_answer_of_a_deferred_text_is_prepaid(
    open_app: Open, target: dict[str, str]
) -> None:
    app = open_app()
    assert await read_status_and_price(app, materials=TEXT) == ("pending", FULL_PRICE)
    await run_job(INGEST_MATERIALS, app)
    assert await read_status_and_price(app, **target) == ("ready", FREE)
    assert await read_status_and_price(app, **target) == ("ready", FULL_PRICE)


async def test_a_pending_text_is_asked_again_for_free(open_app: Open) -> None:
    app = open_app()
    assert await read_status_and_price(app, materials=TEXT) == ("pending", FULL_PRICE)
    assert await read_status_and_price(open_app(down=True), document=ID) == ("UNAVAILABLE", FREE)
    assert await read_status_and_price(app, document=ID) == ("ready", FREE)
    assert await read_status_and_price(app, document=ID) == ("ready", FULL_PRICE)


async def test_one_of_many_simultaneous_answers_is_prepaid(open_app: Open) -> None:
    app = open_app()
    await read_status_and_price(app, materials=TEXT)
    await run_job(INGEST_MATERIALS, app)
    answers = await asyncio.gather(
        *(read_status_and_price(caller, document=ID) for caller in (app, open_app()) * 3)
    )
    assert [answer for answer in answers if answer != ("ready", FULL_PRICE)] == [("ready", FREE)]


@SOME_OR_ALL
async def test_a_resumed_call_never_restores_a_prepayment(open_app: Open, step: int) -> None:
    for commits in range(1, 20, step):
        other_app = open_app(commits)
        assert await read_status_and_price(other_app, materials=TEXT) == ("pending", FULL_PRICE)
        answers: list[tuple[str, int | None]] = []
        asking_app = open_app(
            commits, call_after(commits, partial(ask_and_append, other_app, answers))
        )
        await ask_and_append(asking_app, answers)
        if asking_app.commits < commits:
            break
        # A call during the embedding by another one is pending and free.
        assert {("pending", FREE), ("ready", FREE), ("ready", FULL_PRICE)}.issuperset(answers)
        assert answers.count(("ready", FREE)) == 1, commits
        assert await read_status_and_price(other_app, document=ID) == ("ready", FULL_PRICE)
    assert commits > 3


@SOME_OR_ALL
async def test_an_overtaken_upload_leaves_the_document_ready(open_app: Open, step: int) -> None:
    for commits in range(2, 20, step):
        other_app = open_app(commits)
        uploading_app = open_app(commits, call_after(commits, partial(upload_and_ask, other_app)))
        await read_status_and_price(uploading_app, materials=TEXT)
        if uploading_app.commits < commits:
            break
        stored = (await read_workspaces(other_app))[f"default/documents/{ID}"]
        assert stored["status"] == "ready", commits
    assert commits > 4


@SOME_OR_ALL
async def test_a_lost_answer_stays_prepaid(open_app: Open, step: int) -> None:
    for commits in range(1, 20, step):
        other_app = open_app(commits)
        assert await read_status_and_price(other_app, materials=TEXT) == ("pending", FULL_PRICE)
        await run_job(INGEST_MATERIALS, other_app)
        killed_app = open_app(commits, call_after(commits, die))
        await call_extract_with_deadline(killed_app, document=ID, idempotency_key="k")
        if killed_app.commits < commits:
            break
        answer = await call_extract_with_deadline(other_app, document=ID, idempotency_key="k")
        assert answer.receipt.price == FREE, commits
        assert await read_status_and_price(other_app, document=ID) == ("ready", FULL_PRICE)
    assert commits > 1


@SOME_OR_ALL
async def test_a_repeated_commit_changes_nothing(open_app: Open, step: int) -> None:
    """Google's client repeats commits by itself."""
    calm_app = open_app(-1)
    costs = [
        await read_status_and_price(calm_app, materials=TEXT),
        await read_status_and_price(calm_app, document=ID),
    ]
    expected_documents = await read_workspaces(calm_app)
    for commits in range(1, 20, step):
        app = open_app(commits, send_commit_twice(commits))
        actual = [
            await read_status_and_price(app, materials=TEXT),
            await read_status_and_price(app, document=ID),
        ]
        assert costs == actual, commits
        assert await read_workspaces(app) == expected_documents
        if app.commits < commits:
            break
    assert commits > 6


async def test_one_payment_buys_one_text(open_app: Open) -> None:
    """The gateway accepts a call with the idempotency key of a paid call without payment."""
    app = open_app()
    assert await read_status_and_price(app, materials=TEXT, idempotency_key="k") == (
        "pending",
        FULL_PRICE,
    )
    for arguments in ({"materials": make_text(first=100)}, {"document": ID}):
        costs = await read_status_and_price(app, idempotency_key="k", **arguments)
        assert costs == ("CONFLICT", FREE)
    assert await read_status_and_price(app, materials=TEXT, idempotency_key="k") == (
        "pending",
        FULL_PRICE,
    )


async def test_of_many_texts_with_one_key_one_is_paid(open_app: Open) -> None:
    app = open_app()
    texts = [make_text(first=100 * number) for number in range(4)]
    costs = await asyncio.gather(
        *(read_status_and_price(app, materials=text, idempotency_key="k") for text in texts)
    )
    assert [cost for cost in costs if cost[0] == "pending"] == [("pending", FULL_PRICE)]
    stored = await read_workspaces(app)
    prepaid = [name for name, fields in stored.items() if fields.get("prepaid")]
    assert len(prepaid) == 1


async def test_one_call_at_a_time_embeds_a_deferred_text(open_app: Open) -> None:
    app = open_app()
    await read_status_and_price(app, materials=TEXT)
    costs = await asyncio.gather(*(read_status_and_price(app, document=ID) for _ in range(5)))
    embedded = {("ready", FREE), ("pending", FREE), ("ready", FULL_PRICE)}
    assert embedded.issuperset(costs)
    assert costs.count(("ready", FREE)) == 1


async def test_a_failed_text_is_uploaded_again_for_free(open_app: Open) -> None:
    app = open_app()
    assert await read_status_and_price(app, materials=TEXT) == ("pending", FULL_PRICE)
    store = Workspace(app.context(READER, Meter()).database, "reader", "default")
    await store.mark_failed(await store.load_document(ID), "it was refused")
    assert await read_status_and_price(app, document=ID) == ("VALIDATION_ERROR", FREE)
    assert await read_status_and_price(app, materials=TEXT) == ("pending", FREE)
    await run_job(INGEST_MATERIALS, app)
    assert await read_status_and_price(app, document=ID) == ("ready", FREE)
    assert await read_status_and_price(app, document=ID) == ("ready", FULL_PRICE)
