"""Erase traces that their contributors withdrew long ago, with their votes and revisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.jobs.purge.sweep import Sweep
from shared.pipeline.worker import run_isolated
from shared.traces.erasure import (
    MAX_FOLLOWERS,
    TraceErasure,
    set_superseded_by,
    set_supersedes,
)
from shared.traces.repository import Traces

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from shared.firestore.database import Document, Write
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report
    from shared.traces.repository import StoredTrace

RESTORABLE: Final = timedelta(days=30)
"""How long a withdrawn trace can be put back."""
PAGE: Final = 20
"""Traces that are read at once."""


async def erase_withdrawn(ctx: Context, budget: Budget, report: Report) -> None:
    """Erase them one by one, those first of which a run that died left something.

    One that is put back in the same moment stays.
    """
    erasure = TraceErasure(ctx.database)
    for trace_id in await erasure.unfinished(PAGE):
        await run_isolated(
            f"traces/{trace_id}", _finish(trace_id, ctx, budget, report), ctx, report
        )
        if budget.spent:
            report.finished = False
            return
    before, failed = ctx.clock() - RESTORABLE, set[str]()
    while withdrawn := await _withdrawn(before, failed, ctx):
        for trace_id in withdrawn:
            work = _erase(trace_id, before, ctx, budget, report)
            if not await run_isolated(f"traces/{trace_id}", work, ctx, report):
                failed.add(trace_id)
            if budget.spent:
                report.finished = False
                return


async def _withdrawn(before: datetime, failed: Collection[str], ctx: Context) -> list[str]:
    erasure = TraceErasure(ctx.database)
    found = await erasure.withdrawn(before, PAGE + len(failed))
    return [each for each in found if each not in failed]


async def _erase(
    trace_id: str, before: datetime, ctx: Context, budget: Budget, report: Report
) -> None:
    begun = await ctx.database.retry_on_conflict(lambda: _begin(trace_id, before, ctx))
    if not begun:
        return
    report.counts["traces"] += 1
    budget.progress(1)
    if not budget.spent:
        await _finish(trace_id, ctx, budget, report)


async def _finish(trace_id: str, ctx: Context, budget: Budget, report: Report) -> None:
    async for deleted in TraceErasure(ctx.database).finish(trace_id):
        report.counts += deleted
        if budget.spent:
            return


async def _begin(trace_id: str, before: datetime, ctx: Context) -> bool:
    """Delete the trace itself, and close the gap that it leaves in a row of replaced ones."""
    erasure, stored = TraceErasure(ctx.database), await Traces(ctx.database).get(trace_id)
    if stored is None or not _may_go(stored, before):
        return False
    followers = await erasure.followers(trace_id)
    told = [set_supersedes(each, _former_of(each, stored)) for each in followers]
    while len(followers) == MAX_FOLLOWERS:
        await ctx.database.commit(told)
        followers = await erasure.followers(trace_id)
        told = [set_supersedes(each, _former_of(each, stored)) for each in followers]
    await erasure.begin(stored, [*told, *await _former(stored, ctx)], ctx.clock())
    return True


def _may_go(stored: StoredTrace, before: datetime) -> bool:
    withdrawn_at = stored.trace.withdrawn_at
    return withdrawn_at is not None and withdrawn_at < before


def _former_of(follower: Document, gone: StoredTrace) -> str | None:
    """What the successor of a trace replaces once that is gone; another's claim ends with it."""
    own = follower.get("contributor") == gone.trace.contributor
    return gone.trace.supersedes if own else None


async def _former(gone: StoredTrace, ctx: Context) -> list[Write]:
    """What is written of the trace that this one replaced.

    Its successor stands for both; where it has none, nobody hides the former one any more, and it
    is found again, as it would have been had it been withdrawn without a successor.
    """
    former = (
        await Traces(ctx.database).get(gone.trace.supersedes) if gone.trace.supersedes else None
    )
    if former is None or former.trace.superseded_by != gone.trace.trace_id:
        return []
    if gone.trace.superseded_by:
        return [set_superseded_by(former.snapshot, gone.trace.superseded_by)]
    from shared.traces.corpus import index_entry

    trace = replace(former.trace, superseded_by=None)
    entry = await index_entry(trace, ctx) if trace.is_listed else None
    return Traces(ctx.database).update(former, trace, entry)


async def _count(ctx: Context) -> int:
    return await TraceErasure(ctx.database).count_withdrawn(ctx.clock() - RESTORABLE)


WITHDRAWN_TRACES: Final = Sweep("traces", erase_withdrawn, _count)
