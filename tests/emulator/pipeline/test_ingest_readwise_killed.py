"""A run of ingest that follows Readwise and is killed after any commit is completed by the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from shared.runtime.context import App
from tests.support.commit_hooks import WatchedApp
from tests.support.fakes.readwise import TOKEN, FakeReadwise
from tests.support.jobs import make_job_context
from tests.support.killable_children import start_killable_children
from tests.support.readwise_runs import make_readwise_settings, read_ingested_documents, run_ingest

if TYPE_CHECKING:
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

BOOK_COUNT: Final = 65


def change_account(readwise: FakeReadwise) -> None:
    """Edit every book, and delete a highlight and a book."""
    for number in range(1, BOOK_COUNT + 1):
        readwise.put_highlight(number, 1, f"Thought {number}, edited.")
    readwise.delete_highlight(5, 0)
    readwise.delete_book(35)


async def test_the_next_run_completes_one_killed_after_any_commit(
    project: str, ctx: Context
) -> None:
    """The result is the same as in another database, in which no run is killed."""
    with FakeReadwise(page_size=40) as readwise:
        for number in range(1, BOOK_COUNT + 1):
            readwise.put_book(number, f"Thought {number}.")
        readwise.advance(days=1)
        undisturbed = WatchedApp(make_readwise_settings(readwise, f"{project}-undisturbed"))
        app = App(make_readwise_settings(readwise, project))
        for target in (undisturbed, app):
            await run_ingest(target)
        readwise.advance(days=1)
        change_account(readwise)
        readwise.advance(days=1)

        undisturbed.commits = 0
        await run_ingest(undisturbed)
        fields = {
            "google_cloud_project": project,
            "readwise_url": readwise.base_url,
            "readwise_token": TOKEN,
        }
        with start_killable_children() as children:
            assert children.run_ingest_until_it_finishes(fields) == undisturbed.commits

    expected = await read_ingested_documents(make_job_context(undisturbed), "meta")
    assert await read_ingested_documents(ctx, "meta") == expected
    await undisturbed.aclose()
    await app.aclose()
