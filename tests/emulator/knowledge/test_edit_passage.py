"""`edit_source` sets the tags of one passage, which ingest keeps, and search follows."""

from dataclasses import replace
from typing import Any, Final

import pytest

from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from shared.writer import chunked_source
from tests.support.apps import Apps
from tests.support.commit_hooks import call_before_commit
from tests.support.forgetting import OWNER, save_sources
from tests.support.jobs import make_job_context
from tests.support.knowledge import BAKING, SAILING, index_all, store_sources
from tests.support.stored_documents import read_chunks, read_chunks_by_text, read_documents
from tests.support.tool_calls import call_error, call_message, call_result

KNEAD, STARTER, CRUST = (section.text for section in BAKING.sections)
"""The passages of `BAKING`. Only the first has an id in Readwise, and a tag of its own: `dough`."""
WHOLE: Final = replace(BAKING, readwise_url=None, origin="file")
"""The same book from an origin without ids of highlights."""


async def edit(app: App, ctx: Context, text: str, revision: int = 0, **fields: Any) -> Any:
    """Edit the tags of the passage with this text."""
    chunk_id = await find_id(ctx, text)
    arguments = {"chunk_id": chunk_id, "revision": revision, **fields}
    return await call_result(app, "edit_source", OWNER, **arguments)


async def find_id(ctx: Context, text: str) -> str:
    [chunk_id] = (
        name for name, chunk in (await read_chunks(ctx)).items() if chunk["content"] == text
    )
    return chunk_id


async def read_tags(ctx: Context) -> dict[str, list[str]]:
    """Return the tags of all passages by text."""
    return {text: chunk["tags"] for text, chunk in (await read_chunks_by_text(ctx)).items()}


def change_text(source: Source, text: str, new_text: str) -> Source:
    """Return a source in which a section has another text, and the same id."""
    return replace(
        source,
        sections=tuple(
            replace(section, text=new_text) if section.text == text else section
            for section in source.sections
        ),
    )


async def test_an_edited_tag_is_shown_and_found(app: App, ctx: Context) -> None:
    """Tags of the source are left out of what is sent, and stay."""
    await store_sources(ctx, BAKING, SAILING)
    await index_all(ctx)
    out = await edit(app, ctx, KNEAD, tags=["kneading", "food", "kneading"])
    chunk = {"chunk_id": out["chunk_id"]}
    assert out.items() >= {"tags": ["kneading"], "edited": ["tags"], "revision": 1}.items()
    assert out["origin"] == {"tags": ["dough"]}
    passage = await call_result(app, "get_chunk", OWNER, **chunk)
    assert (passage["tags"], passage["revision"]) == (["food", "kneading"], 1)
    source = await call_result(app, "get_source", OWNER, source_id="baking")
    assert (source["tags"], source["revision"]) == (["food"], 0)
    assert [chunk.get("tags") for chunk in source["chunks"]] == [["kneading"], None, None]

    await index_all(ctx)
    for tag, expected in (("kneading", [out["chunk_id"]]), ("dough", [])):
        answer = await call_result(app, "search_kb", OWNER, query="knead", filters={"tags": [tag]})
        assert [hit["chunk_id"] for hit in answer["results"]] == expected
        sources = (await call_result(app, "list_sources", OWNER, tag=tag))["sources"]
        assert len(sources) == len(expected)


