"""`save_link` queues an address, and says what becomes of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.caller import Caller, Role
from shared.core.settings import Settings
from shared.links.model import compute_expected_by
from shared.runtime.context import App
from tests.support.fakes.cloud_scheduler import JOB, FakeCloudScheduler
from tests.support.google_credentials import write_credentials_file
from tests.support.links import (
    EDITOR,
    ESSAY,
    OWNER,
    SITE,
    fetch_due_links,
    read_only_link,
    serve_site,
)
from tests.support.links import make_text_page as page
from tests.support.secret_samples import make_json_web_token
from tests.support.stored_documents import read_chunks_by_text, read_documents
from tests.support.tool_calls import call, call_error, call_result, call_text, find_tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

URL = f"{SITE}/essay"
OTHER = Caller.of("eve", role=Role.EDITOR)


@pytest.fixture
async def cloud(project: str) -> AsyncIterator[App]:
    """An app that answers as a deployment."""
    opened = App(Settings(google_cloud_project=project, public_url="https://carrel.example"))
    yield opened
    await opened.aclose()


async def save(app: App, caller: Caller = EDITOR, /, **arguments: Any) -> dict[str, Any]:
    return await call_result(app, "save_link", caller, **{"url": URL} | arguments)


async def test_a_link_waits_to_be_fetched(app: App, ctx: Context) -> None:
    out = await save(app, title="Reefs", tags=["sea", "#sea"])
    link = await read_only_link(ctx)
    assert (link.url, link.title, link.tags) == (URL, "Reefs", ("sea",))
    assert (link.saved_by, link.state, link.tries) == ("ed", "waiting", 0)
    assert link.due_at == link.requested_at
    assert (out["source_id"], out["state"]) == (link.source_id, "waiting")
    assert out["stored_before"] is False


async def test_a_call_costs_two_round_trips(app: App) -> None:
    answer = await call(app, "save_link", EDITOR, url=URL)
    assert (answer.receipt.round_trips, answer.receipt.documents_read) == (2, 3)
    assert answer.receipt.documents_written == 2  # the link and the record of the call


async def test_a_deployment_says_by_when_it_is_there(cloud: App) -> None:
    out = await save(cloud)
    due = datetime.fromisoformat(out["expected_by"])
    assert due.minute == 10
    assert f"by {out['expected_by']}" in await call_text(cloud, "save_link", EDITOR, url=URL)


@pytest.fixture
async def scheduled(
    project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[App, FakeCloudScheduler]]:
    """A deployment whose job is started by a server of the test."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(write_credentials_file(tmp_path)))
    with FakeCloudScheduler() as scheduler:
        settings = Settings(
            google_cloud_project=project,
            public_url="https://carrel.example",
            ingest_start_url=scheduler.start_url,
        )
        opened = App(settings)
        yield opened, scheduler
        await opened.aclose()


async def test_a_deployment_starts_the_job(scheduled: tuple[App, FakeCloudScheduler]) -> None:
    app, scheduler = scheduled
    out = await save(app)
    assert (out["started"], scheduler.started_jobs) == (True, [(JOB, "a-test")])
    again = await save(app)  # the job may have been busy
    assert (again["started"], len(scheduler.started_jobs)) == (True, 2)
    text = await call_text(app, "save_link", EDITOR, url=f"{URL}/2")
    assert "search finds it within 20 minutes, 20" in text


@pytest.mark.parametrize("status", [403, 404, 429, 503])
async def test_a_link_is_queued_although_the_job_does_not_start(
    scheduled: tuple[App, FakeCloudScheduler], ctx: Context, status: int
) -> None:
    app, scheduler = scheduled
    scheduler.status = status
    out = await save(app)
    assert (out["started"], scheduler.started_jobs) == (False, [])
    assert (await read_only_link(ctx)).state == "waiting"


async def test_taking_a_link_back_starts_nothing(scheduled: tuple[App, FakeCloudScheduler]) -> None:
    app, scheduler = scheduled
    await save(app)
    out = await save(app, cancel=True)
    assert (out["started"], len(scheduler.started_jobs)) == (False, 1)


async def test_a_laptop_fetches_at_once(app: App) -> None:
    assert "expected_by" not in await save(app)
    assert "in a minute or two" in await call_text(app, "save_link", EDITOR, url=f"{URL}/2")


