"""Unlinks withdrawn traces from the traces that replaced them, and that they replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from shared.firestore.queries import Query
from shared.firestore.writes import delete_if_unchanged, put_if_unchanged
from shared.traces.repository import COLLECTION, Traces, to_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.firestore.documents import Document
    from shared.firestore.writes import Write
    from shared.runtime.context import Context
    from shared.traces.model import Trace

MAX_FOLLOWERS: Final = 100
"""One query reads at most this many followers: traces that supersede another."""


async def build_last_writes(ctx: Context, document: Document) -> Sequence[Write]:
    """Build the writes that delete a trace, and link its predecessor with its followers.

    All but the last followers are linked before, because a commit has room for only so many.
    """
    trace = to_trace(document.id, document.fields)
    links = await _build_follower_writes(trace, ctx)
    while len(links) == MAX_FOLLOWERS:
        await ctx.database.commit(links)
        links = await _build_follower_writes(trace, ctx)
    return [
        delete_if_unchanged(document),
        *links,
        *await _build_predecessor_writes(trace, ctx),
    ]


async def _build_follower_writes(deleted: Trace, ctx: Context) -> list[Write]:
    """Build the writes that link up to MAX_FOLLOWERS followers to the predecessor.

    A follower by another contributor is linked to nothing.
    """
    query = Query(COLLECTION).where("supersedes", "==", deleted.trace_id).select(["contributor"])
    return [
        put_if_unchanged(
            follower,
            {
                "supersedes": deleted.supersedes
                if follower.get("contributor") == deleted.contributor
                else None
            },
        )
        for follower in await ctx.database.find(query.limit(MAX_FOLLOWERS))
    ]


async def _build_predecessor_writes(deleted: Trace, ctx: Context) -> list[Write]:
    """Build the writes to the predecessor, which is the trace that the deleted trace superseded.

    The predecessor is linked to the trace that superseded the deleted one. Without such a trace, it
    is listed again.
    """
    traces = Traces(ctx.database)
    predecessor = (
        await traces.get_even_if_erasing(deleted.supersedes) if deleted.supersedes else None
    )
    if predecessor is None or predecessor.trace.superseded_by != deleted.trace_id:
        return []
    if deleted.superseded_by:
        return [put_if_unchanged(predecessor.snapshot, {"superseded_by": deleted.superseded_by})]
    from shared.traces.corpus import build_index_entry

    trace = replace(predecessor.trace, superseded_by=None)
    entry = await build_index_entry(trace, ctx) if trace.is_listed else None
    return traces.build_update_writes(predecessor, trace, entry)
