"""Erase traces that their contributors withdrew long ago, with their votes and revisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.jobs.purge.sweep import Sweep
from shared.pipeline.worker import set_apart
from shared.traces.erasure import FOLLOWERS, TraceErasure
from shared.traces.repository import Traces

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from shared.firestore.database import Document, Write
    from shared.runtime.context import Deps
    from shared.runtime.job import Budget, Report
    from shared.traces.repository import StoredTrace

RESTORABLE: Final = timedelta(days=30)
"""How long a withdrawn trace can be put back."""
PAGE: Final = 20
"""Traces that are read at once."""


async def erase_withdrawn(deps: Deps, budget: Budget, report: Report) -> None:
    """Erase them one by one, those first of which a run that died left something.

    One that is put back in the same moment stays.
    """
    erasure = TraceErasure(deps.database)
    for trace_id in await erasure.begun(PAGE):
        await set_apart(f"traces/{trace_id}", _finish(trace_id, deps, budget, report), deps, report)
        if budget.spent:
            report.finished = False
            return
    before, failed = deps.clock() - RESTORABLE, set[str]()
    while withdrawn := await _withdrawn(before, failed, deps):
        for trace_id in withdrawn:
            work = _erase(trace_id, before, deps, budget, report)
            if not await set_apart(f"traces/{trace_id}", work, deps, report):
                failed.add(trace_id)
            if budget.spent:
                report.finished = False
                return


async def _withdrawn(before: datetime, failed: Collection[str], deps: Deps) -> list[str]:
    erasure = TraceErasure(deps.database)
    found = await erasure.withdrawn(before, PAGE + len(failed))
    return [each for each in found if each not in failed]


async def _erase(
    trace_id: str, before: datetime, deps: Deps, budget: Budget, report: Report
) -> None:
    begun = await deps.database.until_it_holds(lambda: _begin(trace_id, before, deps))
    if not begun:
        return
    report.counts["traces"] += 1
    budget.progress(1)
    if not budget.spent:
        await _finish(trace_id, deps, budget, report)


async def _finish(trace_id: str, deps: Deps, budget: Budget, report: Report) -> None:
    async for deleted in TraceErasure(deps.database).pages(trace_id):
        report.counts += deleted
        if budget.spent:
            return


async def _begin(trace_id: str, before: datetime, deps: Deps) -> bool:
    """Delete the trace itself, and close the gap that it leaves in a row of replaced ones."""
    erasure, stored = TraceErasure(deps.database), await Traces(deps.database).get(trace_id)
    if stored is None or not _may_go(stored, before):
        return False
    followers = await erasure.followers(trace_id)
    told = [erasure.replaces(each, _former_of(each, stored)) for each in followers]
    while len(followers) == FOLLOWERS:
        await deps.database.commit(told)
        followers = await erasure.followers(trace_id)
        told = [erasure.replaces(each, _former_of(each, stored)) for each in followers]
    await erasure.begin(stored, [*told, *await _former(stored, deps)], deps.clock())
    return True


def _may_go(stored: StoredTrace, before: datetime) -> bool:
    withdrawn_at = stored.trace.withdrawn_at
    return withdrawn_at is not None and withdrawn_at < before


def _former_of(follower: Document, gone: StoredTrace) -> str | None:
    """What the successor of a trace replaces once that is gone; another's claim ends with it."""
    own = follower.get("contributor") == gone.trace.contributor
    return gone.trace.supersedes if own else None


async def _former(gone: StoredTrace, deps: Deps) -> list[Write]:
    """What is written of the trace that this one replaced.

    Its successor stands for both; where it has none, nobody hides the former one any more, and it
    is found again, as it would have been had it been withdrawn without a successor.
    """
    former = (
        await Traces(deps.database).get(gone.trace.supersedes) if gone.trace.supersedes else None
    )
    if former is None or former.trace.superseded_by != gone.trace.trace_id:
        return []
    if gone.trace.superseded_by:
        erasure = TraceErasure(deps.database)
        return [erasure.replaced_by(former.snapshot, gone.trace.superseded_by)]
    from shared.traces.corpus import index_entry

    trace = replace(former.trace, superseded_by=None)
    entry = await index_entry(trace, deps) if trace.is_listed else None
    return Traces(deps.database).changed(former, trace, entry)


async def _count(deps: Deps) -> int:
    return await TraceErasure(deps.database).count_withdrawn(deps.clock() - RESTORABLE)


WITHDRAWN_TRACES: Final = Sweep("traces", erase_withdrawn, _count)