@given(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis adds the zone
def test_the_next_full_hour_is_after_the_call(now: datetime) -> None:
    fetched_at = compute_expected_by(now).replace(minute=0)
    assert 0 < (fetched_at - now).total_seconds() <= 3600


async def test_a_link_that_waits_is_not_queued_twice(app: App, ctx: Context) -> None:
    first = await save(app, tags=["sea"])
    before = await read_only_link(ctx)
    again = await save(app, OTHER, url=f"{URL}?utm_source=feed#part")
    assert "undo" in first
    assert "undo" not in again
    assert await read_only_link(ctx) == before


async def test_a_given_title_is_added_to_a_link_that_waits(app: App, ctx: Context) -> None:
    await save(app, tags=["sea"])
    await save(app, OTHER, title="Reefs")
    link = await read_only_link(ctx)
    assert (link.title, link.tags, link.saved_by) == ("Reefs", ("sea",), "ed")


async def test_undo_takes_a_link_back_and_restores_it(app: App, ctx: Context) -> None:
    out = await save(app, title="Reefs", tags=["sea"])
    before = await read_documents(ctx, "links")
    cancelled = await call_result(app, out["undo"]["tool"], EDITOR, **out["undo"]["arguments"])
    assert cancelled["state"] == "cancelled"
    assert await read_documents(ctx, "links") == {}
    undo = cancelled["undo"]
    await call_result(app, undo["tool"], EDITOR, **undo["arguments"])
    [(name, link)] = (await read_documents(ctx, "links")).items()
    times = ("requested_at", "due_at")
    assert {**link, **{time: before[name][time] for time in times}} == before[name]


async def test_only_its_user_and_an_owner_take_a_link_back(app: App, ctx: Context) -> None:
    await save(app)
    error = await call_error(app, "save_link", OTHER, url=URL, cancel=True)
    assert error.code == "FORBIDDEN"
    assert (await read_only_link(ctx)).state == "waiting"
    await save(app, OWNER, cancel=True)
    assert await read_documents(ctx, "links") == {}


async def test_there_is_nothing_to_take_back(app: App, ctx: Context) -> None:
    error = await call_error(app, "save_link", OWNER, url=URL, cancel=True)
    assert error.code == "NOT_FOUND"
    await save(app)
    with serve_site(essay=page(ESSAY)) as site:
        await fetch_due_links(ctx, site)
    error = await call_error(app, "save_link", OWNER, url=URL, cancel=True)
    assert error.code == "NOT_FOUND"
    assert "forget" in error.message


async def test_a_stored_page_is_fetched_again(app: App, ctx: Context) -> None:
    await save(app)
    with serve_site(essay=page(ESSAY)) as site:
        await fetch_due_links(ctx, site)
        out = await save(app)
        assert (out["stored_before"], out["state"]) == (True, "waiting")
        site.pages["/essay"] = page(f"{ESSAY} Twice.")
        await fetch_due_links(ctx, site)
    assert list(await read_chunks_by_text(ctx)) == [f"{ESSAY} Twice."]


@pytest.mark.parametrize("given", [{"title": "Mine"}, {"tags": ["mine"]}])
async def test_title_and_tags_of_a_stored_page_stay(
    app: App, ctx: Context, given: dict[str, Any]
) -> None:
    """Editors do not rename or retag what others saved."""
    await save(app)
    with serve_site(essay=page(ESSAY)) as site:
        await fetch_due_links(ctx, site)
    error = await call_error(app, "save_link", EDITOR, url=URL, **given)
    assert error.code == "CONFLICT"
    assert "edit_source" in error.message


async def test_a_forgotten_page_is_not_queued(app: App, ctx: Context) -> None:
    out = await save(app)
    with serve_site(essay=page(ESSAY)) as site:
        await fetch_due_links(ctx, site)
        await call_result(app, "forget", OWNER, source_id=out["source_id"])
        error = await call_error(app, "save_link", EDITOR, url=URL)
        assert error.code == "CONFLICT"
        restore = {"source_id": out["source_id"], "forgotten": False}
        assert f'"{out["source_id"]}", "forgotten": false' in error.message
        await call_result(app, "forget", OWNER, **restore)
        assert (await save(app))["stored_before"] is True


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:8080/",
        "http://127.0.0.1/",
        "http://169.254.169.254/computeMetadata/v1/",
        "https://anna:secret@client.example/",
        "file:///etc/passwd",
        "client.example",
        " ",
    ],
)
async def test_other_addresses_are_refused(app: App, ctx: Context, url: str) -> None:
    error = await call_error(app, "save_link", EDITOR, url=url)
    assert error.code == "VALIDATION_ERROR"
    assert "secret" not in error.message
    assert await read_documents(ctx, "links") == {}


async def test_secrets_in_an_address_are_refused(app: App, ctx: Context) -> None:
    secret = make_json_web_token()
    error = await call_error(app, "save_link", EDITOR, url=f"{URL}?key={secret}")
    assert error.code == "VALIDATION_ERROR"
    assert secret not in error.message
    assert await read_documents(ctx, "links") == {}


async def test_a_repeated_call_queues_once(app: App, ctx: Context) -> None:
    first = await save(app, idempotency_key="one")
    await save(app, cancel=True)
    assert await save(app, idempotency_key="one") == first
    assert await read_documents(ctx, "links") == {}


def test_saving_needs_the_role_of_an_editor() -> None:
    assert find_tool("save_link").role is Role.EDITOR
