"""What is pending was paid for: its first answer costs nothing, each later one its price.

A receipt without a price is charged what the tool costs.
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
from tests.support.commit_hooks import SOME_OR_ALL, WatchedApp, after, answer_lost, plainly
from tests.support.fakes.embedder import WordEmbedder
from tests.support.materials import READER
from tests.support.stored_materials import ask, make_text, stored_contents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from shared.runtime.context import App
    from tests.support.commit_hooks import Around

    Open = Callable[..., WatchedApp]

pytestmark = pytest.mark.anyio

TEXT: Final = make_text()
ID: Final = content_id(TEXT)
SHORT: Final[dict[str, Any]] = {"extract_materials_characters": 500}
"""Settings by which these materials are too long for a call."""
FREE: Final = 0
ITS_PRICE: Final = None


class Died(Exception):
    """Stands for a process that is killed."""


async def die() -> None:
    raise Died


@pytest.fixture
async def opened(project: str) -> AsyncIterator[Open]:
    """Opens processes, each number on a database of its own."""
    backends: list[WatchedApp] = []

    def open_one(number: int = 0, around: Around = plainly, *, down: bool = False) -> WatchedApp:
        settings = Settings(google_cloud_project=f"{project}-{number}", **SHORT)
        embedder = WordEmbedder()
        embedder.down = down
        backends.append(WatchedApp(settings, around, embedder=embedder))
        return backends[-1]

    yield open_one
    for app in backends:
        await app.aclose()


async def paid(app: App, **arguments: Any) -> tuple[str, int | None]:
    """What a call came to, and what it cost."""
    answer = await ask(app, **arguments)
    if answer.error:
        return answer.error.code, FREE
    assert answer.result
    return answer.result["status"], answer.receipt.price


async def bring_and_ask(app: App) -> None:
    """Bring the materials, and have them answered."""
    assert ("pending", ITS_PRICE) == await paid(app, materials=TEXT)
    assert ("ready", FREE) == await paid(app, document=ID)


async def ask_and_note(app: App, answers: list[tuple[str, int | None]]) -> None:
    """Ask of the materials, and note what it came to."""
    answers.append(await paid(app, document=ID))


async def test_an_immediate_answer_costs_each_time(opened: Open) -> None:
    app = opened()
    text = make_text(5)
    assert ("ready", ITS_PRICE) == await paid(app, materials=text)
    assert ("ready", ITS_PRICE) == await paid(app, materials=text)
    assert ("ready", ITS_PRICE) == await paid(app, document=content_id(text))


@pytest.mark.parametrize("where", [{"document": ID}, {"materials": TEXT}])
async def test_the_first_answer_of_a_deferred_text_is_prepaid(
    opened: Open, where: dict[str, str]
) -> None:
    app = opened()
    assert ("pending", ITS_PRICE) == await paid(app, materials=TEXT)
    await run_job(INGEST_MATERIALS, app)
    assert ("ready", FREE) == await paid(app, **where)
    assert ("ready", ITS_PRICE) == await paid(app, **where)


async def test_a_pending_text_is_asked_again_for_free(opened: Open) -> None:
    app = opened()
    assert ("pending", ITS_PRICE) == await paid(app, materials=TEXT)
    assert ("UNAVAILABLE", FREE) == await paid(opened(down=True), document=ID)
    assert ("ready", FREE) == await paid(app, document=ID)
    assert ("ready", ITS_PRICE) == await paid(app, document=ID)


async def test_one_of_many_simultaneous_answers_is_prepaid(
    opened: Open,
) -> None:
    app = opened()
    await paid(app, materials=TEXT)
    await run_job(INGEST_MATERIALS, app)
    answers = await asyncio.gather(*(paid(one, document=ID) for one in (app, opened()) * 3))
    assert [("ready", FREE)] == [answer for answer in answers if answer != ("ready", ITS_PRICE)]


@SOME_OR_ALL
async def test_a_resumed_call_never_restores_a_prepayment(
    opened: Open,
    step: int,
) -> None:
    for commits in range(1, 20, step):
        other = opened(commits)
        assert ("pending", ITS_PRICE) == await paid(other, materials=TEXT)
        answers: list[tuple[str, int | None]] = []
        asking = opened(commits, after(commits, partial(ask_and_note, other, answers)))
        await ask_and_note(asking, answers)
        if asking.commits < commits:
            break
        # Who asks while another embeds is told that it waits, for nothing.
        assert {("pending", FREE), ("ready", FREE), ("ready", ITS_PRICE)}.issuperset(answers)
        assert (commits, 1) == (commits, answers.count(("ready", FREE)))
        assert ("ready", ITS_PRICE) == await paid(other, document=ID)
    assert commits > 3


@SOME_OR_ALL
async def test_an_overtaken_upload_leaves_the_document_ready(
    opened: Open,
    step: int,
) -> None:
    for commits in range(2, 20, step):
        other = opened(commits)
        bringing = opened(commits, after(commits, partial(bring_and_ask, other)))
        await paid(bringing, materials=TEXT)
        if bringing.commits < commits:
            break
        stored = (await stored_contents(other))[f"default/documents/{ID}"]
        assert (commits, "ready") == (commits, stored["status"])
    assert commits > 4


@SOME_OR_ALL
async def test_a_lost_answer_stays_prepaid(opened: Open, step: int) -> None:
    for commits in range(1, 20, step):
        other = opened(commits)
        assert ("pending", ITS_PRICE) == await paid(other, materials=TEXT)
        await run_job(INGEST_MATERIALS, other)
        dying = opened(commits, after(commits, die))
        await ask(dying, document=ID, idempotency_key="k")
        if dying.commits < commits:
            break
        answer = await ask(other, document=ID, idempotency_key="k")
        assert (commits, FREE) == (commits, answer.receipt.price)
        assert ("ready", ITS_PRICE) == await paid(other, document=ID)
    assert commits > 1


@SOME_OR_ALL
async def test_a_repeated_commit_changes_nothing(
    opened: Open,
    step: int,
) -> None:
    """Google's client does so by itself."""
    calm = opened(-1)
    costs = [await paid(calm, materials=TEXT), await paid(calm, document=ID)]
    whole = await stored_contents(calm)
    for commits in range(1, 20, step):
        app = opened(commits, answer_lost(commits))
        actual = [await paid(app, materials=TEXT), await paid(app, document=ID)]
        assert (commits, costs) == (commits, actual)
        assert whole == await stored_contents(app)
        if app.commits < commits:
            break
    assert commits > 6


