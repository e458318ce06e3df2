"""A call that changes the knowledge base can be repeated after it was killed at any commit.

A test makes the call undisturbed in one base. Then it kills the call in a process of its own before
the first commit, after the first, after the second and so on, each time in a new base. It repeats
the killed call, and compares the two bases.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
"""No call takes this many commits."""


class Write(NamedTuple):
    """A call of a tool. Some values of its arguments are names, which `fill_base` gives ids."""

    tool: str
    arguments: dict[str, Any]

    def fill_in(self, ids: dict[str, str]) -> dict[str, Any]:
        """Return the arguments with ids in place of names."""
        return {name: ids.get(str(value), value) for name, value in self.arguments.items()}


WRITES: Final = {
    "save a note": Write("save_note", {"text": "Oat bread keeps for two days.", "again": True}),
    "change a note": Write(
        "save_note", {"source_id": "the note", "revision": 1, "text": "It is eaten."}
    ),
    "edit a source": Write("edit_source", {"source_id": "long", "revision": 0, "title": "Loaves"}),
    "forget a passage": Write("forget", {"chunk_id": "the passage"}),
    "forget a source": Write("forget", {"source_id": "long"}),
    "restore a passage": Write("forget", {"chunk_id": "the forgotten passage", "forgotten": False}),
    "restore a source": Write("forget", {"source_id": "sailing", "forgotten": False}),
    "save a link": Write("save_link", {"url": "https://oats.example/bread", "title": "Oats"}),
    "cancel a link": Write("save_link", {"url": SAVED_URL, "cancel": True}),
}


class Base(NamedTuple):
    """A filled knowledge base, its app, and the ids for the names in arguments."""

    app: App
    ctx: Context
    ids: dict[str, str]


@asynccontextmanager
async def open_base(project: str, embedder: LocalEmbedder) -> AsyncIterator[Base]:
    """Fill a knowledge base, and close its app at the end of the block."""
    app = App(Settings(google_cloud_project=project), embedder=embedder)
    ctx = app.context(Caller(), Meter())
    yield Base(app, ctx, await fill_base(app, ctx))
    await app.aclose()


async def fill_base(app: App, ctx: Context) -> dict[str, str]:
    """Store sources, a note and a link, and forget some; return the ids for names in arguments."""
    first, second, _ = await store_sources(ctx, BAKING)
    await store_sources(ctx, SAILING, LONG)
    note = await call_result(app, "save_note", OWNER, text=NOTE)
    await call_result(app, "save_link", OWNER, url=SAVED_URL, tags=["rye"])
    await call_result(app, "forget", OWNER, chunk_id=second.chunk_id)
    await call_result(app, "forget", OWNER, source_id="sailing")
    return {
        "the note": note["source_id"],
        "the passage": first.chunk_id,
        "the forgotten passage": second.chunk_id,
    }


async def read_contents(ctx: Context) -> dict[str, list[tuple[str, str]]]:
    """Run the index job, and return the links and what is stored and forgotten."""
    await index_all(ctx)
    await assert_postings_are_exact(ctx)
    chunks = (await read_chunks(ctx)).values()
    forgotten = [data["document"] for data in (await read_documents(ctx, "forgotten")).values()]
    sources = (await read_documents(ctx, "sources")).values()
    records = (await read_documents(ctx, "forgotten_sources")).values()
    assert not any(record.get("unfinished") for record in records)
    links = (await read_documents(ctx, "links")).values()
    return {
        "links": sorted((link["url"], link["state"]) for link in links),
        "chunks": sorted((chunk["title"], chunk["content"]) for chunk in chunks),
        "forgotten": sorted((chunk["title"], chunk["content"]) for chunk in forgotten),
        "sources": sorted((source["title"], str(source["chunk_count"])) for source in sources),
    }


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_a_call_killed_at_any_commit_can_be_repeated(
    project: str, local_embedder: LocalEmbedder, write: Write
) -> None:
    async with open_base(f"{project}-expected", local_embedder) as base:
        await call_result(base.app, write.tool, OWNER, **write.fill_in(base.ids))
        expected = await read_contents(base.ctx)

    with start_killable_children() as children:
        for commits in range(MAX_COMMITS):
            killed_project = f"{project}-{commits}"
            async with open_base(killed_project, local_embedder) as base:
                arguments = write.fill_in(base.ids) | {"idempotency_key": "k-1"}
                settings = {"google_cloud_project": killed_project}
                order = {"user": OWNER.user_id, "role": OWNER.role, "tool": write.tool}
                is_finished = await anyio.to_thread.run_sync(
                    partial(children.survives, settings, commits, arguments=arguments, **order)
                )
                await call_result(base.app, write.tool, OWNER, **arguments)
                assert await read_contents(base.ctx) == expected, commits
            if is_finished:
                break
    assert is_finished
    assert commits > 0
