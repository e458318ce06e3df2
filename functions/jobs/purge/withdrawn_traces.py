"""Erases traces that were withdrawn 30 days ago, with their votes and revisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.jobs.purge.sweep import Sweep
from shared.pipeline.worker import run_isolated
from shared.traces.erasure import (
    MAX_FOLLOWERS,
    TraceErasure,
    build_superseded_by_write,
    build_supersedes_write,
)
from shared.traces.repository import Traces

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from shared.firestore.documents import Document
    from shared.firestore.writes import Write
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report
    from shared.traces.repository import StoredTrace

RESTORABLE: Final = timedelta(days=30)
"""How long a withdrawn trace can be restored."""
PAGE_SIZE: Final = 20
"""The number of traces that one query reads."""


async def erase_withdrawn(ctx: Context, budget: Budget, report: Report) -> None:
    """Erase traces one by one, beginning with those that a killed run left only partly erased.

    A trace that is restored during the run stays.
    """
    erasure = TraceErasure(ctx.database)
    for trace_id in await erasure.list_unfinished(PAGE_SIZE):
        await run_isolated(
            f"traces/{trace_id}", _finish(trace_id, ctx, budget, report), ctx, report
        )
        if budget.spent:
            report.finished = False
            return
    before = ctx.clock() - RESTORABLE
    failed = set[str]()
    while withdrawn := await _load_withdrawn(before, failed, ctx):
        for trace_id in withdrawn:
            work = _erase(trace_id, before, ctx, budget, report)
            if not await run_isolated(f"traces/{trace_id}", work, ctx, report):
                failed.add(trace_id)
            if budget.spent:
                report.finished = False
                return


async def _load_withdrawn(before: datetime, failed: Collection[str], ctx: Context) -> list[str]:
    erasure = TraceErasure(ctx.database)
    page = await erasure.list_withdrawn(before, PAGE_SIZE + len(failed))
    return [trace_id for trace_id in page if trace_id not in failed]


async def _erase(
    trace_id: str, before: datetime, ctx: Context, budget: Budget, report: Report
) -> None:
    """Erase a trace, unless it was restored. If the time runs out, the next run finishes it."""
    has_begun = await ctx.database.retry_on_conflict(lambda: _begin(trace_id, before, ctx))
    if not has_begun:
        return
    report.counts["traces"] += 1
    budget.progress(1)
    if not budget.spent:
        await _finish(trace_id, ctx, budget, report)


async def _finish(trace_id: str, ctx: Context, budget: Budget, report: Report) -> None:
    """Delete what belongs to a trace that is deleted itself, such as its votes."""
    async for deleted in TraceErasure(ctx.database).finish(trace_id):
        report.counts += deleted
        if budget.spent:
            return


async def _begin(trace_id: str, before: datetime, ctx: Context) -> bool:
    """Delete the trace itself, and link its predecessor with its followers.

    A follower is a trace that supersedes it.
    """
    erasure = TraceErasure(ctx.database)
    stored = await Traces(ctx.database).get(trace_id)
    if stored is None or not _was_withdrawn_before(stored, before):
        return False
    # All but the last followers are linked before, because a commit has room for only so many.
    links = await _build_follower_writes(stored, ctx)
    while len(links) == MAX_FOLLOWERS:
        await ctx.database.commit(links)
        links = await _build_follower_writes(stored, ctx)
    await erasure.begin(
        stored, [*links, *await _build_predecessor_writes(stored, ctx)], ctx.clock()
    )
    return True


async def _build_follower_writes(deleted: StoredTrace, ctx: Context) -> list[Write]:
    """Build the writes that link up to MAX_FOLLOWERS followers to the predecessor."""
    followers = await TraceErasure(ctx.database).load_followers(deleted.trace.trace_id)
    return [
        build_supersedes_write(trace, _choose_predecessor(trace, deleted)) for trace in followers
    ]


def _was_withdrawn_before(stored: StoredTrace, before: datetime) -> bool:
    withdrawn_at = stored.trace.withdrawn_at
    return withdrawn_at is not None and withdrawn_at < before


def _choose_predecessor(follower: Document, deleted: StoredTrace) -> str | None:
    """Return the id of the trace that a follower supersedes once `deleted` is gone.

    Return None if the follower is by another contributor.
    """
    same_contributor = follower.get("contributor") == deleted.trace.contributor
    return deleted.trace.supersedes if same_contributor else None


async def _build_predecessor_writes(deleted: StoredTrace, ctx: Context) -> list[Write]:
    """Build the writes to the predecessor, which is the trace that the deleted trace superseded.

    The predecessor is linked to the trace that superseded the deleted one. Without such a trace, it
    is listed again.
    """
    predecessor = (
        await Traces(ctx.database).get(deleted.trace.supersedes)
        if deleted.trace.supersedes
        else None
    )
    if predecessor is None or predecessor.trace.superseded_by != deleted.trace.trace_id:
        return []
    if deleted.trace.superseded_by:
        return [build_superseded_by_write(predecessor.snapshot, deleted.trace.superseded_by)]
    from shared.traces.corpus import build_index_entry

    trace = replace(predecessor.trace, superseded_by=None)
    entry = await build_index_entry(trace, ctx) if trace.is_listed else None
    return Traces(ctx.database).build_update_writes(predecessor, trace, entry)


async def _count_withdrawn(ctx: Context) -> int:
    return await TraceErasure(ctx.database).count_withdrawn(ctx.clock() - RESTORABLE)


WITHDRAWN_TRACES: Final = Sweep("traces", erase_withdrawn, _count_withdrawn)