async def test_one_payment_buys_one_text(opened: Open) -> None:
    """The gateway lets a call with the key of a paid one through without money."""
    app = opened()
    assert ("pending", ITS_PRICE) == await paid(app, materials=TEXT, idempotency_key="k")
    for arguments in ({"materials": make_text(first=100)}, {"document": ID}):
        costs = await paid(app, idempotency_key="k", **arguments)
        assert ("CONFLICT", FREE) == costs
    assert ("pending", ITS_PRICE) == await paid(app, materials=TEXT, idempotency_key="k")


async def test_of_many_texts_with_one_key_one_is_paid(opened: Open) -> None:
    app = opened()
    texts = [make_text(first=100 * number) for number in range(4)]
    costs = await asyncio.gather(
        *(paid(app, materials=text, idempotency_key="k") for text in texts)
    )
    assert [("pending", ITS_PRICE)] == [cost for cost in costs if cost[0] == "pending"]
    stored = await stored_contents(app)
    prepaid = [name for name, fields in stored.items() if fields.get("prepaid")]
    assert 1 == len(prepaid)


async def test_one_call_at_a_time_embeds_a_deferred_text(opened: Open) -> None:
    app = opened()
    await paid(app, materials=TEXT)
    costs = await asyncio.gather(*(paid(app, document=ID) for _ in range(5)))
    embedded = {("ready", FREE), ("pending", FREE), ("ready", ITS_PRICE)}
    assert embedded.issuperset(costs)
    assert 1 == costs.count(("ready", FREE))


async def test_a_failed_text_is_uploaded_again_for_free(opened: Open) -> None:
    app = opened()
    assert ("pending", ITS_PRICE) == await paid(app, materials=TEXT)
    store = Workspace(app.context(READER, Meter()).database, "reader", "default")
    await store.mark_failed(await store.load_document(ID), "it was refused")
    assert ("VALIDATION_ERROR", FREE) == await paid(app, document=ID)
    assert ("pending", FREE) == await paid(app, materials=TEXT)
    await run_job(INGEST_MATERIALS, app)
    assert ("ready", FREE) == await paid(app, document=ID)
    assert ("ready", ITS_PRICE) == await paid(app, document=ID)
