"""`edit_source` sets fields of a source, which ingest keeps, and its passages and search follow.

The call rewrites as many passages as fit a commit. The job `index` rewrites the others.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from functions.jobs.repair.job import repair
from shared.firestore.database import WriteConflict
from shared.runtime.context import App, Context
from shared.writer import source_editing
from shared.writer.source_editing import SourceEditing
from tests.support.apps import Apps
from tests.support.commit_hooks import call_before_commit
from tests.support.database_state import State, describe_differences, read_state
from tests.support.forgetting import EDITOR, LONG, OWNER, save_sources
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.knowledge import BAKING, SAILING, embed_all, index_all, set_fields, store_sources
from tests.support.small_sources import make_source
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call, call_error, call_message, call_result

MANY = make_source(
    "long", *(f"Loaf {number} rests." for number in range(210)), title="Sixty Breads"
)
"""A source of more passages than a commit writes."""


async def edit(app: App, source_id: str = "baking", revision: int = 0, **fields: Any) -> Any:
    arguments = {"source_id": source_id, "revision": revision, **fields}
    return await call_result(app, "edit_source", OWNER, **arguments)


async def run_jobs(ctx: Context) -> None:
    await index_all(ctx)
    await embed_all(ctx)


async def read_fields(ctx: Context, source_id: str = "baking") -> dict[str, Any]:
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


async def test_an_edit_is_shown_by_the_next_call(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    new: dict[str, Any] = {"title": "Loaves", "author": "Ida Crumb"}
    out = await edit(app, **new, tags=["bread", "#C#"])
    assert out["changed"] == out["edited"] == ["title", "author", "tags"]
    assert out["origin"] == {"title": "Bread at Home", "author": "Ida Loaf", "tags": ["food"]}
    assert (out["revision"], out["waiting"]) == (1, 3)

    source = await call_result(app, "get_source", OWNER, source_id="baking")
    expected = new | {"tags": ["bread", "C#"], "revision": 1, "edited": ["title", "author", "tags"]}
    assert source.items() >= expected.items()
    assert [passage.get("tags") for passage in source["chunks"]] == [["dough"], None, None]

    result = await call_result(app, "search_kb", OWNER, query="knead the dough")
    assert result["results"][0].items() >= new.items()
    [listed] = (await call_result(app, "list_sources", OWNER, author="Ida Crumb"))["sources"]
    assert listed["source_id"] == "baking"
    assert (await call_result(app, "list_sources", OWNER, tag="food"))["sources"] == []


async def test_search_finds_an_edit_once_the_jobs_have_run(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    await edit(app, title="Loaves", author="Ida Crumb", tags=["bread"])
    await run_jobs(ctx)
    for arguments, expected in (
        ({"query": "oven", "filters": {"author": "Ida Crumb"}}, {"baking"}),
        ({"query": "oven", "filters": {"tags": ["bread"]}}, {"baking"}),
        ({"query": "oven", "filters": {"source": "Loaves"}}, {"baking"}),
        ({"query": "loaves", "mode": "lexical"}, {"baking"}),
        ({"query": "oven", "filters": {"tags": ["food"]}}, set()),
    ):
        hits = (await call_result(app, "search_kb", OWNER, **arguments))["results"]
        assert {hit["source_id"] for hit in hits} == expected, arguments
    for kind, name in (("author", "Ida Crumb"), ("tag", "bread")):
        names = (await call_result(app, "complete_name", kind=kind, prefix=name[:2]))["names"]
        assert name in {entry["name"] for entry in names}
    assert all(chunk["embedding_model"] for chunk in (await read_chunks(ctx)).values())
    assert "mended" not in (await repair(ctx, make_ample_budget())).counts
    assert "rewriting" not in (await read_documents(ctx, "sources"))["baking"]


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


async def test_a_reset_restores_the_current_values_of_the_origin(app: App, ctx: Context) -> None:
    """More histories of edits are compared with a model."""
    await store_sources(ctx, BAKING)
    await edit(app, title="Loaves", author="", tags=[])
    second_edition = replace(BAKING, title="Bread, 2nd ed.", tags=("food", "new"))
    counts = await save_sources(ctx, second_edition)
    assert counts == {"sources": 1, "edits kept": 1}

    out = await edit(app, revision=1, reset=["title", "author", "tags"])
    assert (out["changed"], out["edited"]) == (["title", "author", "tags"], [])
    assert "origin" not in out
    origin = {"title": "Bread, 2nd ed.", "author": "Ida Loaf", "tags": ["food", "new"]}
    assert await read_fields(ctx) == origin
    await run_jobs(ctx)
    state_after_reset = await read_base_state(ctx)
    await save_sources(ctx, second_edition)
    await run_jobs(ctx)
    assert describe_differences(state_after_reset, await read_base_state(ctx)) == ""
    assert await save_sources(ctx, second_edition) == {}


async def test_repeating_an_edit_changes_nothing(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    await edit(app, title="Loaves")
    before = await read_documents(ctx, "sources")
    out = await edit(app, revision=1, title="Loaves", reset=["author"])
    assert (out["changed"], out["revision"], out["waiting"]) == ([], 1, 0)
    assert "undo" not in out
    assert await read_documents(ctx, "sources") == before


async def test_one_of_two_simultaneous_edits_gets_the_others_values(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    arguments: dict[str, Any] = {"source_id": "baking", "revision": 0}
    answers = await asyncio.gather(
        call(app, "edit_source", OWNER, title="Loaves", **arguments),
        call(app, "edit_source", OWNER, tags=["bread"], **arguments),
    )
    [error] = [answer.error for answer in answers if answer.error]
    assert error.code == "CONFLICT"
    assert "revision 1" in error.message
    assert error.details.items() >= (await read_fields(ctx) | {"revision": 1}).items()


async def test_an_edited_note_keeps_its_former_revision(app: App, ctx: Context) -> None:
    saved = await call_result(app, "save_note", EDITOR, text="Rye is weak.", tags=["rye"])
    note = {"source_id": saved["source_id"]}
    out = await call_result(app, "edit_source", EDITOR, **note, revision=1, tags=["rye", "flour"])
    assert (out["revision"], out["edited"]) == (2, [])
    source = await call_result(app, "get_source", EDITOR, **note)
    assert (source["revision"], source["tags"]) == (2, ["rye", "flour"])

    edits = {"title": "Rye", "tags": ["flour"]}
    await call_result(app, "edit_source", EDITOR, **note, revision=2, **edits)
    [chunk] = (await read_chunks(ctx)).values()
    assert chunk.items() >= edits.items()
    error = await call_error(app, "edit_source", EDITOR, **note, revision=3, author="Ed")
    assert error.code == "VALIDATION_ERROR"  # a note has no author

    undo = {"revision": 3, "restore_revision": 1}
    assert (await call_result(app, "save_note", EDITOR, **note, **undo))["tags"] == ["rye"]


@pytest.mark.parametrize("commit", [1, 2, 3])
async def test_an_edit_made_while_the_job_runs_is_kept(
    app: App, ctx: Context, apps: Apps, monkeypatch: pytest.MonkeyPatch, commit: int
) -> None:
    """The job has read the source before the edit, and its next commit is refused."""
    monkeypatch.setattr(source_editing, "MAX_CHANGES", 15)
    await store_sources(ctx, LONG)
    assert (await edit(app, "long", title="Many Breads", tags=["bread"]))["waiting"] == 60
    titles = [chunk["title"] for chunk in (await read_chunks(ctx)).values()]
    assert titles.count("Many Breads") == 15

    async def edit_again() -> None:
        await edit(app, "long", revision=1, title="All Breads", tags=["rye"])

    racing = make_job_context(apps(call_before_commit(commit, edit_again)))
    with pytest.raises(WriteConflict):
        async for _ in SourceEditing(racing.database).rewrite_chunks("long", ctx.clock()):
            pass
    await run_jobs(ctx)
    assert {chunk["title"] for chunk in (await read_chunks(ctx)).values()} == {"All Breads"}
    assert await save_sources(ctx, LONG) == {"sources": 1, "edits kept": 1}


@pytest.mark.parametrize("commit", [1, 2])
async def test_an_edit_made_while_ingest_runs_is_kept(
    app: App, ctx: Context, apps: Apps, commit: int
) -> None:
    """Ingest has read the source before the edit, and written some of its passages or none."""
    await store_sources(ctx, MANY)

    async def edit_during_ingest() -> None:
        await edit(app, "long", title="Many Breads")

    racing = make_job_context(apps(call_before_commit(commit, edit_during_ingest)))
    changed = replace(MANY, title="Breads", author="Ida Crumb")
    assert (await save_sources(racing, changed))["edits kept"] == 1
    await run_jobs(ctx)
    stored = (await read_chunks(ctx)).values()
    assert {(chunk["title"], chunk["author"]) for chunk in stored} == {("Many Breads", "Ida Crumb")}
    assert (await edit(app, "long", revision=1, reset=["title"]))["title"] == "Breads"


async def test_the_message_says_what_the_jobs_still_do(app: App, ctx: Context) -> None:
    await store_sources(ctx, SAILING)
    fields = {"source_id": "sailing", "revision": 0, "title": "Sails", "tags": ["sea"]}
    message = await call_message(app, "edit_source", OWNER, **fields)
    assert message.startswith("Filters and suggested names have the former values")


async def test_the_job_rewrites_a_passage_with_former_values(app: App, ctx: Context) -> None:
    """Another process has written them after the edit."""
    [first, *_] = await store_sources(ctx, SAILING)
    await edit(app, "sailing", title="Sails")
    former = {"title": SAILING.title, "fingerprint": "of the former values"}
    await set_fields(ctx, f"chunks/{first.chunk_id}", former)
    await run_jobs(ctx)
    assert (await read_chunks(ctx))[first.chunk_id]["title"] == "Sails"
