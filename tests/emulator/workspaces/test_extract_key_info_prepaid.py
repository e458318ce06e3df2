"""The call that defers a text pays for the first answer. Each later answer has a price of its own.

A text that is too long for one call is deferred: it is pending until a job or a further call has
embedded it, and ready then.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from functions.jobs.ingest_materials.job import JOB as INGEST_MATERIALS
from shared.ai.embedding import Purpose
from shared.core.meter import Meter
from shared.runtime.context import App
from shared.runtime.job import run_job
from shared.workspaces.model import content_id
from shared.workspaces.repository import Workspace
from tests.support.apps import Apps
from tests.support.commit_hooks import (
    KILL_AT_SOME_OR_ALL_COMMITS,
    CommitHook,
    WatchedApp,
    call_after_commit,
    send_commit,
    send_commit_twice,
)
from tests.support.fakes.embedder import WordEmbedder
from tests.support.fakes.recording_embedder import RecordingEmbedder
from tests.support.materials import READER
from tests.support.stored_materials import (
    PARAGRAPH_COUNT,
    call_extract_with_deadline,
    make_text,
    read_workspaces,
)

Open = Callable[..., WatchedApp]


TEXT: Final = make_text()
DOCUMENT: Final = content_id(TEXT)
"""The id under which the text is stored."""
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
    raise Killed


@pytest.fixture
def open_app(apps: Apps, project: str) -> Open:
    """A function that makes apps, which defer the text. Each number has its own database."""

    def make_app(number: int = 0, hook: CommitHook = send_commit, **options: Any) -> WatchedApp:
        return apps(
            hook, project=f"{project}-{number}", extract_materials_characters=500, **options
        )

    return make_app


async def call_for_outcome(app: App, **arguments: Any) -> Outcome:
    answer = await call_extract_with_deadline(app, **arguments)
    if answer.error:
        return Outcome(answer.error.code, FREE)
    assert answer.result
    return Outcome(answer.result["status"], answer.receipt.price)


async def upload_and_ask(app: App) -> None:
    assert await call_for_outcome(app, materials=TEXT) == PENDING_AT_FULL_PRICE
    assert await call_for_outcome(app, document=DOCUMENT) == READY_FOR_FREE


async def ask_and_append(app: App, outcomes: list[Outcome]) -> None:
    outcomes.append(await call_for_outcome(app, document=DOCUMENT))


async def test_an_immediate_answer_costs_each_time(open_app: Open) -> None:
    app = open_app()
    text = make_text(5)
    assert await call_for_outcome(app, materials=text) == READY_AT_FULL_PRICE
    assert await call_for_outcome(app, materials=text) == READY_AT_FULL_PRICE
    assert await call_for_outcome(app, document=content_id(text)) == READY_AT_FULL_PRICE


async def test_one_of_many_simultaneous_answers_is_prepaid(open_app: Open) -> None:
    app = open_app()
    assert await call_for_outcome(app, materials=TEXT) == PENDING_AT_FULL_PRICE
    await run_job(INGEST_MATERIALS, app)
    apps = (app, open_app()) * 3
    targets = ({"document": DOCUMENT}, {"materials": TEXT}) * 3
    outcomes = await asyncio.gather(
        *(call_for_outcome(app, **target) for app, target in zip(apps, targets, strict=True))
    )
    assert sorted(outcomes, key=str) == [READY_FOR_FREE, *[READY_AT_FULL_PRICE] * 5]


@pytest.mark.requirement("001-P5")
async def test_a_pending_text_is_asked_again_for_free(open_app: Open) -> None:
    app, broken = open_app(), WordEmbedder()
    broken.is_down = True
    assert await call_for_outcome(app, materials=TEXT) == PENDING_AT_FULL_PRICE
    unavailable = await call_for_outcome(open_app(embedder=broken), document=DOCUMENT)
    assert unavailable == ("UNAVAILABLE", FREE)
    assert await call_for_outcome(app, document=DOCUMENT) == READY_FOR_FREE
    assert await call_for_outcome(app, document=DOCUMENT) == READY_AT_FULL_PRICE


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
    await upload_and_ask(calm_app)
    expected_documents = await read_workspaces(calm_app)
    for commit in range(1, 20, step):
        app = open_app(commit, send_commit_twice(commit))
        await upload_and_ask(app)
        assert await read_workspaces(app) == expected_documents, commit
        if app.commits < commit:
            break
    assert commit > 6


async def test_one_payment_buys_one_text(open_app: Open) -> None:
    """The gateway accepts a call with the idempotency key of a paid call without payment."""
    app = open_app()
    for arguments, outcome in (
        ({"materials": TEXT}, PENDING_AT_FULL_PRICE),
        ({"materials": make_text(first=100)}, Outcome("CONFLICT", FREE)),
        ({"document": DOCUMENT}, Outcome("CONFLICT", FREE)),
        ({"materials": TEXT}, PENDING_AT_FULL_PRICE),
    ):
        assert await call_for_outcome(app, idempotency_key="k", **arguments) == outcome


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
    embedder = RecordingEmbedder()
    app = open_app(embedder=embedder)
    await call_for_outcome(app, materials=TEXT)
    later_outcomes: list[Outcome] = []

    async def ask_meanwhile(_: Purpose) -> None:
        embedder.meanwhile = None
        await ask_and_append(app, later_outcomes)

    embedder.meanwhile = ask_meanwhile
    outcomes = await asyncio.gather(*(call_for_outcome(app, document=DOCUMENT) for _ in range(5)))
    assert {READY_FOR_FREE, PENDING_FOR_FREE, READY_AT_FULL_PRICE}.issuperset(outcomes)
    assert outcomes.count(READY_FOR_FREE) == 1
    assert later_outcomes == [PENDING_FOR_FREE]
    assert len(embedder.passages) == PARAGRAPH_COUNT


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


async def test_a_text_that_is_split_anew_stays_prepaid(open_app: Open) -> None:
    assert await call_for_outcome(open_app(), materials=TEXT) == PENDING_AT_FULL_PRICE
    app = open_app(extract_passage_characters=200)
    assert await call_for_outcome(app, materials=TEXT) == PENDING_FOR_FREE
    await run_job(INGEST_MATERIALS, app)
    assert await call_for_outcome(app, document=DOCUMENT) == READY_FOR_FREE
