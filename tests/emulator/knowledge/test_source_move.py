"""`forget` moves whole sources, although calls run at the same time or are killed.

To forget a source is to move its passages out of the knowledge base, and to restore it is to move
them back. A long source takes several commits. What a call does not complete, the next call or the
index job does.
"""

import asyncio
from dataclasses import replace

import pytest

from functions.jobs.index.job import index
from functions.tools.knowledge.forget import tool as forget_tool
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.firestore.documents import Reference
from shared.firestore.leases import Leases
from shared.knowledge.forgotten_chunks import CHUNKS_PER_COMMIT
from shared.knowledge.forgotten_repository import ForgottenSources
from shared.knowledge.source import Section
from shared.runtime.context import App, Context
from shared.writer.forgetting import Forgetter
from shared.writer.source_move import SourceMove
from tests.support.apps import Apps
from tests.support.clock import NOON
from tests.support.commit_hooks import (
    Response,
    Send,
    call_after_commit,
    call_before_commit,
    intercept_commits,
)
from tests.support.database_state import describe_differences
from tests.support.forgetting import (
    CARD,
    LONG,
    OWNER,
    forget,
    read_knowledge,
    save_sources,
)
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, index_all, set_fields, store_sources
from tests.support.stored_documents import read_documents
from tests.support.tool_calls import call_error

LENGTH = len(LONG.sections)
"""The number of passages of the long source, 60."""


class _Killed(Exception):
    """The process ended here."""


@pytest.fixture(autouse=True)
def patient_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a writer try again for a minute, since a call inside a hook is slow on a busy machine."""
    monkeypatch.setattr("shared.firestore.database.CONFLICT_SECONDS", 60)


async def send_each_commit_twice(_commit: int, send: Send) -> Response:
    await send()
    return await send()


async def test_the_index_job_completes_a_call_that_ran_out_of_time(
    app: App, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here, the time of a call ends after its first commit. Until then, nobody can undo it."""
    assert CHUNKS_PER_COMMIT < LENGTH / 2  # other tests rely on a move of three commits
    monkeypatch.setattr(forget_tool, "MOVE_SECONDS", -1.0)
    await store_sources(ctx, LONG)
    for forgotten, state in ((True, "forgotten"), (False, "restored")):
        out = await forget(app, source_id="long", forgotten=forgotten)
        assert out["remaining"] == LENGTH - CHUNKS_PER_COMMIT
        assert out["removed" if forgotten else "restored"]["chunks"] == CHUNKS_PER_COMMIT
        opposite = {"source_id": "long", "forgotten": not forgotten}
        error = await call_error(app, "forget", OWNER, **opposite)
        assert error.code == "CONFLICT"
        assert f"still being {state}" in error.message
        await index(ctx, make_ample_budget())
        assert len(await read_documents(ctx, "sources")) == (not forgotten)
        assert len(await read_documents(ctx, "forgotten")) == LENGTH * forgotten
        assert len(await read_documents(ctx, "forgotten_sources")) == forgotten
    assert len(await read_documents(ctx, "chunks")) == LENGTH


async def test_a_source_that_two_calls_forgot_can_be_restored(
    app: App, ctx: Context, apps: Apps
) -> None:
    """The second call forgets the source after the first one has read it."""
    await store_sources(ctx, BAKING)
    before = await read_knowledge(ctx)

    async def forget_before_commit() -> None:
        await forget(app, source_id="baking")

    racing = apps(call_before_commit(1, forget_before_commit))
    out = await forget(racing, source_id="baking")
    assert out["forgotten"] is True
    assert out["changed"] is False
    assert (await forget(app, source_id="baking", forgotten=False))["restored"]["chunks"] == 3
    await index_all(ctx)
    assert describe_differences(before, await read_knowledge(ctx)) == ""


