"""The call that defers a text pays for the first answer. Each later answer has a price of its own.

A text that is too long for one call is deferred: it is pending until a job or a further call has
embedded it, and ready then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from functions.jobs.ingest_materials.job import JOB as INGEST_MATERIALS
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.job import run_job
from shared.workspaces.model import content_id
from shared.workspaces.repository import Workspace
from tests.support.commit_hooks import (
    KILL_AT_SOME_OR_ALL_COMMITS,
    CommitHook,
    WatchedApp,
    call_after_commit,
    send_commit,
    send_commit_twice,
)
from tests.support.fakes.embedder import WordEmbedder
from tests.support.materials import READER
from tests.support.stored_materials import call_extract_with_deadline, make_text, read_workspaces

Open = Callable[..., WatchedApp]


TEXT: Final = make_text()
DOCUMENT: Final = content_id(TEXT)
"""The id under which the text is stored."""
LOW_LIMIT: Final[dict[str, Any]] = {"extract_materials_characters": 500}
"""Settings that defer the text."""
FREE: Final = 0
FULL_PRICE: Final = None
"""A receipt without a price means the price of the tool."""


class Killed(Exception):
    """The process is killed."""


class Outcome(NamedTuple):
    """The status or the error code of a call, and its price."""

    status: str
    price: int | None


PENDING_AT_FULL_PRICE: Final = Outcome("pending", FULL_PRICE)
PENDING_FOR_FREE: Final = Outcome("pending", FREE)
READY_AT_FULL_PRICE: Final = Outcome("ready", FULL_PRICE)
READY_FOR_FREE: Final = Outcome("ready", FREE)


async def die() -> None:
    """Kill the process."""
    raise Killed


@pytest.fixture
async def open_app(project: str) -> AsyncIterator[Open]:
    """A function that makes apps, which defer the text. Each number has its own database."""
    apps: list[WatchedApp] = []

    def make_app(
        number: int = 0, commit_hook: CommitHook = send_commit, *, is_down: bool = False
    ) -> WatchedApp:
        settings = Settings(google_cloud_project=f"{project}-{number}", **LOW_LIMIT)
        embedder = WordEmbedder()
        embedder.is_down = is_down
        apps.append(WatchedApp(settings, commit_hook, embedder=embedder))
        return apps[-1]

    yield make_app
    for app in apps:
        await app.aclose()


async def call_for_outcome(app: App, **arguments: Any) -> Outcome:
    """Call the tool, and return the outcome."""
    answer = await call_extract_with_deadline(app, **arguments)
    if answer.error:
        return Outcome(answer.error.code, FREE)
    assert answer.result
    return Outcome(answer.result["status"], answer.receipt.price)


async def upload_and_ask(app: App) -> None:
    """Upload the text and get an answer."""
    assert await call_for_outcome(app, materials=TEXT) == PENDING_AT_FULL_PRICE
    assert await call_for_outcome(app, document=DOCUMENT) == READY_FOR_FREE


async def ask_and_append(app: App, outcomes: list[Outcome]) -> None:
    """Ask about the document, and append the outcome."""
    outcomes.append(await call_for_outcome(app, document=DOCUMENT))


async def test_an_immediate_answer_costs_each_time(open_app: Open) -> None:
    app = open_app()
    text = make_text(5)
    assert await call_for_outcome(app, materials=text) == READY_AT_FULL_PRICE
    assert await call_for_outcome(app, materials=text) == READY_AT_FULL_PRICE
    assert await call_for_outcome(app, document=content_id(text)) == READY_AT_FULL_PRICE


@pytest.mark.parametrize("target", [{"document": DOCUMENT}, {"materials": TEXT}])
async def test_the_first_answer_of_a_deferred_text_is_prepaid(
    open_app: Open, target: dict[str, str]
) -> None:
    app = open_app()
    assert await call_for_outcome(app, materials=TEXT) == PENDING_AT_FULL_PRICE
    await run_job(INGEST_MATERIALS, app)
    assert await call_for_outcome(app, **target) == READY_FOR_FREE
    assert await call_for_outcome(app, **target) == READY_AT_FULL_PRICE


async def test_a_pending_text_is_asked_again_for_free(open_app: Open) -> None:
    app = open_app()
    assert await call_for_outcome(app, materials=TEXT) == PENDING_AT_FULL_PRICE
    assert await call_for_outcome(open_app(is_down=True), document=DOCUMENT) == (
        "UNAVAILABLE",
        FREE,
    )
    assert await call_for_outcome(app, document=DOCUMENT) == READY_FOR_FREE
    assert await call_for_outcome(app, document=DOCUMENT) == READY_AT_FULL_PRICE


async def test_one_of_many_simultaneous_answers_is_prepaid(open_app: Open) -> None:
    app = open_app()
    await call_for_outcome(app, materials=TEXT)
    await run_job(INGEST_MATERIALS, app)
    apps = (app, open_app()) * 3
    outcomes = await asyncio.gather(
        *(call_for_outcome(asking_app, document=DOCUMENT) for asking_app in apps)
    )
    assert outcomes.count(READY_FOR_FREE) == 1
    assert outcomes.count(READY_AT_FULL_PRICE) == 5


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_a_resumed_call_never_restores_a_prepayment(open_app: Open, step: int) -> None:
    for commit in range(1, 20, step):
        other_app = open_app(commit)
        assert await call_for_outcome(other_app, materials=TEXT) == PENDING_AT_FULL_PRICE
        outcomes: list[Outcome] = []
        asking_app = open_app(
            commit, call_after_commit(commit, partial(ask_and_append, other_app, outcomes))
        )
        await ask_and_append(asking_app, outcomes)
        if asking_app.commits < commit:
            break
        # A call during the embedding by another one is pending and free.
        assert {PENDING_FOR_FREE, READY_FOR_FREE, READY_AT_FULL_PRICE}.issuperset(outcomes)
        assert outcomes.count(READY_FOR_FREE) == 1, commit
        assert await call_for_outcome(other_app, document=DOCUMENT) == READY_AT_FULL_PRICE
    assert commit > 3


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_an_overtaken_upload_leaves_the_document_ready(open_app: Open, step: int) -> None:
    for commit in range(2, 20, step):
        other_app = open_app(commit)
        uploading_app = open_app(
            commit, call_after_commit(commit, partial(upload_and_ask, other_app))
        )
        await call_for_outcome(uploading_app, materials=TEXT)
        if uploading_app.commits < commit:
            break
        stored = (await read_workspaces(other_app))[f"default/documents/{DOCUMENT}"]
        assert stored["status"] == "ready", commit
    assert commit > 4


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_a_lost_answer_stays_prepaid(open_app: Open, step: int) -> None:
    for commit in range(1, 20, step):
        other_app = open_app(commit)
        assert await call_for_outcome(other_app, materials=TEXT) == PENDING_AT_FULL_PRICE
        await run_job(INGEST_MATERIALS, other_app)
        killed_app = open_app(commit, call_after_commit(commit, die))
        await call_extract_with_deadline(killed_app, document=DOCUMENT, idempotency_key="k")
        if killed_app.commits < commit:
            break
        answer = await call_extract_with_deadline(other_app, document=DOCUMENT, idempotency_key="k")
        assert answer.receipt.price == FREE, commit
        assert await call_for_outcome(other_app, document=DOCUMENT) == READY_AT_FULL_PRICE
    assert commit > 1


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_a_repeated_commit_changes_nothing(open_app: Open, step: int) -> None:
    """Google's client repeats commits by itself."""
    calm_app = open_app(-1)
    expected_outcomes = [
        await call_for_outcome(calm_app, materials=TEXT),
        await call_for_outcome(calm_app, document=DOCUMENT),
    ]
    expected_documents = await read_workspaces(calm_app)
    for commit in range(1, 20, step):
        app = open_app(commit, send_commit_twice(commit))
        outcomes = [
            await call_for_outcome(app, materials=TEXT),
            await call_for_outcome(app, document=DOCUMENT),
        ]
        assert outcomes == expected_outcomes, commit
        assert await read_workspaces(app) == expected_documents
        if app.commits < commit:
            break
    assert commit > 6


