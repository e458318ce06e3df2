"""A call that changes the knowledge base, killed at any commit, can be repeated."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.source import Section
from shared.runtime.context import App
from tests.support.index_postings import assert_postings_are_exact
from tests.support.killable_children import start_killable_children
from tests.support.knowledge import BAKING, SAILING, index_all, store_sources
from tests.support.notes import OWNER
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call_result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.ai.local_embedding import LocalEmbedder
    from shared.runtime.context import Context

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LONG: Final = replace(
    BAKING,
    source_id="long",
    title="Thirty Breads",
    sections=tuple(Section(text=f"Bread number {number}.") for number in range(30)),
)
"""A source of more passages than one commit moves."""
NOTE: Final = "Rye bread keeps for a week."
SAVED_URL: Final = "https://rye.example/bread"
MAX_COMMITS: Final = 10
WRITES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "save": ("save_note", {"text": "Oat bread keeps for two days.", "again": True}),
    "change": ("save_note", {"source_id": "note", "revision": 1, "text": "It is eaten."}),
    "edit": ("edit_source", {"source_id": "long", "revision": 0, "title": "Loaves"}),
    "forget a passage": ("forget", {"chunk_id": "passage"}),
    "forget a source": ("forget", {"source_id": "long"}),
    "restore a passage": ("forget", {"chunk_id": "forgotten passage", "forgotten": False}),
    "restore a source": ("forget", {"source_id": "sailing", "forgotten": False}),
    "save a link": ("save_link", {"url": "https://oats.example/bread", "title": "Oats"}),
    "take a link back": ("save_link", {"url": SAVED_URL, "cancel": True}),
}
"""Each write: its tool and arguments, in which some names stand for ids."""


@asynccontextmanager
async def open_base(project: str, embedder: LocalEmbedder) -> AsyncIterator[tuple[App, Context]]:
    app = App(Settings(google_cloud_project=project), embedder=embedder)
    yield app, app.context(Caller(), Meter())
    await app.aclose()


async def fill_base(app: App, ctx: Context) -> dict[str, str]:
    """Store sources and a note, and forget some; return the ids for the names in arguments."""
    baking = await store_sources(ctx, BAKING)
    await store_sources(ctx, SAILING, LONG)
    note = await call_result(app, "save_note", OWNER, text=NOTE)
    await call_result(app, "save_link", OWNER, url=SAVED_URL, tags=["rye"])
    passages = [chunk.chunk_id for chunk in baking]
    await call_result(app, "forget", OWNER, chunk_id=passages[1])
    await call_result(app, "forget", OWNER, source_id="sailing")
    return {
        "note": note["source_id"],
        "passage": passages[0],
        "forgotten passage": passages[1],
    }


async def read_contents(ctx: Context) -> dict[str, list[tuple[str, str]]]:
    """Return what is stored and forgotten, and the links, after the index job has run."""
    await index_all(ctx)
    await assert_postings_are_exact(ctx)
    stored = (await read_chunks(ctx)).values()
    forgotten = [data["document"] for data in (await read_documents(ctx, "forgotten")).values()]
    sources = (await read_documents(ctx, "sources")).values()
    records = (await read_documents(ctx, "forgotten_sources")).values()
    assert not any(record.get("unfinished") for record in records)
    links = (await read_documents(ctx, "links")).values()
    return {
        "links": sorted((link["url"], link["state"]) for link in links),
        "chunks": sorted((chunk["title"], chunk["content"]) for chunk in stored),
        "forgotten": sorted((chunk["title"], chunk["content"]) for chunk in forgotten),
        "sources": sorted((source["title"], str(source["chunk_count"])) for source in sources),
    }


@pytest.mark.parametrize("write", WRITES)
async def test_a_call_killed_at_any_commit_can_be_repeated(
    project: str, local_embedder: LocalEmbedder, write: str
) -> None:
    tool, arguments = WRITES[write]
    async with open_base(f"{project}-calm", local_embedder) as (app, ctx):
        ids = await fill_base(app, ctx)
        own = {name: ids.get(str(value), value) for name, value in arguments.items()}
        await call_result(app, tool, OWNER, **own)
        expected = await read_contents(ctx)
    with start_killable_children() as children:
        for commits in range(MAX_COMMITS):
            own_project = f"{project}-{commits}"
            async with open_base(own_project, local_embedder) as (app, ctx):
                ids = await fill_base(app, ctx)
                own = {name: ids.get(str(value), value) for name, value in arguments.items()}
                own["idempotency_key"] = "k-1"
                fields = {"google_cloud_project": own_project}
                order = {"user": OWNER.user_id, "role": OWNER.role, "tool": tool}
                is_finished = await anyio.to_thread.run_sync(
                    partial(children.survives, fields, commits, arguments=own, **order)
                )
                await call_result(app, tool, OWNER, **own)
                assert await read_contents(ctx) == expected, commits
            if is_finished:
                break
    assert is_finished
    assert commits > 0