async def test_undo_gives_a_passage_its_former_tags(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    first = await edit(app, ctx, KNEAD, tags=[])
    second = await edit(app, ctx, KNEAD, revision=1, tags=["rye"])
    undone = await call_result(app, second["undo"]["tool"], OWNER, **second["undo"]["arguments"])
    assert (undone["tags"], undone["edited"]) == ([], ["tags"])
    undo = first["undo"]["arguments"] | {"revision": 3}
    undone = await call_result(app, "edit_source", OWNER, **undo)
    assert (undone["tags"], undone["edited"], undone["revision"]) == (["dough"], [], 4)
    assert "own_tags" not in (await read_chunks_by_text(ctx))[KNEAD]

    unchanged = await edit(app, ctx, KNEAD, revision=4, tags=["food", "dough"])
    assert (unchanged["changed"], unchanged["revision"]) == ([], 4)
    arguments = {"chunk_id": first["chunk_id"], "revision": 4, "reset": ["tags"]}
    message = await call_message(app, "edit_source", OWNER, **arguments)
    assert message.startswith("Nothing changed: the passage has these tags already")


@pytest.mark.parametrize("source", [BAKING, WHOLE, replace(BAKING, adds_only=True)])
async def test_an_edit_stays_when_its_origin_is_read_again(
    app: App, ctx: Context, source: Source
) -> None:
    await store_sources(ctx, source)
    await edit(app, ctx, CRUST, tags=["oven"])
    assert await save_sources(ctx, source) == {}
    counts = await save_sources(ctx, replace(source, title="Loaves", tags=("food", "bread")))
    assert counts["updated"] == 3
    assert (await read_tags(ctx))[CRUST] == ["food", "bread", "oven"]

    read_again = replace(
        source, sections=(*source.sections[:2], Section(CRUST, tags=("hot",))), title="Rye"
    )
    await save_sources(ctx, read_again)
    assert (await read_tags(ctx))[CRUST] == ["food", "oven"]
    out = await edit(app, ctx, CRUST, revision=1, reset=["tags"])
    assert (out["tags"], out["edited"]) == (["hot"], [])
    await save_sources(ctx, replace(read_again, title="Wheat"))
    assert (await read_tags(ctx))[CRUST] == ["food", "hot"]


@pytest.mark.parametrize("adds_only", [True, False])
async def test_an_edit_follows_a_highlight_whose_text_changes(
    app: App, ctx: Context, *, adds_only: bool
) -> None:
    """A highlight without an id, whose text changes, is another one."""
    source = replace(BAKING, adds_only=adds_only)
    await store_sources(ctx, source)
    await edit(app, ctx, KNEAD, tags=["rye"])
    await edit(app, ctx, STARTER, tags=["feed"])
    changed = change_text(source, KNEAD, "Knead until smooth.")
    await save_sources(ctx, change_text(changed, STARTER, "It starves without flour."))
    tags = await read_tags(ctx)
    assert tags["Knead until smooth."] == ["food", "rye"]
    assert tags["It starves without flour."] == ["food"]
    out = await edit(app, ctx, "Knead until smooth.", revision=1, reset=["tags"])
    assert out["tags"] == ["dough"]


@pytest.mark.parametrize(
    ("new_texts", "expected"),
    [
        (["A sourdough starter needs rye flour and water every day, or it dies."], [["rye"]]),
        (["A sourdough starter needs flour", "and water every day, or it starves."], [["rye"]] * 2),
        (["Fed daily, it lives.", "It starves without flour."], [[], []]),
    ],
    ids=["reworded", "divided", "rewritten"],
)
async def test_an_edit_follows_what_remains_of_a_text(
    app: App, ctx: Context, new_texts: list[str], expected: list[list[str]]
) -> None:
    await store_sources(ctx, WHOLE)
    await edit(app, ctx, STARTER, tags=["rye"])
    first, _, last = WHOLE.sections
    await save_sources(ctx, replace(WHOLE, sections=(first, *map(Section, new_texts), last)))
    tags = await read_tags(ctx)
    assert [tags[text] for text in new_texts] == [["food", *own] for own in expected]
    assert tags[CRUST] == ["food"]


async def test_of_joined_passages_one_that_is_kept_out_decides(app: App, ctx: Context) -> None:
    await store_sources(ctx, WHOLE)
    await edit(app, ctx, STARTER, tags=["keep-out"])
    await edit(app, ctx, CRUST, tags=["oven"])
    joined = f"{STARTER} {CRUST}"
    await save_sources(ctx, replace(WHOLE, sections=(WHOLE.sections[0], Section(joined))))
    assert (await read_tags(ctx))[joined] == ["food", "keep-out"]


async def test_tags_of_source_and_passage_are_edited_independently(app: App, ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    await edit(app, ctx, KNEAD, tags=["rye"])
    source = {"source_id": "baking"}
    await call_result(app, "edit_source", OWNER, **source, revision=0, tags=["rye", "bread"])
    assert (await read_tags(ctx))[KNEAD] == ["rye", "bread"]
    await edit(app, ctx, CRUST, tags=["oven"])
    await call_result(app, "edit_source", OWNER, **source, revision=1, reset=["tags"])
    await index_all(ctx)
    expected = {KNEAD: ["food", "rye"], STARTER: ["food"], CRUST: ["food", "oven"]}
    assert await read_tags(ctx) == expected
    await save_sources(ctx, replace(BAKING, title="Loaves"))
    assert await read_tags(ctx) == expected
    stored = (await read_documents(ctx, "sources"))["baking"]
    assert {"t:oven", "t:rye"} <= {facet.replace("tag:", "t:") for facet in stored["facets"]}


@pytest.mark.parametrize("commit", [1, 2])
async def test_an_edit_made_while_ingest_runs_is_kept(
    app: App, ctx: Context, apps: Apps, commit: int
) -> None:
    many = replace(BAKING, sections=tuple(Section(f"Loaf {number}.") for number in range(210)))
    await store_sources(ctx, many)

    async def edit_during_ingest() -> None:
        await edit(app, ctx, "Loaf 7.", tags=["rye"])

    racing = make_job_context(apps(call_before_commit(commit, edit_during_ingest)))
    await save_sources(racing, replace(many, tags=("bread",)))
    assert (await read_tags(ctx))["Loaf 7."] == ["bread", "rye"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"source_id": "baking", "tags": []}, "Pass either source_id"),
        ({"title": "Loaves"}, "pass source_id baking"),
        ({"tags": [], "reset": ["author"]}, "pass source_id baking"),
        ({"text": "Knead."}, '"corrects": true'),
        ({"note": "Twice."}, "as about"),
        ({"chunk_id": "baking22222222222", "tags": []}, "Search again with search_kb"),
        ({"tags": [], "reset": ["tags"]}, "not as both"),
        ({"tags": ["rye"], "revision": 3}, "at revision 0"),
        ({"tags": [f"flour {number}" for number in range(9)]}, "remove some"),
    ],
)
async def test_a_wrong_edit_of_a_passage_says_what_to_do(
    app: App,
    ctx: Context,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, Any],
    expected: str,
) -> None:
    monkeypatch.setattr(chunked_source, "MAX_TAGS", 8)
    await store_sources(ctx, BAKING)
    before = await read_documents(ctx, "chunks")
    arguments = {"chunk_id": await find_id(ctx, KNEAD), "revision": 0} | fields
    error = await call_error(app, "edit_source", OWNER, **arguments)
    assert expected in error.message
    assert await read_documents(ctx, "chunks") == before


async def test_a_passage_of_a_note_has_the_tags_of_the_note(app: App) -> None:
    note = await call_result(app, "save_note", OWNER, text="Rye is weak.", tags=["rye"])
    [chunk_id] = note["chunk_ids"]
    arguments = {"chunk_id": chunk_id, "revision": 0, "tags": ["flour"]}
    error = await call_error(app, "edit_source", OWNER, **arguments)
    assert f"pass source_id {note['source_id']}" in error.message
