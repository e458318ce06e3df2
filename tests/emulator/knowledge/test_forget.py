"""`forget`: passages and sources leave every tool, stay out, and can be restored."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.index.job import index
from functions.jobs.purge.forgotten import FORGOTTEN
from functions.jobs.purge.job import purge
from functions.jobs.repair.job import repair
from functions.tools.knowledge.forget import tool as forget_tool
from shared.core.caller import Caller, Role
from shared.core.meter import Meter
from shared.extractions.upkeep import promote_duplicates
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Section
from shared.pipeline import forgetting
from shared.runtime.context import App
from shared.runtime.job import Report
from tests.support.clock import NOON
from tests.support.commit_hooks import WatchedApp, call_after
from tests.support.commit_hooks import call_before as hook_before
from tests.support.database_state import describe_differences, read_state
from tests.support.extractions import (
    make_decision,
    make_extraction,
    make_warning,
    store_extractions,
)
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import (
    BAKING,
    SAILING,
    chunk_source,
    index_all,
    set_fields,
    store_sources,
)
from tests.support.stored_documents import read_documents
from tests.support.tool_calls import call, call_error, call_result, call_text

if TYPE_CHECKING:
    from collections import Counter

    from shared.core.settings import Settings
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.source import Source
    from shared.runtime.context import Context
    from tests.support.clock import SettableClock
    from tests.support.database_state import State

pytestmark = pytest.mark.anyio

OWNER = Caller.of("anna", role=Role.OWNER)
EDITOR = Caller.of("ed", role=Role.EDITOR)
CARD = {"summary": "Knead and rest.", "takeaways": ["Smooth dough"]}
LONG = replace(
    BAKING,
    source_id="long",
    title="Sixty Breads",
    sections=tuple(Section(text=f"Bread number {number} needs rye flour.") for number in range(60)),
)
"""A source of more passages than two commits move."""


async def save(ctx: Context, *sources: Source) -> Counter[str]:
    """Store sources as ingest does; return the counts."""
    chunked = [chunk_source(source) for source in sources]
    return await Ingestion(ctx.database).save(chunked, ctx.clock())


async def store_base(ctx: Context) -> list[Chunk]:
    """Store two sources with a card, a cluster and extractions, one of them a duplicate."""
    chunks = await store_sources(ctx, BAKING, SAILING)
    await set_fields(ctx, "clusters/dough", {"name": "Dough", "description": "Flour."})
    fields = {"knowledge_card": CARD, "cluster_id": ["dough"], "pending": {"index": NOON}}
    await set_fields(ctx, f"chunks/{chunks[0].chunk_id}", fields)
    await index_all(ctx)
    original = make_extraction(chunks[0], make_decision(), "flour")
    copy = make_extraction(chunks[3], make_decision(), duplicate_of=original.extraction_id)
    await store_extractions(
        ctx, original, make_extraction(chunks[0], make_warning(), "flour"), copy
    )
    return chunks


async def forget(app: App, caller: Caller = OWNER, **arguments: Any) -> dict[str, Any]:
    return await call_result(app, "forget", caller, **arguments)


async def state_of(ctx: Context) -> State:
    """Return the state of the knowledge base, without pending steps and the forgotten records."""
    state = await read_state(ctx)
    for name in ("forgotten", "forgotten_sources", "replays"):
        state.pop(name, None)
    for chunk in state["chunks"].values():
        chunk.pop("pending", None)
    for source in state["sources"].values():
        del source["content_hash"]  # empty after a passage was forgotten or restored
    for postings in (*state["lexicon"].values(), *state["facets"].values()):
        del postings["held"]  # an upper bound, which depends on the history
    return {name: results for name, results in state.items() if results}


async def search_ids(app: App, query: str) -> set[str]:
    results = (await call_result(app, "search_kb", OWNER, query=query))["results"]
    return {result["chunk_id"] for result in results}


async def test_a_forgotten_passage_is_gone_from_every_tool_at_once(app: App, ctx: Context) -> None:
    chunks = await store_base(ctx)
    out = await forget(app, chunk_id=chunks[0].chunk_id, reason="wrong")
    assert out["removed"] == {
        "chunks": 1,
        "vectors": 1,
        "cards": 1,
        "extractions": 2,
        "postings": out["removed"]["postings"],
    }
    assert out["removed"]["postings"] > 10
    assert "Knead the dough" in str(await read_documents(ctx, "forgotten"))
    assert (await call_error(app, "get_chunk", OWNER, chunk_id=chunks[0].chunk_id)).code == (
        "NOT_FOUND"
    )
    assert chunks[0].chunk_id not in await search_ids(app, "knead dough smooth")
    source = await call_result(app, "get_source", OWNER, source_id="baking")
    assert source["chunk_count"] == 2
    assert "Knead" not in str(source)
    for name in ("get_decisions", "get_warnings"):
        assert (await call_result(app, name, OWNER))["results"] == []
    await index_all(ctx)
    assert chunks[0].chunk_id not in await read_documents(ctx, "chunks")


async def test_a_restored_passage_is_as_it_was(app: App, ctx: Context) -> None:
    chunks = await store_base(ctx)
    await index_all(ctx)
    before = await state_of(ctx)
    await forget(app, chunk_id=chunks[0].chunk_id)
    out = await forget(app, chunk_id=chunks[0].chunk_id, forgotten=False)
    assert out["restored"]["extractions"] == 2
    assert chunks[0].chunk_id in await search_ids(app, "knead dough smooth")
    await index_all(ctx)
    assert describe_differences(before, await state_of(ctx)) == ""


async def test_a_passage_is_restored_after_it_left_the_index(app: App, ctx: Context) -> None:
    """A duplicate that took the place of a forgotten extraction stays beside the restored one."""
    chunks = await store_base(ctx)
    await index_all(ctx)
    await forget(app, chunk_id=chunks[0].chunk_id)
    await index_all(ctx)
    [promoted] = (await call_result(app, "get_decisions", OWNER))["results"]
    assert promoted["chunk_id"] == chunks[3].chunk_id
    await forget(app, chunk_id=chunks[0].chunk_id, forgotten=False)
    await index_all(ctx)
    decisions = (await call_result(app, "get_decisions", OWNER))["results"]
    assert {item["chunk_id"] for item in decisions} == {chunks[0].chunk_id, chunks[3].chunk_id}
    chunk = await call_result(app, "get_chunk", OWNER, chunk_id=chunks[0].chunk_id)
    assert chunk["knowledge_card"]["summary"] == CARD["summary"]
    assert chunk["cluster"]["cluster_name"] == "Dough"
    assert chunks[0].chunk_id in await search_ids(app, "knead")
    assert (await repair(ctx, make_ample_budget())).counts == {}


async def test_a_restored_duplicate_without_its_original_is_shown(app: App, ctx: Context) -> None:
    chunks = await store_base(ctx)
    await forget(app, chunk_id=chunks[3].chunk_id)
    await forget(app, source_id="baking")
    await index_all(ctx)
    await forget(app, chunk_id=chunks[3].chunk_id, forgotten=False)
    [visible] = (await call_result(app, "get_decisions", OWNER))["results"]
    assert visible["chunk_id"] == chunks[3].chunk_id


async def test_a_source_of_many_passages_is_forgotten_and_restored(app: App, ctx: Context) -> None:
    await store_base(ctx)
    await store_sources(ctx, LONG)
    before = await state_of(ctx)
    out = await forget(app, source_id="long")
    assert out["removed"]["chunks"] == 60
    assert "remaining" not in out
    assert await search_ids(app, "bread rye number") <= {
        name for name in await read_documents(ctx, "chunks") if not name.startswith("long")
    }
    await index_all(ctx)
    assert {
        name for name in await read_documents(ctx, "chunks") if name.startswith("long")
    } == set()
    assert (await forget(app, source_id="long", forgotten=False))["restored"]["chunks"] == 60
    await index_all(ctx)
    assert describe_differences(before, await state_of(ctx)) == ""
    assert await read_documents(ctx, "forgotten") == {}
    assert await read_documents(ctx, "forgotten_sources") == {}


@pytest.mark.parametrize("original", [0, -1])
async def test_duplicates_of_many_passages_come_back_hidden(
    app: App, ctx: Context, original: int
) -> None:
    """The original is among the first or the last passages that are restored."""
    chunks = sorted(await store_sources(ctx, LONG), key=lambda chunk: chunk.chunk_id)
    first = make_extraction(chunks[original], make_decision(), "flour")
    copies = [
        make_extraction(chunk, make_decision(), "flour", duplicate_of=first.extraction_id)
        for chunk in (chunks[5], chunks[30], chunks[55])
    ]
    await store_extractions(ctx, first, *copies)
    await index_all(ctx)
    before = await state_of(ctx)
    await forget(app, source_id="long")
    await promote_duplicates(ctx, make_ample_budget(), Report())
    await forget(app, source_id="long", forgotten=False)
    await promote_duplicates(ctx, make_ample_budget(), Report())
    await index_all(ctx)
    assert describe_differences(before, await state_of(ctx)) == ""


async def test_no_job_promotes_a_duplicate_before_its_original_is_back(
    settings: Settings, ctx: Context
) -> None:
    """Jobs run after each commit of the restoration."""
    chunks = sorted(await store_sources(ctx, LONG), key=lambda chunk: chunk.chunk_id)
    original = make_extraction(chunks[-1], make_decision(), "flour")
    copy = make_extraction(chunks[0], make_decision(), duplicate_of=original.extraction_id)
    await store_extractions(ctx, original, copy)
    before = await state_of(ctx)
    calm = App(settings, embedder=WordEmbedder())
    await forget(calm, source_id="long")

    async def promote() -> None:
        await promote_duplicates(ctx, make_ample_budget(), Report())

    watched = WatchedApp(settings, call_after(2, promote), embedder=WordEmbedder())
    await forget(watched, source_id="long", forgotten=False)
    await promote()
    await index_all(ctx)
    assert describe_differences(before, await state_of(ctx)) == ""
    await calm.aclose()
    await watched.aclose()


async def test_a_passage_without_a_source_can_be_forgotten(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, SAILING)
    await ctx.database.document("sources", "sailing").delete()
    target: dict[str, Any] = {"chunk_id": chunks[0].chunk_id}
    assert (await call_error(app, "forget", EDITOR, **target)).code == "FORBIDDEN"
    out = await forget(app, **target)
    assert (out["removed"]["chunks"], "undo" in out) == (1, False)
    assert (await call_error(app, "get_chunk", OWNER, **target)).code == "NOT_FOUND"
    assert (await call_error(app, "forget", OWNER, **target, forgotten=False)).code == "CONFLICT"
    await save(ctx, SAILING)
    assert chunks[0].chunk_id not in (await search_ids(app, "sail"))
    await forget(app, **target, forgotten=False)
    assert (await call_result(app, "get_chunk", OWNER, **target))["content"] == chunks[0].content


async def test_after_thirty_days_nothing_is_restored(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    """The job `purge` has not run yet."""
    chunks = await store_base(ctx)
    await forget(app, chunk_id=chunks[0].chunk_id)
    await forget(app, source_id="sailing")
    clock.advance(days=30, minutes=1)
    for target in ({"chunk_id": chunks[0].chunk_id}, {"source_id": "sailing"}):
        error = await call_error(app, "forget", OWNER, **target, forgotten=False)
        assert error.code == "CONFLICT"
        assert "could be restored until" in error.message
    await purge(ctx, make_ample_budget())
    assert (await forget(app, chunk_id=chunks[0].chunk_id, forgotten=False))["changed"]
    assert (await forget(app, source_id="sailing", forgotten=False))["changed"]


async def test_what_is_forgotten_stays_out_when_it_is_ingested_again(
    app: App, ctx: Context
) -> None:
    chunks = await store_base(ctx)
    await forget(app, chunk_id=chunks[0].chunk_id)
    await forget(app, source_id="sailing")
    edited = replace(BAKING, title="Bread in the Oven")
    counts = await save(ctx, edited, SAILING)
    assert counts == {"sources": 1, "updated": 2, "forgotten": 1}
    await index_all(ctx)
    stored = await read_documents(ctx, "chunks")
    assert set(stored) == {chunk.chunk_id for chunk in chunks[1:3]}
    assert (await read_documents(ctx, "sources"))["baking"]["chunk_count"] == 2
    assert await save(ctx, edited) == {}


async def test_the_last_passage_takes_its_source_with_it(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, SAILING)
    await forget(app, chunk_id=chunks[0].chunk_id)
    out = await forget(app, chunk_id=chunks[1].chunk_id)
    assert "chunk_id" not in out
    assert await read_documents(ctx, "sources") == {}
    await forget(app, source_id="sailing", forgotten=False)
    assert set(await read_documents(ctx, "chunks")) >= {chunks[1].chunk_id}
    assert (await read_documents(ctx, "forgotten_sources"))["sailing"]["chunk_ids"] == [
        chunks[0].chunk_id
    ]


async def test_a_note_is_forgotten_and_restored_as_a_whole(app: App, ctx: Context) -> None:
    """Its document has the whole text, of which no part may stay."""
    text = "Rye needs a sour dough, since its gluten is weak. " * 60
    note = await call_result(app, "save_note", EDITOR, text=text, title="Rye")
    await index_all(ctx)
    before = await state_of(ctx)
    chunk_ids = sorted(await read_documents(ctx, "chunks"))
    assert len(chunk_ids) > 1
    out = await forget(app, EDITOR, chunk_id=chunk_ids[0])
    assert out["source_id"] == note["source_id"]
    assert await read_documents(ctx, "sources") == {}
    await index_all(ctx)
    assert await read_documents(ctx, "chunks") == {}
    await forget(app, EDITOR, source_id=note["source_id"], forgotten=False)
    await index_all(ctx)
    assert describe_differences(before, await state_of(ctx)) == ""


async def test_a_slow_call_leaves_the_rest_to_the_index_job(
    app: App, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget_tool, "MOVE_SECONDS", -1.0)
    await store_sources(ctx, LONG)
    out = await forget(app, source_id="long")
    assert (out["removed"]["chunks"], out["remaining"]) == (25, 35)
    await index(ctx, make_ample_budget())
    assert await read_documents(ctx, "sources") == {}
    assert len(await read_documents(ctx, "forgotten")) == 60
    out = await forget(app, source_id="long", forgotten=False)
    assert out["remaining"] == 35
    await index(ctx, make_ample_budget())
    assert len(await read_documents(ctx, "chunks")) == 60
    assert await read_documents(ctx, "forgotten_sources") == {}


async def test_a_source_is_not_forgotten_and_restored_at_once(
    app: App, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget_tool, "MOVE_SECONDS", -1.0)
    await store_sources(ctx, LONG)
    for forgotten, state in ((True, "forgotten"), (False, "restored")):
        await forget(app, source_id="long", forgotten=forgotten)
        opposite = {"source_id": "long", "forgotten": not forgotten}
        error = await call_error(app, "forget", OWNER, **opposite)
        assert error.code == "CONFLICT"
        assert f"still being {state}" in error.message
        await index(ctx, make_ample_budget())
    assert len(await read_documents(ctx, "chunks")) == 60


async def test_a_source_that_two_calls_forget_can_be_restored(
    settings: Settings, ctx: Context
) -> None:
    """The other call forgets it after this one has read it."""
    await store_sources(ctx, BAKING)
    before = await state_of(ctx)
    calm = App(settings, embedder=WordEmbedder())

    async def forget_meanwhile() -> None:
        await forget(calm, source_id="baking")

    racing = WatchedApp(settings, hook_before(1, forget_meanwhile), embedder=WordEmbedder())
    out = await forget(racing, source_id="baking")
    assert (out["forgotten"], out["changed"]) == (True, False)
    assert (await forget(calm, source_id="baking", forgotten=False))["restored"]["chunks"] == 3
    await index_all(ctx)
    assert describe_differences(before, await state_of(ctx)) == ""
    await calm.aclose()
    await racing.aclose()


async def test_a_source_does_not_come_back_while_it_is_deleted_for_good(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    """The job `purge` has deleted the source's document, and was killed before the passages."""
    await store_sources(ctx, BAKING)
    await forget(app, source_id="baking")
    record = ctx.database.document("forgotten_sources", "baking")
    await record.update({"document": DELETE_FIELD})
    restoring = {"source_id": "baking", "forgotten": False}
    error = await call_error(app, "forget", OWNER, **restoring)
    assert (error.code, "purge" in error.message) == ("CONFLICT", True)
    clock.advance(days=31)
    await purge(ctx, make_ample_budget())
    assert await read_documents(ctx, "forgotten") == {}
    assert (await forget(app, source_id="baking", forgotten=False))["changed"]


