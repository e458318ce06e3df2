"""Calls of the tool `forget`, a knowledge base to forget from, and its state afterwards.

Forgetting hides a source or a passage from all tools until somebody restores it.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

from shared.core.caller import Caller, Role
from shared.knowledge.chunk import Chunk
from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from shared.writer.ingestion import Ingestion
from tests.support.clock import NOON
from tests.support.database_state import State, read_state
from tests.support.extractions import (
    make_decision,
    make_extraction,
    make_warning,
    store_extractions,
)
from tests.support.knowledge import (
    BAKING,
    SAILING,
    chunk_source,
    index_all,
    set_fields,
    store_sources,
)
from tests.support.notes import change_note, save_note
from tests.support.tool_calls import call_result

OWNER = Caller.of("anna", role=Role.OWNER)
EDITOR = Caller.of("ed", role=Role.EDITOR)
CARD = {"summary": "Knead and rest.", "takeaways": ["Smooth dough"]}
LONG = replace(
    BAKING,
    source_id="long",
    title="Sixty Breads",
    sections=tuple(Section(text=f"Bread number {number} needs rye flour.") for number in range(60)),
)
"""A source with so many passages that moving it takes more than two commits."""


async def save_sources(ctx: Context, *sources: Source) -> Counter[str]:
    """Store sources as ingest does; return the counts of `Ingestion.save`."""
    chunked = [chunk_source(source) for source in sources]
    return await Ingestion(ctx.database).save(chunked, ctx.clock())


async def store_base(ctx: Context) -> list[Chunk]:
    """Store `BAKING` and `SAILING`, and return their chunks.

    The first chunk has a card, a cluster and two extractions. The first chunk of `SAILING` has a
    duplicate of one of them.
    """
    chunks = await store_sources(ctx, BAKING, SAILING)
    await set_fields(ctx, "clusters/dough", {"name": "Dough", "description": "Flour."})
    fields = {"knowledge_card": CARD, "cluster_id": ["dough"], "pending": {"index": NOON}}
    await set_fields(ctx, f"chunks/{chunks[0].chunk_id}", fields)
    await index_all(ctx)
    original = make_extraction(chunks[0], make_decision(), "flour")
    copy = make_extraction(chunks[3], make_decision(), group=original.group)
    await store_extractions(
        ctx, original, make_extraction(chunks[0], make_warning(), "flour"), copy
    )
    return chunks


async def forget(app: App, caller: Caller = OWNER, **arguments: Any) -> dict[str, Any]:
    return await call_result(app, "forget", caller, **arguments)


async def forget_each_kind(app: App, ctx: Context) -> None:
    """Store and forget a passage, a book, and a note with a former revision."""
    first, *_ = await store_sources(ctx, BAKING, SAILING)
    await forget(app, chunk_id=first.chunk_id)
    await forget(app, source_id="sailing")
    note = await save_note(app)
    await change_note(app, note, text="The dough rests overnight.")
    await forget(app, source_id=note["source_id"])


async def read_knowledge(ctx: Context) -> State:
    """Return the state of the knowledge base, without all that forgetting and restoring may change.

    These are pending steps, forgotten records, and stored answers to repeated calls.
    """
    state = await read_state(ctx)
    for name in ("forgotten", "forgotten_sources", "replays"):
        state.pop(name, None)
    for chunk in state["chunks"].values():
        chunk.pop("pending", None)
    for source in state["sources"].values():
        del source["content_hash"]  # empty after a passage was forgotten or restored
    for postings in (*state["lexicon"].values(), *state["facets"].values()):
        del postings["held"]  # an upper bound, which depends on the history
    for group in state.get("extraction_groups", {}).values():
        del group["joined"]  # likewise
    return {name: results for name, results in state.items() if results}


async def search_ids(app: App, query: str) -> set[str]:
    results = (await call_result(app, "search_kb", OWNER, query=query))["results"]
    return {result["chunk_id"] for result in results}
