"""A pending answer is free, and each answer costs the price. One call at a time embeds a text.

A text that is too long for one call is pending until a job or a further call has embedded it.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from functions.jobs.ingest_materials.job import JOB as INGEST_MATERIALS
from functions.tools.workspaces.extract_key_info.upload import MAX_UNPAID
from shared.ai.embedding import Purpose
from shared.core.caller import Caller
from shared.runtime.context import App
from shared.runtime.job import run_job
from shared.workspaces import repository
from shared.workspaces.model import content_id
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


class Outcome(NamedTuple):
    """The status or the error code of a call, and its price."""

    status: str
    price: int | None


PENDING: Final = Outcome("pending", FREE)
READY: Final = Outcome("ready", FULL_PRICE)


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


async def upload_and_run_job(app: App) -> None:
    assert await call_for_outcome(app, materials=TEXT) == PENDING
    await run_job(INGEST_MATERIALS, app)


@pytest.mark.requirement("001-P5")
async def test_a_pending_text_is_asked_again_for_free(open_app: Open) -> None:
    app, broken = open_app(), WordEmbedder()
    broken.is_down = True
    assert await call_for_outcome(app, materials=TEXT) == PENDING
    unavailable = await call_for_outcome(open_app(embedder=broken), document=DOCUMENT)
    assert unavailable == ("UNAVAILABLE", FREE)
    for target in ({"document": DOCUMENT}, {"materials": TEXT}):
        assert await call_for_outcome(app, **target) == READY


async def test_a_pending_answer_is_repeated_with_its_key(open_app: Open) -> None:
    """Otherwise the answer would be free: the gateway charges a key once."""
    app = open_app()
    for arguments, outcome in (
        ({"materials": TEXT}, PENDING),
        ({"materials": make_text(first=100)}, Outcome("CONFLICT", FREE)),
        ({"document": DOCUMENT}, Outcome("CONFLICT", FREE)),
        ({"materials": TEXT}, PENDING),
    ):
        assert await call_for_outcome(app, idempotency_key="k", **arguments) == outcome


@pytest.mark.parametrize("target", [{"document": DOCUMENT}, {"scope": "task"}], ids=str)
async def test_only_so_many_texts_are_embedded_for_nothing(
    open_app: Open, target: dict[str, str]
) -> None:
    app = open_app()
    texts = [make_text(10, first=100 * number) for number in range(MAX_UNPAID)]
    texts[0] = TEXT
    for number, text in enumerate(texts):
        assert await call_for_outcome(app, materials=text, task_id=str(number % 3)) == PENDING
    await run_job(INGEST_MATERIALS, app)
    another = {"materials": make_text(first=9_000)}
    assert await call_for_outcome(app, **another) == Outcome("CONFLICT", FREE)
    assert await call_for_outcome(app, **another, caller=Caller.of("stranger")) == PENDING
    assert await call_for_outcome(app, **target, task_id="0") == READY
    assert await call_for_outcome(app, **another) == PENDING


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_an_overtaken_upload_leaves_the_document_ready(open_app: Open, step: int) -> None:
    for commit in range(2, 20, step):
        other_app = open_app(commit)
        hook = call_after_commit(commit, partial(upload_and_run_job, other_app))
        uploading_app = open_app(commit, hook)
        await call_for_outcome(uploading_app, materials=TEXT)
        if uploading_app.commits < commit:
            break
        stored = (await read_workspaces(other_app))[f"default/documents/{DOCUMENT}"]
        assert stored["status"] == "ready", commit


@KILL_AT_SOME_OR_ALL_COMMITS
async def test_a_repeated_commit_changes_nothing(
    open_app: Open, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Google's client repeats commits by itself. Here, each part has a commit of its own."""
    monkeypatch.setattr(repository, "MAX_WRITTEN_BYTES", 1)
    calm_app = open_app(-1)
    await upload_and_run_job(calm_app)
    expected_documents = await read_workspaces(calm_app)
    for commit in range(1, 20, step):
        app = open_app(commit, send_commit_twice(commit))
        await upload_and_run_job(app)
        assert await read_workspaces(app) == expected_documents, commit
        if app.commits < commit:
            break
    assert commit > 3


async def test_one_call_at_a_time_embeds_a_deferred_text(open_app: Open) -> None:
    embedder = RecordingEmbedder()
    app = open_app(embedder=embedder)
    await call_for_outcome(app, materials=TEXT)
    later_outcomes: list[Outcome] = []

    async def ask_meanwhile(_: Purpose) -> None:
        embedder.meanwhile = None
        later_outcomes.append(await call_for_outcome(app, document=DOCUMENT))

    embedder.meanwhile = ask_meanwhile
    outcomes = await asyncio.gather(*(call_for_outcome(app, document=DOCUMENT) for _ in range(5)))
    assert {READY, PENDING}.issuperset(outcomes)
    assert READY in outcomes
    assert later_outcomes == [PENDING]
    assert len(embedder.passages) == PARAGRAPH_COUNT
