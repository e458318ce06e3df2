"""Recounts votes, and corrects the tallies of traces and the records of contributors."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.pipeline.round_progress import RoundProgress
from shared.pipeline.worker import run_isolated
from shared.runtime.job import Job, Report
from shared.traces.repository import to_trace
from shared.traces.trust import VoteType
from shared.traces.vote_recount import VoteRecount, compute_record, read_record

if TYPE_CHECKING:
    from datetime import datetime

    from shared.firestore.database import Document
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

NAME: Final = "trust"
ROUND: Final = "contributors"
"""The name of the weekly round through all contributors."""
ROUND_INTERVAL: Final = timedelta(days=6, hours=12)
"""The minimum time between two rounds. It is less than seven days, so that a round begins every
seventh night even if a run starts a little early."""
MAX_CLOCK_SKEW: Final = timedelta(minutes=10)
"""The maximum difference between a vote's date and the time of its commit. Clocks may differ."""
CHECKPOINT_INTERVAL: Final = 20
"""The number of contributors after which a round stores its progress, which costs one write."""


async def trust(ctx: Context, budget: Budget) -> Report:
    """Recount traces with votes since the last run, and once a week all traces.

    Every vote updates its tally exactly, so this job repairs only damage with other causes. Trust
    and status are computed when a trace is read, so only tallies are corrected. A tally that
    changes during the run is left to the next run, so that no vote is lost. The next run continues
    where a killed run stopped.
    """
    report, start = Report(), ctx.clock()
    recount = VoteRecount(ctx.database)
    since = await recount.get_progress()
    if since is None:
        await recount.set_progress(start - MAX_CLOCK_SKEW)
    else:
        await _recount_latest(since, start, ctx, budget, report)
    if report.finished:
        await _recount_all(ctx, budget, report)
    return report


async def _recount_latest(
    since: datetime, start: datetime, ctx: Context, budget: Budget, report: Report
) -> None:
    """Recount traces with votes since the last run, but not the records of contributors."""
    recount, until = VoteRecount(ctx.database), since
    async for latest_votes in recount.iterate_votes_since(since):
        if budget.spent and until > since:
            report.finished = False
            break
        for snapshot in await recount.load_traces(list(latest_votes)):
            work = _recount_trace(snapshot, Counter(), ctx, report)
            await run_isolated(f"traces/{snapshot.id}", work, ctx, report)
        until = min(max(latest_votes.values()), start - MAX_CLOCK_SKEW)
    if until > since:
        await recount.set_progress(until)


async def _recount_all(ctx: Context, budget: Budget, report: Report) -> None:
    """Recount the traces of all contributors, one contributor after the other, if that is due."""
    recount, progress = VoteRecount(ctx.database), RoundProgress(ctx.database, NAME)
    position = await progress.load_position(ROUND, ctx.clock(), ROUND_INTERVAL)
    recounted_count = 0
    while position is not None:
        user_id = await recount.find_next_contributor(position)
        if user_id is None:
            if position:
                await progress.complete(ROUND, ctx.clock())
            return
        work = _recount_contributor(user_id, ctx, budget, report)
        await run_isolated("a contributor", work, ctx, report)
        position, recounted_count = user_id, recounted_count + 1
        if budget.spent or recounted_count % CHECKPOINT_INTERVAL == 0:
            await progress.save_position(ROUND, position)
        if budget.spent:
            report.finished = False
            return


async def _recount_contributor(user_id: str, ctx: Context, budget: Budget, report: Report) -> None:
    """Recount a contributor's traces, and correct the record if no recount failed."""
    recount, by_type, is_complete = VoteRecount(ctx.database), Counter[VoteType](), True
    snapshot = await recount.get_record(user_id)
    async for trace in recount.iterate_traces(user_id):
        work = _recount_trace(trace, by_type, ctx, report)
        is_complete &= await run_isolated(f"traces/{trace.id}", work, ctx, report)
        budget.progress(1)
    record = compute_record(snapshot, by_type)
    if is_complete and record != read_record(snapshot):
        was_corrected = await recount.correct_record(snapshot, record)
        report.counts += Counter(records=was_corrected, busy=not was_corrected)


async def _recount_trace(
    snapshot: Document, by_type: Counter[VoteType], ctx: Context, report: Report
) -> None:
    """Recount a trace, correct its tally, and add its votes to `by_type`."""
    recount = VoteRecount(ctx.database)
    trace = to_trace(snapshot.id, snapshot.to_dict() or {})
    count = await recount.count_votes(trace)
    by_type.update(count.by_type)
    if count.tally != trace.tally:
        was_corrected = await recount.correct_tally(snapshot, count.tally)
        report.counts += Counter(tallies=was_corrected, busy=not was_corrected)


async def count_pending(ctx: Context) -> int:
    """Count the traces that remain in the weekly round. Return 0 if no round is due."""
    position = await RoundProgress(ctx.database, NAME).load_position(
        ROUND, ctx.clock(), ROUND_INTERVAL
    )
    if position is None:
        return 0
    return await VoteRecount(ctx.database).count_remaining(position)


JOB = Job(
    name=NAME,
    title="Recount the votes on solved problems",
    run=trust,
    total=count_pending,
    schedule="37 4 * * *",
)
