"""`save_link` queues the address of a web page, which the ingest job fetches and stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.caller import Caller, Role
from shared.core.settings import Settings
from shared.links.model import compute_expected_by
from shared.runtime.context import App, Context
from tests.support.fakes.cloud_scheduler import JOB, FakeCloudScheduler
from tests.support.google_credentials import write_credentials_file
from tests.support.links import (
    EDITOR,
    ESSAY,
    OWNER,
    SITE_URL,
    fetch_due_links,
    read_only_link,
    serve_site,
)
from tests.support.links import make_text_page as page
from tests.support.stored_documents import read_chunks_by_text
from tests.support.tool_calls import call_error, call_result, call_text, find_tool

URL = f"{SITE_URL}/essay"
OTHER_EDITOR = Caller.of("eve", role=Role.EDITOR)


class Deployment(NamedTuple):
    """An app as in the cloud, and the server by which it starts the ingest job."""

    app: App
    scheduler: FakeCloudScheduler


@pytest.fixture
async def cloud_app(project: str) -> AsyncIterator[App]:
    """An app that answers as a deployment whose job starts every hour."""
    opened = App(Settings(google_cloud_project=project, public_url="https://carrel.example"))
    yield opened
    await opened.aclose()


async def save(app: App, caller: Caller = EDITOR, /, **arguments: Any) -> dict[str, Any]:
    """Call the tool for `URL`, and return its result."""
    return await call_result(app, "save_link", caller, **{"url": URL} | arguments)


async def test_a_saved_link_waits_to_be_fetched(app: App, ctx: Context) -> None:
    out = await save(app, title="Reefs", tags=["sea", "#sea"])
    link = await read_only_link(ctx)
    assert link.url == URL
    assert link.title == "Reefs"
    assert link.tags == ("sea",)
    assert link.saved_by == "ed"
    assert link.state == "waiting"
    assert link.tries == 0
    assert link.due_at == link.requested_at
    assert out["source_id"] == link.source_id
    assert out["state"] == "waiting"
    assert out["stored_before"] is False


async def test_a_deployment_says_when_the_page_will_be_stored(cloud_app: App) -> None:
    """The job starts at the full hour, and ten minutes are enough for it."""
    out = await save(cloud_app)
    assert datetime.fromisoformat(out["expected_by"]).minute == 10
    assert f"by {out['expected_by']}" in await call_text(cloud_app, "save_link", EDITOR, url=URL)


@pytest.fixture
async def deployment(
    project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Deployment]:
    """A deployment that starts the job on each call."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(write_credentials_file(tmp_path)))
    with FakeCloudScheduler() as scheduler:
        settings = Settings(
            google_cloud_project=project,
            public_url="https://carrel.example",
            ingest_start_url=scheduler.start_url,
        )
        opened = App(settings)
        yield Deployment(opened, scheduler)
        await opened.aclose()


async def test_a_deployment_starts_the_ingest_job(deployment: Deployment) -> None:
    app, scheduler = deployment
    out = await save(app)
    assert out["started"] is True
    assert scheduler.started_jobs == [(JOB, "a-test")]

    again = await save(app)  # the job may have been busy
    assert again["started"] is True
    assert len(scheduler.started_jobs) == 2

    text = await call_text(app, "save_link", EDITOR, url=f"{URL}/2")
    assert "search finds it within 20 minutes, 20" in text


@pytest.mark.parametrize("status", [403, 404, 429, 503])
async def test_a_link_is_queued_although_the_job_does_not_start(
    deployment: Deployment, ctx: Context, status: int
) -> None:
    app, scheduler = deployment
    scheduler.status = status
    out = await save(app)
    assert out["started"] is False
    assert scheduler.started_jobs == []
    assert (await read_only_link(ctx)).state == "waiting"


async def test_cancelling_a_link_does_not_start_the_job(deployment: Deployment) -> None:
    app, scheduler = deployment
    await save(app)
    out = await save(app, cancel=True)
    assert out["started"] is False
    assert len(scheduler.started_jobs) == 1


async def test_a_local_server_promises_the_page_in_minutes(app: App) -> None:
    assert "expected_by" not in await save(app)
    assert "in a minute or two" in await call_text(app, "save_link", EDITOR, url=f"{URL}/2")


@given(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis adds the zone
def test_the_next_fetch_is_within_an_hour_of_the_call(now: datetime) -> None:
    fetched_at = compute_expected_by(now).replace(minute=0)
    assert 0 < (fetched_at - now).total_seconds() <= 3600


async def test_a_waiting_link_is_not_queued_twice(app: App, ctx: Context) -> None:
    first = await save(app, tags=["sea"])
    before = await read_only_link(ctx)
    again = await save(app, OTHER_EDITOR, url=f"{URL}?utm_source=feed#part")
    assert "undo" in first
    assert "undo" not in again
    assert await read_only_link(ctx) == before


async def test_a_title_is_added_to_a_waiting_link_without_one(app: App, ctx: Context) -> None:
    await save(app, tags=["sea"])
    await save(app, OTHER_EDITOR, title="Reefs")
    link = await read_only_link(ctx)
    assert link.title == "Reefs"
    assert link.tags == ("sea",)
    assert link.saved_by == "ed"


async def test_an_unknown_or_stored_link_cannot_be_cancelled(app: App, ctx: Context) -> None:
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
        assert out["stored_before"] is True
        assert out["state"] == "waiting"
        site.pages["/essay"] = page(f"{ESSAY} Twice.")
        await fetch_due_links(ctx, site)
    assert list(await read_chunks_by_text(ctx)) == [f"{ESSAY} Twice."]


@pytest.mark.parametrize("changes", [{"title": "Mine"}, {"tags": ["mine"]}])
async def test_save_link_cannot_change_a_stored_page(
    app: App, ctx: Context, changes: dict[str, Any]
) -> None:
    """Else an editor could rename or retag pages that other users have saved."""
    await save(app)
    with serve_site(essay=page(ESSAY)) as site:
        await fetch_due_links(ctx, site)
    error = await call_error(app, "save_link", EDITOR, url=URL, **changes)
    assert error.code == "CONFLICT"
    assert "edit_source" in error.message


async def test_a_forgotten_page_is_not_queued(app: App, ctx: Context) -> None:
    out = await save(app)
    with serve_site(essay=page(ESSAY)) as site:
        await fetch_due_links(ctx, site)
        await call_result(app, "forget", OWNER, source_id=out["source_id"])

        error = await call_error(app, "save_link", EDITOR, url=URL)
        assert error.code == "CONFLICT"
        assert f'"{out["source_id"]}", "forgotten": false' in error.message

        restore = {"source_id": out["source_id"], "forgotten": False}
        await call_result(app, "forget", OWNER, **restore)
        assert (await save(app))["stored_before"] is True


def test_saving_needs_the_role_of_an_editor() -> None:
    assert find_tool("save_link").role is Role.EDITOR
