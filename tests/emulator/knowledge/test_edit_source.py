"""`edit_source` sets fields of a source, which ingest keeps, and its passages and search follow.

The call rewrites as many passages as fit a commit. The job `index` rewrites the others.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from functions.jobs.repair.job import repair
from shared.core.caller import Caller, Role
from shared.core.meter import Meter
from shared.firestore.database import WriteConflict
from shared.knowledge import source_editing
from shared.knowledge.source import Section
from shared.knowledge.source_editing import SourceEditing
from shared.runtime.context import App, Context
from tests.support.apps import Apps
from tests.support.commit_hooks import call_before_commit
from tests.support.database_state import State, describe_differences, read_state
from tests.support.forgetting import save_sources
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, embed_all, index_all, set_fields, store_sources
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call, call_error, call_result, call_text

OWNER = Caller.of("anna", role=Role.OWNER)
EDITOR = Caller.of("ed", role=Role.EDITOR)
LONG = replace(
    BAKING,
    source_id="long",
    title="Sixty Breads",
    sections=tuple(
        Section(text=f"Bread number {number} needs rye flour.", tags=("rye",) if number < 2 else ())
        for number in range(60)
    ),
)
"""A source of more passages than the commits of these tests write."""


async def edit(app: App, source_id: str = "baking", revision: int = 0, **fields: Any) -> Any:
    """Call the tool as an owner, and return its result."""
    arguments = {"source_id": source_id, "revision": revision, **fields}
    return await call_result(app, "edit_source", OWNER, **arguments)


async def run_jobs(ctx: Context) -> None:
    """Run the jobs that rewrite, index and embed passages after an edit."""
    await index_all(ctx)
    await embed_all(ctx)


async def read_fields(ctx: Context, source_id: str = "baking") -> dict[str, Any]:
    """Return the editable fields of a source, as they are stored."""
    source = (await read_documents(ctx, "sources"))[source_id]
    return {name: source[name] for name in ("title", "author", "tags")}


async def read_base_state(ctx: Context) -> State:
    """Return the state of the knowledge base, without what depends on its history."""
    state = await read_state(ctx)
    state.pop("replays", None)
    state["sources"] = {
        name: {
            key: value for key, value in source.items() if key not in ("content_hash", "revision")
        }
        for name, source in state["sources"].items()
    }
    for chunk in state["chunks"].values():
        chunk.pop("pending", None)
    for postings in (*state["lexicon"].values(), *state["facets"].values()):
        del postings["held"]  # an upper bound, which depends on the history
    return {collection: documents for collection, documents in state.items() if documents}


async def search(app: App, **arguments: Any) -> list[dict[str, Any]]:
    """Return the hits of `search_kb`."""
    return list((await call_result(app, "search_kb", OWNER, **arguments))["results"])


async def test_an_edit_is_shown_by_the_next_call(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    out = await edit(app, title="Loaves", author="Ida Crumb", tags=["bread", "#home"])
    assert out["changed"] == out["edited"] == ["title", "author", "tags"]
    assert out["origin"] == {"title": "Bread at Home", "author": "Ida Loaf", "tags": ["food"]}
    assert out["revision"] == 1
    assert out["waiting"] == 3

    source = await call_result(app, "get_source", OWNER, source_id="baking")
    assert (source["title"], source["author"]) == ("Loaves", "Ida Crumb")
    assert source["tags"] == ["bread", "home"]
    assert source["revision"] == 1
    assert source["edited"] == ["title", "author", "tags"]
    assert [passage["tags"] for passage in source["chunks"]] == [
        ["bread", "home", "dough"],
        ["bread", "home"],
        ["bread", "home"],
    ]

    [hit, *_] = await search(app, query="knead the dough")
    assert (hit["title"], hit["author"]) == ("Loaves", "Ida Crumb")
    [listed] = (await call_result(app, "list_sources", OWNER, author="Ida Crumb"))["sources"]
    assert listed["source_id"] == "baking"
    assert (await call_result(app, "list_sources", OWNER, tag="food"))["sources"] == []


async def test_search_finds_an_edit_once_the_jobs_have_run(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    await edit(app, title="Loaves", author="Ida Crumb", tags=["bread"])
    await run_jobs(ctx)

    for filters in ({"author": "Ida Crumb"}, {"tags": ["bread"]}, {"source": "Loaves"}):
        hits = await search(app, query="oven", filters=filters)
        assert {hit["source_id"] for hit in hits} == {"baking"}, filters
    assert (await search(app, query="loaves", mode="lexical"))[0]["source_id"] == "baking"
    assert await search(app, query="oven", filters={"tags": ["food"]}) == []
    for kind, name in (("author", "Ida Crumb"), ("tag", "bread")):
        names = (await call_result(app, "complete_name", kind=kind, prefix=name[:2]))["names"]
        assert name in {entry["name"] for entry in names}

    assert {chunk["embedding_model"] for chunk in (await read_chunks(ctx)).values()}
    assert "mended" not in (await repair(ctx, make_ample_budget())).counts
    sources = await read_documents(ctx, "sources")
    assert "rewriting" not in sources["baking"]


async def test_an_edited_source_equals_one_ingested_with_the_new_values(
    app: App, ctx: Context
) -> None:
    """The next ingest finds passages and an index as it would have made them."""
    await store_sources(ctx, BAKING, SAILING)
    await edit(app, title="Loaves", author="", tags=["dough", "bread"])
    await run_jobs(ctx)
    before = await read_base_state(ctx)
    assert await save_sources(ctx, BAKING, SAILING) == {"sources": 1, "edits kept": 1}
    assert await save_sources(ctx, BAKING, SAILING) == {"edits kept": 1}
    await run_jobs(ctx)
    assert describe_differences(before, await read_base_state(ctx)) == ""


async def test_the_next_ingest_keeps_an_edit(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    await edit(app, title="Loaves", tags=["bread"])
    changed = replace(BAKING, title="Bread, 2nd ed.", author="I. Loaf", tags=("food", "new"))
    counts = await save_sources(ctx, changed)
    assert counts == {"sources": 1, "updated": 3, "edits kept": 1}
    assert await read_fields(ctx) == {"title": "Loaves", "author": "I. Loaf", "tags": ["bread"]}
    stored = await read_chunks(ctx)
    assert {chunk["title"] for chunk in stored.values()} == {"Loaves"}
    assert {chunk["author"] for chunk in stored.values()} == {"I. Loaf"}
    assert await save_sources(ctx, changed) == {"edits kept": 1}


async def test_a_reset_restores_the_current_values_of_the_origin(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    await edit(app, title="Loaves", author="", tags=[])
    second_edition = replace(BAKING, title="Bread, 2nd ed.", tags=("food", "new"))
    await save_sources(ctx, second_edition)

    out = await edit(app, revision=1, reset=["title", "author", "tags"])
    assert out["changed"] == ["title", "author", "tags"]
    assert out["edited"] == []
    assert "origin" not in out

    await run_jobs(ctx)
    state_after_reset = await read_base_state(ctx)
    await save_sources(ctx, second_edition)
    await run_jobs(ctx)
    assert describe_differences(state_after_reset, await read_base_state(ctx)) == ""
    assert await read_fields(ctx) == {
        "title": "Bread, 2nd ed.",
        "author": "Ida Loaf",
        "tags": ["food", "new"],
    }
    assert await save_sources(ctx, second_edition) == {}


async def test_a_passage_keeps_its_own_tags(app: App, ctx: Context) -> None:
    """This also applies to a tag that the source has for a while, too."""
    [first, *_] = await store_sources(ctx, BAKING)
    await edit(app, tags=["dough"])
    await save_sources(ctx, BAKING)
    await edit(app, revision=1, tags=[])
    assert (await read_chunks(ctx))[first.chunk_id]["tags"] == ["dough"]
    await edit(app, revision=2, reset=["tags"])
    assert (await read_chunks(ctx))[first.chunk_id]["tags"] == ["food", "dough"]


@pytest.mark.parametrize(
    "fields",
    [{"title": "Loaves"}, {"author": ""}, {"tags": ["bread"]}, {"reset": ["author", "tags"]}],
)
async def test_undo_restores_fields_and_edits(
    app: App, ctx: Context, fields: dict[str, Any]
) -> None:
    await store_sources(ctx, BAKING)
    await edit(app, author="Ida Crumb", tags=["rye"])
    await run_jobs(ctx)
    before = await read_base_state(ctx)
    out = await edit(app, revision=1, **fields)
    assert "edit_source" in out["undo"]["tool"]
    await call_result(app, out["undo"]["tool"], OWNER, **out["undo"]["arguments"])
    await run_jobs(ctx)
    assert describe_differences(before, await read_base_state(ctx)) == ""


async def test_one_of_two_simultaneous_edits_gets_the_others_values(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    arguments: dict[str, Any] = {"source_id": "baking", "revision": 0}
    outcomes = await asyncio.gather(
        call(app, "edit_source", OWNER, title="Loaves", **arguments),
        call(app, "edit_source", OWNER, tags=["bread"], **arguments),
    )
    errors = [outcome.error for outcome in outcomes if outcome.error]
    assert [error.code for error in errors] == ["CONFLICT"]
    details = errors[0].details
    assert details.items() >= (await read_fields(ctx)).items()
    assert details["revision"] == 1


async def test_repeating_an_edit_changes_nothing(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    first = await edit(app, title="Loaves", idempotency_key="k")
    before = await read_documents(ctx, "sources")
    assert await edit(app, title="Loaves", idempotency_key="k") == first
    out = await edit(app, revision=1, title="Loaves", reset=["author"])
    assert out["changed"] == []
    assert out["revision"] == 1
    assert out["waiting"] == 0
    assert "undo" not in out
    assert await read_documents(ctx, "sources") == before


async def test_an_edit_of_another_revision_names_the_stored_one(app: App, ctx: Context) -> None:
    await store_sources(ctx, SAILING)
    arguments = {"source_id": "sailing", "revision": 3, "title": "A"}
    error = await call_error(app, "edit_source", OWNER, **arguments)
    assert error.code == "CONFLICT"
    assert "revision 0" in error.message


async def test_an_edited_note_keeps_its_former_revision(app: App, ctx: Context) -> None:
    saved = await call_result(app, "save_note", EDITOR, text="Rye is weak.", tags=["rye"])
    note = {"source_id": saved["source_id"]}

    out = await call_result(app, "edit_source", EDITOR, **note, revision=1, tags=["rye", "flour"])
    assert out["revision"] == 2
    assert out["edited"] == []
    source = await call_result(app, "get_source", EDITOR, **note)
    assert source["tags"] == ["rye", "flour"]
    assert source["revision"] == 2

    edits = {"title": "Rye", "tags": ["flour"]}
    await call_result(app, "edit_source", EDITOR, **note, revision=2, **edits)
    [chunk] = (await read_chunks(ctx)).values()
    assert chunk["title"] == "Rye"
    assert chunk["tags"] == ["flour"]
    error = await call_error(app, "edit_source", EDITOR, **note, revision=3, author="Ed")
    assert error.code == "VALIDATION_ERROR"  # a note has no author

    undo = {"revision": 3, "restore_revision": 1}
    assert (await call_result(app, "save_note", EDITOR, **note, **undo))["tags"] == ["rye"]

    other_editor = Caller.of("eve", role=Role.EDITOR)
    error = await call_error(app, "edit_source", other_editor, **note, revision=4, tags=[])
    assert error.code == "FORBIDDEN"


async def test_forgetting_and_restoring_keeps_an_edit(app: App, ctx: Context) -> None:
    """This also applies to a passage that was forgotten before the edit."""
    [first, *_] = await store_sources(ctx, BAKING)
    await call_result(app, "forget", OWNER, chunk_id=first.chunk_id)
    await edit(app, title="Loaves", tags=["bread"])
    await call_result(app, "forget", OWNER, source_id="baking")
    error = await call_error(app, "edit_source", OWNER, source_id="baking", revision=1, title="A")
    assert error.code == "NOT_FOUND"

    await call_result(app, "forget", OWNER, source_id="baking", forgotten=False)
    await call_result(app, "forget", OWNER, chunk_id=first.chunk_id, forgotten=False)
    await run_jobs(ctx)
    stored = await read_chunks(ctx)
    assert {chunk["title"] for chunk in stored.values()} == {"Loaves"}
    assert stored[first.chunk_id]["tags"] == ["bread", "dough"]
    assert await save_sources(ctx, BAKING) == {"sources": 1, "edits kept": 1}


async def test_a_long_source_is_completed_by_the_index_job(
    app: App, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_editing, "MAX_WRITES", 25)
    await store_sources(ctx, LONG)
    assert (await edit(app, "long", title="Many Breads", tags=["bread"]))["waiting"] == 60
    titles = [chunk["title"] for chunk in (await read_chunks(ctx)).values()]
    assert titles.count("Many Breads") == 25

    await run_jobs(ctx)
    assert {chunk["title"] for chunk in (await read_chunks(ctx)).values()} == {"Many Breads"}
    source = (await read_documents(ctx, "sources"))["long"]
    assert "tag:rye" in source["facets"]
    assert "rewriting" not in source
    assert await save_sources(ctx, LONG) == {"sources": 1, "edits kept": 1}


async def _rewrite_all(ctx: Context) -> None:
    """Rewrite the passages of `long`, as the job does, and end with StopAsyncIteration."""
    rewriting = SourceEditing(ctx.database).rewrite_chunks("long", ctx.clock())
    while True:
        await anext(rewriting)


@pytest.mark.parametrize("commit", [1, 2, 3])
async def test_an_edit_made_while_the_job_runs_is_kept(
    app: App,
    ctx: Context,
    apps: Apps,
    monkeypatch: pytest.MonkeyPatch,
    commit: int,
) -> None:
    """The job has read the source before the edit, and its next commit is refused."""
    monkeypatch.setattr(source_editing, "MAX_WRITES", 15)
    await store_sources(ctx, LONG)
    await edit(app, "long", title="Many Breads", tags=["bread"])

    async def edit_again() -> None:
        await edit(app, "long", revision=1, title="All Breads", tags=["rye"])

    racing = apps(call_before_commit(commit, edit_again))
    with pytest.raises(WriteConflict):
        await _rewrite_all(racing.context(Caller(), Meter()))
    await run_jobs(ctx)
    assert {chunk["title"] for chunk in (await read_chunks(ctx)).values()} == {"All Breads"}
    assert await save_sources(ctx, LONG) == {"sources": 1, "edits kept": 1}


@pytest.mark.parametrize("commit", [1, 2])
async def test_an_edit_made_while_ingest_runs_is_kept(
    app: App, ctx: Context, apps: Apps, commit: int
) -> None:
    """Ingest has read the source before the edit, and written some of its passages or none."""
    many = replace(LONG, sections=tuple(Section(text=f"Loaf {n} rests.") for n in range(210)))
    await store_sources(ctx, many)

    async def edit_during_ingest() -> None:
        await edit(app, "long", title="Many Breads")

    racing = apps(call_before_commit(commit, edit_during_ingest))
    changed = replace(many, title="Breads", author="Ida Crumb")
    counts = await save_sources(racing.context(Caller(), Meter()), changed)
    assert counts["edits kept"] == 1
    await run_jobs(ctx)
    stored = (await read_chunks(ctx)).values()
    assert {(chunk["title"], chunk["author"]) for chunk in stored} == {("Many Breads", "Ida Crumb")}
    out = await edit(app, "long", revision=1, reset=["title"])
    assert out["title"] == "Breads"


async def test_the_text_says_what_the_jobs_still_do(app: App, ctx: Context) -> None:
    await store_sources(ctx, SAILING)
    fields = {"source_id": "sailing", "revision": 0, "title": "Sails", "tags": ["sea"]}
    text = await call_text(app, "edit_source", OWNER, **fields)
    assert 'Changed title and tags of "Sails"' in text
    assert "Ingest leaves these fields as they are now: title, tags." in text
    assert "2 passages must be processed by the jobs" in text
    assert "edit_source" in text
    assert "reset" in text


async def test_the_job_rewrites_a_passage_with_former_values(app: App, ctx: Context) -> None:
    """Another process has written them after the edit."""
    [first, *_] = await store_sources(ctx, SAILING)
    await edit(app, "sailing", title="Sails")
    await set_fields(ctx, f"chunks/{first.chunk_id}", {"title": SAILING.title})
    await run_jobs(ctx)
    assert (await read_chunks(ctx))[first.chunk_id]["title"] == "Sails"
