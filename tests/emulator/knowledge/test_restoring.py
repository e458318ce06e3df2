"""The tool `forget` restores passages although what they refer to has changed meanwhile.

An extraction is a decision or the like that was found in a passage. Of several equal ones, tools
show one. When that is forgotten, they show another.
"""

from dataclasses import replace

import pytest

from functions.jobs.repair.job import repair
from shared.runtime.context import App, Context
from tests.support.apps import Apps
from tests.support.commit_hooks import call_before_commit
from tests.support.database_state import describe_differences
from tests.support.extract_job import read_topic_counts
from tests.support.extractions import make_decision, make_extraction, store_extractions
from tests.support.forgetting import (
    CARD,
    LONG,
    OWNER,
    forget,
    read_knowledge,
    save_sources,
    search_ids,
    store_base,
)
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, index_all, set_fields, store_sources
from tests.support.stored_documents import read_documents
from tests.support.tool_calls import call, call_error, call_result


async def test_a_passage_is_restored_after_it_left_the_index(app: App, ctx: Context) -> None:
    """Its extraction takes the place again of one that became visible instead of it."""
    chunks = await store_base(ctx)
    original, duplicate = chunks[0].chunk_id, chunks[3].chunk_id
    await index_all(ctx)
    before = await read_knowledge(ctx)
    await forget(app, chunk_id=original)
    out = await forget(app, chunk_id=original, forgotten=False)
    assert out["restored"]["extractions"] == 2
    await index_all(ctx)
    assert describe_differences(before, await read_knowledge(ctx)) == ""

    await forget(app, chunk_id=original)
    await index_all(ctx)
    [promoted] = (await call_result(app, "get_decisions", OWNER))["results"]
    assert promoted["chunk_id"] == duplicate

    await forget(app, chunk_id=original, forgotten=False)
    await index_all(ctx)
    [restored] = (await call_result(app, "get_decisions", OWNER))["results"]
    assert restored["chunk_id"] == original
    chunk = await call_result(app, "get_chunk", OWNER, chunk_id=original)
    assert chunk["knowledge_card"]["summary"] == CARD["summary"]
    assert chunk["cluster"]["cluster_name"] == "Dough"
    assert original in await search_ids(app, "knead")
    assert (await repair(ctx, make_ample_budget())).counts == {}


async def test_a_duplicate_restored_without_its_original_is_shown(app: App, ctx: Context) -> None:
    duplicate = (await store_base(ctx))[3].chunk_id
    await forget(app, chunk_id=duplicate)
    await forget(app, source_id="baking")  # with the original
    await index_all(ctx)
    await forget(app, chunk_id=duplicate, forgotten=False)
    [decision] = (await call_result(app, "get_decisions", OWNER))["results"]
    assert decision["chunk_id"] == duplicate


@pytest.mark.parametrize("position", [0, -1])
async def test_restored_duplicates_stay_hidden_by_their_original(
    app: App, ctx: Context, position: int
) -> None:
    """The original belongs to the first or the last passage that is restored."""
    chunks = sorted(await store_sources(ctx, LONG), key=lambda chunk: chunk.chunk_id)
    original = make_extraction(chunks[position], make_decision(), "flour")
    duplicates = [
        make_extraction(chunk, make_decision(), "flour", group=original.group)
        for chunk in (chunks[5], chunks[30], chunks[55])
    ]
    await store_extractions(ctx, original, *duplicates)
    await index_all(ctx)
    before = await read_knowledge(ctx)

    await forget(app, source_id="long")
    assert await read_topic_counts(ctx) == {}
    await forget(app, source_id="long", forgotten=False)
    await index_all(ctx)
    assert describe_differences(before, await read_knowledge(ctx)) == ""


async def test_a_passage_cannot_be_restored_while_its_source_is_moved(
    app: App, ctx: Context, apps: Apps
) -> None:
    chunks = await store_sources(ctx, BAKING)
    await forget(app, chunk_id=chunks[0].chunk_id)
    codes: list[str] = []

    async def restore_during_move() -> None:
        chunk_id = chunks[0].chunk_id
        answer = await call(app, "forget", OWNER, chunk_id=chunk_id, forgotten=False)
        codes.append(answer.error.code if answer.error else "")

    racing = apps(call_before_commit(3, restore_during_move))
    await forget(racing, source_id="baking")
    assert codes == ["CONFLICT"]
    await index_all(ctx)
    assert await read_documents(ctx, "chunks") == {}


async def test_the_next_ingest_gives_a_restored_passage_the_new_title(
    app: App, ctx: Context
) -> None:
    chunks = await store_sources(ctx, BAKING)
    await forget(app, chunk_id=chunks[0].chunk_id)
    edited = replace(BAKING, title="Bread in the Oven")
    await save_sources(ctx, edited)
    await forget(app, chunk_id=chunks[0].chunk_id, forgotten=False)
    assert (await save_sources(ctx, edited))["updated"] == 1
    assert (await read_documents(ctx, "chunks"))[chunks[0].chunk_id]["title"] == edited.title


async def test_a_passage_cannot_be_restored_without_its_source(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, SAILING)
    await forget(app, chunk_id=chunks[0].chunk_id)
    await forget(app, source_id="sailing")
    error = await call_error(app, "forget", OWNER, chunk_id=chunks[0].chunk_id, forgotten=False)
    assert error.code == "CONFLICT"
    assert '"source_id": "sailing"' in error.message
    await forget(app, source_id="sailing", forgotten=False)
    record = (await read_documents(ctx, "forgotten_sources"))["sailing"]
    assert record["chunk_ids"] == [chunks[0].chunk_id]


async def test_a_vector_of_another_model_is_not_restored(app: App, ctx: Context) -> None:
    chunks = await store_sources(ctx, BAKING, SAILING)
    await store_extractions(ctx, make_extraction(chunks[3], make_decision(), "flour"))
    await forget(app, source_id="sailing")
    await set_fields(ctx, "meta/embedding", {"model": "other-model"})
    await forget(app, source_id="sailing", forgotten=False)
    assert await read_documents(ctx, "extractions") == {}  # their vectors are of the former model
    assert await read_topic_counts(ctx) == {}
    stored = (await read_documents(ctx, "chunks"))[chunks[3].chunk_id]
    assert "embedding" not in stored
    assert "extract" in stored["pending"]
    assert "embedding_f16" not in stored
    assert set(stored["pending"]) >= {"embed", "index"}