async def test_the_job_stops_when_a_call_moves_the_same_source(
    app: App, ctx: Context, apps: Apps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job has read passages to move, and the call moves them all, and all back again."""
    await store_sources(ctx, LONG)
    before = await read_knowledge(ctx)
    with monkeypatch.context() as patch:
        patch.setattr(forget_tool, "MOVE_SECONDS", -1.0)
        await forget(app, source_id="long")

    async def complete_and_restore() -> None:
        await forget(app, source_id="long")
        await forget(app, source_id="long", forgotten=False)

    racing = apps(call_before_commit(2, complete_and_restore))
    report = await index(racing.context(Caller(), Meter()), make_ample_budget())
    assert report.failures == []
    await index_all(ctx)
    assert describe_differences(before, await read_knowledge(ctx)) == ""


@pytest.mark.parametrize("kind", ["source", "passage"])
async def test_ingest_does_not_restore_what_is_forgotten_while_it_runs(
    app: App, ctx: Context, apps: Apps, kind: str
) -> None:
    """Ingest has read the source, and has not written it yet."""
    chunks = await store_sources(ctx, BAKING)

    async def forget_before_commit() -> None:
        if kind == "source":
            await forget(app, source_id="baking")
        else:
            await forget(app, chunk_id=chunks[0].chunk_id)

    racing = apps(call_before_commit(1, forget_before_commit))
    edited = replace(BAKING, title="Bread in the Oven")
    await save_sources(racing.context(Caller(), Meter()), edited)
    await index_all(ctx)
    stored_ids = set(await read_documents(ctx, "chunks"))
    sources = await read_documents(ctx, "sources")
    if kind == "source":
        assert stored_ids == set()
        assert sources == {}
    else:
        assert stored_ids == {chunk.chunk_id for chunk in chunks[1:]}
        assert sources["baking"]["chunk_count"] == 2


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("is_killed", [True, False])
async def test_ingest_stops_when_its_source_is_forgotten_between_commits(
    app: App, ctx: Context, apps: Apps, *, is_new: bool, is_killed: bool
) -> None:
    """Ingest writes the source in two commits of 200 and 30 passages."""
    sections = tuple(Section(text=f"Loaf number {number} rests.") for number in range(230))
    loaves = replace(BAKING, source_id="loaves", sections=sections)
    if not is_new:
        await save_sources(ctx, replace(loaves, sections=sections[:3]))

    async def forget_between_commits() -> None:
        await forget(app, source_id="loaves")
        if is_killed:
            raise _Killed

    racing = apps(call_before_commit(2, forget_between_commits))
    saving = save_sources(racing.context(Caller(), Meter()), loaves)
    if is_killed:
        with pytest.raises(_Killed):
            await saving
    else:
        assert (await saving)["forgotten"] == 1
    await index_all(ctx)
    assert await read_documents(ctx, "chunks") == {}
    assert await read_documents(ctx, "sources") == {}

    await forget(app, source_id="loaves", forgotten=False)
    assert await save_sources(ctx, loaves) == {"sources": 1, "created": 30}
    assert (await read_documents(ctx, "sources"))["loaves"]["chunk_count"] == 230


async def test_the_last_two_passages_can_be_forgotten_concurrently(app: App, ctx: Context) -> None:
    """One of the two calls forgets the source as well."""
    chunks = await store_sources(ctx, SAILING)
    await asyncio.gather(*(forget(app, chunk_id=chunk.chunk_id) for chunk in chunks))
    await index_all(ctx)
    assert await read_documents(ctx, "chunks") == {}
    assert await read_documents(ctx, "sources") == {}


async def test_moves_under_a_lease_survive_lost_answers(ctx: Context) -> None:
    """Google's client sends a commit again whose answer was lost, and the job holds a lease."""
    await store_sources(ctx, LONG)
    before = await read_knowledge(ctx)
    database = ctx.database
    await Leases(database).acquire("ingest", 60, ctx.clock)
    with pytest.MonkeyPatch.context() as patch:
        intercept_commits(database.connection, patch, send_each_commit_twice)
        source = await database.get(Reference("sources", "long"))
        record, snapshot = await ForgottenSources(database).get("long")
        forgetter = Forgetter("anna", None, ctx.clock())
        move = await SourceMove.begin_forgetting(database, source, record, snapshot, forgetter)
        record, _ = await ForgottenSources(database).get("long")
        assert sum([counts.chunks async for counts in move.complete(record, NOON)]) == LENGTH
        assert await read_documents(ctx, "sources") == {}

        record, snapshot = await ForgottenSources(database).get("long")
        move = await SourceMove.begin_restoring(database, record, snapshot)
        record, _ = await ForgottenSources(database).get("long")
        assert sum([counts.chunks async for counts in move.complete(record, NOON)]) == LENGTH
    await index_all(ctx)
    assert describe_differences(before, await read_knowledge(ctx)) == ""


async def test_a_passage_changed_during_the_move_is_moved_as_changed(
    ctx: Context, apps: Apps
) -> None:
    """Another job writes a card between the reading and the move."""
    chunks = await store_sources(ctx, SAILING)

    async def write_card() -> None:
        await set_fields(ctx, f"chunks/{chunks[1].chunk_id}", {"knowledge_card": CARD})

    app = apps(call_after_commit(1, write_card))
    await forget(app, source_id="sailing")
    stored = await read_documents(ctx, "forgotten")
    assert stored[chunks[1].chunk_id]["document"]["knowledge_card"] == CARD
