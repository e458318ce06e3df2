"""A source that disappears from its origin is forgotten, and restored when it returns.

A forgotten source is deleted together with its chunks, and can be restored for some time.
"""

from typing import Any, Final

import pytest

from functions.jobs.ingest.missing_sources import MissingSources
from functions.jobs.purge.job import purge
from shared.core.caller import Caller, Role
from shared.core.settings import Settings
from shared.knowledge.forgotten_chunks import RESTORABLE_SOURCES
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.commit_hooks import call_after_commit
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.ingest_runs import run_ingest
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.killable_app import Killed
from tests.support.knowledge import set_fields
from tests.support.stored_documents import (
    read_chunk_texts,
    read_chunks,
    read_chunks_by_text,
    read_documents,
)
from tests.support.tool_calls import call_result

OWNER: Final = Caller.of("anna", role=Role.OWNER)
OTHER_TEXTS: Final = {"Knead well.", "Prune in winter."}
"""The texts of the files that stay."""
CARD: Final = {"summary": "Shorten sail in time.", "takeaways": ["Reef early"]}
"""The card, or summary, of the passage of the file that disappears."""


@pytest.fixture
def settings(project: str) -> Settings:
    """Settings by which ingest follows the bucket."""
    return Settings(google_cloud_project=project, ingest_bucket="gs://library")


@pytest.fixture
async def source_id(ctx: Context, storage: FakeCloudStorage) -> str:
    """The source of `a.md`, one of three ingested files, whose passage has a card."""
    storage.put("library", "a.md", "Reef early.")
    for number, text in enumerate(sorted(OTHER_TEXTS)):
        storage.put("library", f"{number}.md", text)
    await run_ingest(ctx)
    chunks = await read_chunks(ctx)
    [chunk_id] = [name for name, chunk in chunks.items() if chunk["content"] == "Reef early."]
    await set_fields(ctx, f"chunks/{chunk_id}", {"knowledge_card": CARD})
    return str(chunks[chunk_id]["source_id"])


async def read_card(ctx: Context, text: str) -> Any:
    """Return the card of the passage with this text."""
    return (await read_chunks_by_text(ctx))[text].get("knowledge_card")


async def read_texts(ctx: Context) -> set[str]:
    return set(await read_chunk_texts(ctx))


async def test_a_missing_source_can_be_restored_by_its_owner(
    app: App, ctx: Context, storage: FakeCloudStorage, source_id: str
) -> None:
    storage.delete("library", "a.md")
    assert (await run_ingest(ctx)).counts == {"sources": 1, "deleted": 1}
    assert await read_texts(ctx) == OTHER_TEXTS
    record = (await read_documents(ctx, "forgotten_sources"))[source_id]
    assert record["forgotten_by"] == "ingest"
    assert record["missing"]

    out = await call_result(app, "forget", OWNER, source_id=source_id, forgotten=False)
    assert out["restored"]["cards"] == 1
    await run_ingest(ctx)
    assert await read_texts(ctx) == OTHER_TEXTS | {"Reef early."}


async def test_a_source_that_returns_gets_its_card_back(
    ctx: Context, storage: FakeCloudStorage, source_id: str
) -> None:
    storage.delete("library", "a.md")
    await run_ingest(ctx)

    storage.put("library", "a.md", "Reef early.")
    report = await run_ingest(ctx)
    assert report.counts == {"read": 1, "sources": 1, "restored": 1}
    assert await read_card(ctx, "Reef early.") == CARD
    assert await read_documents(ctx, "forgotten_sources") == {}

    storage.delete("library", "a.md")
    await run_ingest(ctx)
    storage.put("library", "a.md", "Reef before you think of it.")
    await run_ingest(ctx)
    assert await read_texts(ctx) == OTHER_TEXTS | {"Reef before you think of it."}
    assert source_id in await read_documents(ctx, "sources")


async def test_a_source_that_a_user_forgot_does_not_return(
    app: App, ctx: Context, storage: FakeCloudStorage, source_id: str
) -> None:
    """The source was already missing when the user forgot it."""
    storage.delete("library", "a.md")
    await run_ingest(ctx)
    out = await call_result(app, "forget", OWNER, source_id=source_id, reason="wrong")
    assert out["changed"]

    storage.put("library", "a.md", "Reef early.")
    assert (await run_ingest(ctx)).counts == {"read": 1, "forgotten": 1}
    assert await read_texts(ctx) == OTHER_TEXTS

    await call_result(app, "forget", OWNER, source_id=source_id, forgotten=False)
    assert await read_texts(ctx) == OTHER_TEXTS | {"Reef early."}


async def test_a_source_returns_without_its_card_once_it_is_purged(
    ctx: Context, storage: FakeCloudStorage, source_id: str, clock: SettableClock
) -> None:
    storage.delete("library", "a.md")
    await run_ingest(ctx)
    clock.now += RESTORABLE_SOURCES.duration
    await purge(ctx, make_ample_budget())
    assert await read_documents(ctx, "forgotten") == {}

    storage.put("library", "a.md", "Reef early.")
    await run_ingest(ctx)
    assert await read_card(ctx, "Reef early.") is None
    assert source_id in await read_documents(ctx, "sources")


@pytest.mark.parametrize("commit", [1, 2])
async def test_a_source_returns_after_a_deletion_that_was_killed(
    apps: Apps, ctx: Context, source_id: str, commit: int
) -> None:
    async def die() -> None:
        raise Killed

    dying_ctx = make_job_context(apps(call_after_commit(commit, die)))
    with pytest.raises(Killed):
        await MissingSources(dying_ctx, Report()).forget([source_id])
    await MissingSources(ctx, Report()).restore([source_id])
    assert await read_card(ctx, "Reef early.") == CARD
    assert await read_documents(ctx, "forgotten_sources") == {}
    assert (await run_ingest(ctx)).failures == []
