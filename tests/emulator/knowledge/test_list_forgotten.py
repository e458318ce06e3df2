"""`list_forgotten` lists forgotten sources and passages to those who may restore them."""

from datetime import timedelta
from typing import Any

from syrupy.assertion import SnapshotAssertion

from functions.jobs.purge.job import purge
from shared.core.caller import Caller
from shared.knowledge.forgotten_chunks import RESTORABLE_SOURCES
from shared.runtime.context import App, Context
from tests.support.clock import NOON, SettableClock
from tests.support.forgetting import forget
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, store_sources
from tests.support.notes import EDITOR, OTHER_EDITOR, OWNER, save_note
from tests.support.tool_calls import call_all_pages, call_result


async def list_forgotten(app: App, caller: Caller = OWNER, **arguments: Any) -> dict[str, Any]:
    return await call_result(app, "list_forgotten", caller, **arguments)


def get_ids(out: dict[str, Any]) -> list[str]:
    return [record.get("chunk_id", record["source_id"]) for record in out["forgotten"]]


async def test_sources_and_single_passages_are_listed(
    app: App, ctx: Context, clock: SettableClock, snapshot: SnapshotAssertion
) -> None:
    """The newest come first, page by page, as long as they can be restored."""
    clock.now = NOON
    first, second, *_ = await store_sources(ctx, BAKING, SAILING)
    for chunk in (first, second):
        clock.advance(hours=1)
        await forget(app, OWNER, chunk_id=chunk.chunk_id)
    clock.advance(days=20)
    await forget(app, OWNER, source_id="sailing", reason="Sold the boat.")
    ids = ["sailing", second.chunk_id, first.chunk_id]
    pages = await call_all_pages(app, "list_forgotten", OWNER, limit=1)
    assert [get_ids(page) for page in pages] == [[name] for name in ids]
    assert (await list_forgotten(app, limit=2))["forgotten"] == snapshot

    clock.now += RESTORABLE_SOURCES.duration - timedelta(days=19)
    assert get_ids(await list_forgotten(app)) == ["sailing"]
    await purge(ctx, make_ample_budget())
    assert get_ids(await list_forgotten(app)) == ["sailing"]
    await forget(app, OWNER, source_id="sailing", forgotten=False)
    assert get_ids(await list_forgotten(app)) == []


async def test_an_editor_sees_only_notes_of_their_own(app: App, ctx: Context) -> None:
    """Nor does a cursor contain an id of another's source, although two come in between."""
    await store_sources(ctx, BAKING, SAILING)
    notes = [(await save_note(app, text=f"Note {number}."))["source_id"] for number in range(2)]
    await forget(app, EDITOR, source_id=notes[0])
    await forget(app, OWNER, source_id="baking")
    await forget(app, OWNER, source_id="sailing")
    await forget(app, EDITOR, source_id=notes[1])
    assert set(get_ids(await list_forgotten(app))) == {*notes, "baking", "sailing"}
    pages = await call_all_pages(app, "list_forgotten", EDITOR, limit=1)
    assert [get_ids(page) for page in pages] == [[notes[1]], [notes[0]]]
    [page] = await call_all_pages(app, "list_forgotten", OTHER_EDITOR, limit=1)
    assert get_ids(page) == []