async def test_one_payment_buys_one_text(open_app: Open) -> None:
    """The gateway accepts a call with the idempotency key of a paid call without payment."""
    app = open_app()
    assert await call_for_outcome(app, materials=TEXT, idempotency_key="k") == (
        "pending",
        FULL_PRICE,
    )
    for arguments in ({"materials": make_text(first=100)}, {"document": DOCUMENT}):
        outcome = await call_for_outcome(app, idempotency_key="k", **arguments)
        assert outcome == ("CONFLICT", FREE)
    assert await call_for_outcome(app, materials=TEXT, idempotency_key="k") == (
        "pending",
        FULL_PRICE,
    )


async def test_one_of_many_texts_with_the_same_key_is_paid(open_app: Open) -> None:
    app = open_app()
    texts = [make_text(first=100 * number) for number in range(4)]
    outcomes = await asyncio.gather(
        *(call_for_outcome(app, materials=text, idempotency_key="k") for text in texts)
    )
    assert [outcome for outcome in outcomes if outcome.status == "pending"] == [
        PENDING_AT_FULL_PRICE
    ]
    stored = await read_workspaces(app)
    assert len([path for path, fields in stored.items() if fields.get("prepaid")]) == 1


async def test_one_call_at_a_time_embeds_a_deferred_text(open_app: Open) -> None:
    app = open_app()
    await call_for_outcome(app, materials=TEXT)
    outcomes = await asyncio.gather(*(call_for_outcome(app, document=DOCUMENT) for _ in range(5)))
    assert {READY_FOR_FREE, PENDING_FOR_FREE, READY_AT_FULL_PRICE}.issuperset(outcomes)
    assert outcomes.count(READY_FOR_FREE) == 1


async def test_a_failed_text_is_uploaded_again_for_free(open_app: Open) -> None:
    app = open_app()
    assert await call_for_outcome(app, materials=TEXT) == PENDING_AT_FULL_PRICE
    workspace = Workspace(app.context(READER, Meter()).database, "reader", "default")
    await workspace.mark_failed(await workspace.load_document(DOCUMENT), "it was refused")
    assert await call_for_outcome(app, document=DOCUMENT) == ("VALIDATION_ERROR", FREE)
    assert await call_for_outcome(app, materials=TEXT) == PENDING_FOR_FREE
    await run_job(INGEST_MATERIALS, app)
    assert await call_for_outcome(app, document=DOCUMENT) == READY_FOR_FREE
    assert await call_for_outcome(app, document=DOCUMENT) == READY_AT_FULL_PRICE
