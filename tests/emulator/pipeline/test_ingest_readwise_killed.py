"""The next run completes one that follows Readwise and was killed after any commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.runtime.context import App
from tests.support.commit_hooks import WatchedApp
from tests.support.fakes.readwise import TOKEN, FakeReadwise
from tests.support.killable_children import start_killable_children
from tests.support.readwise_runs import make_readwise_settings, read_ingested_documents, run_ingest

if TYPE_CHECKING:
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

BOOKS: Final = 65


def change_library(readwise: FakeReadwise) -> None:
    """Edit every book of a library, and delete from it."""
    for number in range(1, BOOKS + 1):
        readwise.put_highlight(number, 1, f"Thought {number}, again.")
    readwise.delete_highlight(5, 0)
    readwise.delete_book(35)


async def test_next_run_completes_one_killed_after_any_commit(project: str, ctx: Context) -> None:
    with FakeReadwise(page_size=40) as readwise:
        for number in range(1, BOOKS + 1):
            readwise.put_book(number, f"Thought {number}.")
        readwise.advance(days=1)
        calmly, stormily = (
            make_readwise_settings(readwise, f"{project}-calm"),
            make_readwise_settings(readwise, project),
        )
        calm, stormy = WatchedApp(calmly), App(stormily)
        for app in (calm, stormy):
            await run_ingest(app)
        readwise.advance(days=1)
        change_library(readwise)
        readwise.advance(days=1)
        calm.commits = 0
        await run_ingest(calm)
        fields = {
            "google_cloud_project": project,
            "readwise_url": readwise.base_url,
            "readwise_token": TOKEN,
        }
        with start_killable_children() as dying:
            assert calm.commits == dying.count_ingest_kills(fields)
    expected = await read_ingested_documents(calm.context(Caller(), Meter()), "meta")
    assert await read_ingested_documents(ctx, "meta") == expected
    await calm.aclose()
    await stormy.aclose()
