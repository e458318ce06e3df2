"""`save_link` queues the address of a web page, which the ingest job fetches and stores."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.caller import Caller
from shared.links.model import compute_expected_by
from shared.runtime.context import App, Context
from tests.support.apps import Apps
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
from tests.support.notes import OTHER_EDITOR
from tests.support.stored_documents import read_chunks_by_text
from tests.support.tool_calls import call_error, call_message, call_result

URL = f"{SITE_URL}/essay"


async def save(app: App, caller: Caller = EDITOR, /, **arguments: Any) -> dict[str, Any]:
    return await call_result(app, "save_link", caller, **{"url": URL} | arguments)


async def test_a_saved_link_waits_to_be_fetched(app: App, ctx: Context) -> None:
    """It is not queued twice. A title is added if it has none."""
    out = await save(app, tags=["sea", "#sea"])
    link = await read_only_link(ctx)
    assert (link.url, link.title, link.tags, link.saved_by) == (URL, None, ("sea",), "ed")
    assert (link.state, link.tries, link.due_at) == ("waiting", 0, link.requested_at)
    assert (out["source_id"], out["state"]) == (link.source_id, "waiting")
    assert out["stored_before"] is False
    assert "undo" in out
    assert "expected_by" not in out  # a local server fetches it soon

    again = await save(app, OTHER_EDITOR, url=f"{URL}?utm_source=feed#part")
    assert "undo" not in again
    assert await read_only_link(ctx) == link
    await save(app, OTHER_EDITOR, title="Reefs")
    link = await read_only_link(ctx)
    assert (link.title, link.tags, link.saved_by) == ("Reefs", ("sea",), "ed")
    assert "in a minute or two" in await call_message(app, "save_link", EDITOR, url=f"{URL}/2")


async def test_a_deployment_says_when_the_page_will_be_stored(apps: Apps) -> None:
    """The job starts at the full hour, and ten minutes are enough for it."""
    app = apps(public_url="https://carrel.example")
    out = await save(app)
    assert datetime.fromisoformat(out["expected_by"]).minute == 10
    assert f"by {out['expected_by']}" in await call_message(app, "save_link", EDITOR, url=URL)


@pytest.fixture
def scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCloudScheduler]:
    """The server by which a deployment starts the job on each call."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(write_credentials_file(tmp_path)))
    with FakeCloudScheduler() as server:
        yield server


def deploy(apps: Apps, scheduler: FakeCloudScheduler) -> App:
    url = "https://carrel.example"
    return apps(public_url=url, ingest_start_url=scheduler.start_url)


async def test_a_deployment_starts_the_ingest_job(
    apps: Apps, scheduler: FakeCloudScheduler
) -> None:
    """So it does for a repeated call, since the job may have been busy, but not to cancel."""
    app = deploy(apps, scheduler)
    assert (await save(app))["started"] is True
    assert (await save(app))["started"] is True
    assert scheduler.started_jobs == [(JOB, "a-test")] * 2
    assert (await save(app, cancel=True))["started"] is False
    assert len(scheduler.started_jobs) == 2
    text = await call_message(app, "save_link", EDITOR, url=f"{URL}/2")
    assert "search finds it within 20 minutes, 20" in text


@pytest.mark.parametrize("status", [403, 404, 429, 503])
async def test_a_link_is_queued_although_the_job_does_not_start(
    apps: Apps, scheduler: FakeCloudScheduler, ctx: Context, status: int
) -> None:
    scheduler.status = status
    assert (await save(deploy(apps, scheduler)))["started"] is False
    assert scheduler.started_jobs == []
    assert (await read_only_link(ctx)).state == "waiting"


@given(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis adds the zone
def test_the_next_fetch_is_within_an_hour_of_the_call(now: datetime) -> None:
    fetched_at = compute_expected_by(now).replace(minute=0)
    assert 0 < (fetched_at - now).total_seconds() <= 3600


async def test_save_link_cannot_change_a_stored_page(app: App, ctx: Context) -> None:
    """Else an editor could rename or retag pages that other users have saved.

    An unknown or stored link cannot be cancelled.
    """
    error = await call_error(app, "save_link", OWNER, url=URL, cancel=True)
    assert error.code == "NOT_FOUND"
    await save(app)
    with serve_site(essay=page(ESSAY)) as site:
        await fetch_due_links(ctx, site)
        error = await call_error(app, "save_link", OWNER, url=URL, cancel=True)
        assert (error.code, "forget" in error.message) == ("NOT_FOUND", True)
        for changes in ({"title": "Mine"}, {"tags": ["mine"]}):
            error = await call_error(app, "save_link", EDITOR, url=URL, **changes)
            assert (error.code, "edit_source" in error.message) == ("CONFLICT", True)
        out = await save(app)
        assert (out["stored_before"], out["state"]) == (True, "waiting")
        site.pages["/essay"] = page(f"{ESSAY} Twice.")
        await fetch_due_links(ctx, site)
    assert list(await read_chunks_by_text(ctx)) == [f"{ESSAY} Twice."]


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