async def test_a_job_stops_when_a_call_moves_the_same_source(
    settings: Settings, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call completes the source and restores it while the job has a page in hand."""
    await store_sources(ctx, LONG)
    before = await state_of(ctx)
    calm = App(settings, embedder=WordEmbedder())
    with monkeypatch.context() as patch:
        patch.setattr(forget_tool, "MOVE_SECONDS", -1.0)
        await forget(calm, source_id="long")

    async def complete_and_restore() -> None:
        await forget(calm, source_id="long")
        await forget(calm, source_id="long", forgotten=False)

    racing = WatchedApp(settings, hook_before(2, complete_and_restore), embedder=WordEmbedder())
    report = await index(racing.context(Caller(), Meter()), make_ample_budget())
    assert report.failures == []
    await index_all(ctx)
    assert describe_differences(before, await state_of(ctx)) == ""
    await calm.aclose()
    await racing.aclose()


@pytest.mark.parametrize("kind", ["source", "passage"])
async def test_ingest_that_runs_meanwhile_brings_nothing_back(
    settings: Settings, ctx: Context, kind: str
) -> None:
    """It has read the source, and has not written it yet."""
    chunks = await store_sources(ctx, BAKING)
    calm = App(settings, embedder=WordEmbedder())

    async def forget_meanwhile() -> None:
        if kind == "source":
            await forget(calm, source_id="baking")
        else:
            await forget(calm, chunk_id=chunks[0].chunk_id)

    racing = WatchedApp(settings, hook_before(1, forget_meanwhile), embedder=WordEmbedder())
    edited = replace(BAKING, title="Bread in the Oven")
    await save(racing.context(Caller(), Meter()), edited)
    await index_all(ctx)
    stored = await read_documents(ctx, "chunks")
    assert chunks[0].chunk_id not in stored
    sources = await read_documents(ctx, "sources")
    assert len(stored) == (sources["baking"]["chunk_count"] if sources else 0)
    assert len(stored) == (0 if kind == "source" else 2)
    await calm.aclose()
    await racing.aclose()


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("is_killed", [True, False])
async def test_ingest_writes_nothing_of_what_is_forgotten_meanwhile(
    settings: Settings, ctx: Context, *, is_new: bool, is_killed: bool
) -> None:
    """The source takes two commits, and is forgotten between them."""
    texts = tuple(Section(text=f"Loaf number {number} rests.") for number in range(230))
    loaves = replace(BAKING, source_id="loaves", sections=texts)
    if not is_new:
        await save(ctx, replace(loaves, sections=texts[:3]))
    calm = App(settings, embedder=WordEmbedder())

    async def forget_meanwhile() -> None:
        await forget(calm, source_id="loaves")
        if is_killed:
            raise _Killed

    racing = WatchedApp(settings, hook_before(2, forget_meanwhile), embedder=WordEmbedder())
    saving = save(racing.context(Caller(), Meter()), loaves)
    if is_killed:
        with pytest.raises(_Killed):
            await saving
    else:
        assert (await saving)["forgotten"] == 1
    await index_all(ctx)
    assert await read_documents(ctx, "chunks") == {}
    assert await read_documents(ctx, "sources") == {}
    await forget(calm, source_id="loaves", forgotten=False)
    assert await save(ctx, loaves) == {"sources": 1, "created": 30}
    assert (await read_documents(ctx, "sources"))["loaves"]["chunk_count"] == 230
    await calm.aclose()
    await racing.aclose()


async def test_tags_of_a_forgotten_passage_leave_its_source(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING)
    assert chunks[0].tags == ("food", "dough")
    await forget(app, chunk_id=chunks[0].chunk_id)
    await index_all(ctx)
    for tag, count in (("dough", 0), ("food", 1)):
        assert len((await call_result(app, "list_sources", OWNER, tag=tag))["sources"]) == count
    await forget(app, chunk_id=chunks[0].chunk_id, forgotten=False)
    await index_all(ctx)
    assert (await call_result(app, "list_sources", OWNER, tag="dough"))["sources"]


async def test_the_last_two_passages_can_be_forgotten_at_once(app: App, ctx: Context) -> None:
    """One of the calls takes the source with it."""
    chunks = await store_sources(ctx, SAILING)
    await asyncio.gather(*(forget(app, chunk_id=chunk.chunk_id) for chunk in chunks))
    await index_all(ctx)
    assert await read_documents(ctx, "chunks") == {}
    assert await read_documents(ctx, "sources") == {}


async def test_a_passage_is_not_restored_while_its_source_is_forgotten(
    settings: Settings, app: App, ctx: Context
) -> None:
    chunks = await store_sources(ctx, BAKING)
    await forget(app, chunk_id=chunks[0].chunk_id)
    codes: list[str] = []

    async def restore_meanwhile() -> None:
        chunk_id = chunks[0].chunk_id
        answer = await call(app, "forget", OWNER, chunk_id=chunk_id, forgotten=False)
        codes.append(answer.error.code if answer.error else "")

    racing = WatchedApp(settings, hook_before(3, restore_meanwhile), embedder=WordEmbedder())
    await forget(racing, source_id="baking")
    await racing.aclose()
    assert codes == ["CONFLICT"]
    await index_all(ctx)
    assert await read_documents(ctx, "chunks") == {}


async def test_a_restored_passage_follows_its_source_with_the_next_ingest(
    app: App, ctx: Context
) -> None:
    chunks = await store_sources(ctx, BAKING)
    await forget(app, chunk_id=chunks[0].chunk_id)
    edited = replace(BAKING, title="Bread in the Oven")
    await save(ctx, edited)
    await forget(app, chunk_id=chunks[0].chunk_id, forgotten=False)
    assert (await save(ctx, edited))["updated"] == 1
    assert (await read_documents(ctx, "chunks"))[chunks[0].chunk_id]["title"] == edited.title


class _Killed(Exception):
    """The process ended here."""


@pytest.mark.parametrize("commit", [1, 2, 3, 4])
@pytest.mark.parametrize("forgotten", [True, False])
async def test_a_killed_call_is_completed_by_the_next(
    settings: Settings, ctx: Context, commit: int, *, forgotten: bool
) -> None:
    await store_sources(ctx, LONG, SAILING)
    before = await state_of(ctx)

    async def die() -> None:
        raise _Killed

    calm = App(settings, embedder=WordEmbedder())
    if not forgotten:
        await forget(calm, source_id="long")
    dying = WatchedApp(settings, call_after(commit, die), embedder=WordEmbedder())
    await call(dying, "forget", OWNER, source_id="long", forgotten=forgotten)
    await forget(calm, source_id="long", forgotten=forgotten)
    if forgotten:
        assert len(await read_documents(ctx, "forgotten")) == 60
        assert set(await read_documents(ctx, "sources")) == {"sailing"}
        await forget(calm, source_id="long", forgotten=False)
    await index_all(ctx)
    assert describe_differences(before, await state_of(ctx)) == ""
    await calm.aclose()
    await dying.aclose()


async def test_a_killed_call_for_the_last_passage_is_completed(
    settings: Settings, app: App, ctx: Context
) -> None:
    [chunk] = await store_sources(ctx, replace(SAILING, sections=SAILING.sections[:1]))

    async def die() -> None:
        raise _Killed

    dying = WatchedApp(settings, call_after(2, die), embedder=WordEmbedder())
    await call(dying, "forget", OWNER, chunk_id=chunk.chunk_id)
    await dying.aclose()
    await forget(app, chunk_id=chunk.chunk_id)
    assert await read_documents(ctx, "sources") == {}
    await forget(app, source_id="sailing", forgotten=False)
    assert chunk.chunk_id in await read_documents(ctx, "chunks")


async def test_a_changed_passage_is_moved_as_it_is_now(settings: Settings, ctx: Context) -> None:
    """Another job writes a card between the reading and the move."""
    chunks = await store_sources(ctx, SAILING)

    async def write_card() -> None:
        await set_fields(ctx, f"chunks/{chunks[1].chunk_id}", {"knowledge_card": CARD})

    app = WatchedApp(settings, call_after(1, write_card), embedder=WordEmbedder())
    await forget(app, source_id="sailing")
    stored = await read_documents(ctx, "forgotten")
    assert stored[chunks[1].chunk_id]["document"]["knowledge_card"] == CARD
    await app.aclose()


async def test_after_thirty_days_only_the_record_stays(
    app: App, ctx: Context, clock: SettableClock
) -> None:
    chunks = await store_base(ctx)
    await forget(app, chunk_id=chunks[0].chunk_id, reason="outdated")
    await forget(app, source_id="sailing")
    assert (await purge(ctx, make_ample_budget())).counts["forgotten"] == 0
    clock.advance(days=30, minutes=1)
    assert FORGOTTEN.count
    assert await FORGOTTEN.count(ctx) == 2
    assert (await purge(ctx, make_ample_budget())).counts["forgotten"] == 3
    [record] = (await read_documents(ctx, "forgotten")).values()
    assert record.keys() == {"forgotten_at", "forgotten_by", "reason"}
    assert record["reason"] == "outdated"
    source = (await read_documents(ctx, "forgotten_sources"))["sailing"]
    assert source["whole"]
    assert "document" not in source
    assert await save(ctx, SAILING) == {"forgotten": 1}
    for target in ({"chunk_id": chunks[0].chunk_id}, {"source_id": "sailing"}):
        assert "come back when their file" in await call_text(
            app, "forget", OWNER, **target, forgotten=False
        )
    counts = await save(ctx, BAKING, SAILING)
    assert counts == {"sources": 2, "created": 3}
    assert set(await read_documents(ctx, "chunks")) >= {chunk.chunk_id for chunk in chunks}


async def test_only_an_owner_forgets_what_others_saved(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING, SAILING)
    await set_fields(ctx, "sources/sailing", {"saved_by": "ed"})
    for target in ({"source_id": "baking"}, {"chunk_id": chunks[0].chunk_id}):
        error = await call_error(app, "forget", EDITOR, **target)
        assert error.code == "FORBIDDEN"
        assert "carrel accounts role ed owner" in error.message
    assert (await forget(app, EDITOR, source_id="sailing"))["changed"]
    assert (await forget(app, EDITOR, source_id="sailing", forgotten=False))["changed"]


async def test_others_learn_no_title_of_what_was_forgotten(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING, SAILING)
    chunk_ids = [chunks[0].chunk_id, chunks[-1].chunk_id]
    await forget(app, chunk_id=chunk_ids[0])
    await forget(app, source_id="sailing")
    targets = [{"source_id": "sailing"}, *({"chunk_id": chunk_id} for chunk_id in chunk_ids)]
    for target in targets:
        for forgotten in (True, False):
            error = await call_error(app, "forget", EDITOR, **target, forgotten=forgotten)
            assert error.code == "FORBIDDEN"
            assert BAKING.title not in error.message
            assert SAILING.title not in error.message


async def test_editors_repeat_forgetting_their_own_note(app: App, ctx: Context) -> None:
    note = await call_result(app, "save_note", EDITOR, text="Rye keeps for a week.", title="Rye")
    [chunk_id] = await read_documents(ctx, "chunks")
    await forget(app, EDITOR, source_id=note["source_id"])
    for target in ({"source_id": note["source_id"]}, {"chunk_id": chunk_id}):
        again = await forget(app, EDITOR, **target)
        assert (again["changed"], again["title"]) == (False, "Rye")


async def test_repeating_a_call_changes_nothing(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING, SAILING)
    targets: list[dict[str, Any]] = [
        {"source_id": "sailing"},
        {"chunk_id": chunks[0].chunk_id},
    ]
    for target in targets:
        for forgotten in (True, False):
            assert (await forget(app, **target, forgotten=forgotten))["changed"]
            again = await forget(app, **target, forgotten=forgotten)
            assert (again["changed"], again["forgotten"]) == (False, forgotten)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({}, "VALIDATION_ERROR", "either chunk_id"),
        ({"chunk_id": "a", "source_id": "b"}, "VALIDATION_ERROR", "either chunk_id"),
        ({"chunk_id": "nope"}, "NOT_FOUND", "search_kb"),
        ({"source_id": "nope"}, "NOT_FOUND", "list_sources"),
        ({"chunk_id": "nope", "forgotten": False}, "NOT_FOUND", "never forgotten"),
        ({"source_id": "nope", "forgotten": False}, "NOT_FOUND", "never forgotten"),
    ],
)
async def test_wrong_ids_get_a_clear_error(
    app: App, arguments: dict[str, Any], code: str, words: str
) -> None:
    error = await call_error(app, "forget", OWNER, **arguments)
    assert error.code == code
    assert words in error.message


async def test_a_passage_does_not_come_back_without_its_source(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, SAILING)
    await forget(app, chunk_id=chunks[0].chunk_id)
    await forget(app, source_id="sailing")
    error = await call_error(app, "forget", OWNER, chunk_id=chunks[0].chunk_id, forgotten=False)
    assert error.code == "CONFLICT"
    assert '"source_id": "sailing"' in error.message


async def test_the_answer_says_what_follows(app: App, ctx: Context) -> None:
    await store_sources(ctx, SAILING)
    text = await call_text(app, "forget", OWNER, source_id="sailing")
    assert text.startswith('Forgot "Under Sail". Removed: 2 passages, 2 vectors, 0 cards')
    assert "follow with the next index run" in text
    assert 'call forget with {"source_id": "sailing", "forgotten": false}' in text


async def test_a_vector_of_another_model_is_not_restored(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING, SAILING)
    await store_extractions(ctx, make_extraction(chunks[3], make_decision(), "flour"))
    await forget(app, source_id="sailing")
    await set_fields(ctx, "meta/embedding", {"model": "other-model"})
    await forget(app, source_id="sailing", forgotten=False)
    assert await read_documents(ctx, "extractions") == {}
    stored = (await read_documents(ctx, "chunks"))[chunks[3].chunk_id]
    assert "embedding" not in stored
    assert "extract" in stored["pending"]
    assert "embedding_f16" not in stored
    assert set(stored["pending"]) >= {"embed", "index"}


def test_a_page_moves_in_one_commit() -> None:
    """The tests above rely on it."""
    assert forgetting.PAGE < 60 / 2
