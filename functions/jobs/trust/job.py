"""Recounts votes, and corrects the vote tallies of traces and the records of their contributors.

A trace is a solved problem that users vote on. A contributor's record counts the votes on all of
this user's traces.
"""

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
"""The name under which the progress of the weekly round through all contributors is stored."""
ROUND_INTERVAL: Final = timedelta(days=6, hours=12)
"""The minimum time between two rounds. It is less than seven days, so that a round begins every
seventh night even if a run starts a little early."""
MAX_CLOCK_SKEW: Final = timedelta(minutes=10)
"""The maximum difference between a vote's date and the time of its commit. Clocks may differ."""
CHECKPOINT_INTERVAL: Final = 20
"""The number of contributors after which a round stores its progress, which costs one write."""


async def recount_votes(ctx: Context, budget: Budget) -> Report:
    """Recount traces with votes since the last run, and once a week all traces and records.

    Every vote updates its tally exactly, so this job repairs only damage with other causes. Trust
    and status are computed from the tally when a trace is read, so they need no correction. A
    document that changes during the run is left to the next run, so that no vote is lost. The next
    run continues where a killed run stopped.
    """
    report = Report()
    start = ctx.clock()
    recount = VoteRecount(ctx.database)
    since = await recount.get_progress()
    if since is None:
        # In a first run, the round below recounts all traces, so no vote must be read twice.
        await recount.set_progress(start - MAX_CLOCK_SKEW)
    else:
        await _recount_latest(since, start, ctx, budget, report)
    if report.finished:
        await _recount_all(ctx, budget, report)
    return report


async def _recount_latest(
    since: datetime, start: datetime, ctx: Context, budget: Budget, report: Report
) -> None:
    """Recount traces with votes since the last run, but not the records of contributors.

    At least one page of votes is read, so that even runs without time advance.
    """
    recount = VoteRecount(ctx.database)
    until = since
    is_first_page = True
    async for vote_times in recount.iterate_votes_since(since):
        if budget.spent and not is_first_page:
            report.finished = False
            break
        is_first_page = False
        for snapshot in await recount.load_traces(list(vote_times)):
            work = _recount_trace(snapshot, ctx, report)
            await run_isolated(f"traces/{snapshot.id}", work, ctx, report)
        # A vote with an earlier date may still be committed by a process whose clock is slow, so
        # the next run reads the latest minutes again.
        until = min(max(vote_times.values()), start - MAX_CLOCK_SKEW)
    if until > since:
        await recount.set_progress(until)


async def _recount_all(ctx: Context, budget: Budget, report: Report) -> None:
    """Recount the traces of all contributors, one contributor after the other, if that is due."""
    recount = VoteRecount(ctx.database)
    progress = RoundProgress(ctx.database, NAME)
    # The id of the last contributor; "" to begin a round, None if no round is due.
    position = await progress.load_position(ROUND, ctx.clock(), ROUND_INTERVAL)
    contributor_count = 0
    while position is not None:
        user_id = await recount.find_next_contributor(position)
        if user_id is None:
            if position:  # a base without traces stores nothing
                await progress.complete(ROUND, ctx.clock())
            return
        work = _recount_contributor(user_id, ctx, budget, report)
        # A user's id does not belong in a report.
        await run_isolated("a contributor", work, ctx, report)
        position = user_id
        contributor_count += 1
        if budget.spent or contributor_count % CHECKPOINT_INTERVAL == 0:
            await progress.save_position(ROUND, position)
        if budget.spent:
            report.finished = False
            return


async def _recount_contributor(user_id: str, ctx: Context, budget: Budget, report: Report) -> None:
    """Recount a contributor's traces, and correct the record if no recount failed."""
    recount = VoteRecount(ctx.database)
    votes_by_type = Counter[VoteType]()
    is_complete = True
    snapshot = await recount.get_record(user_id)  # read before the votes, as its correction needs
    async for trace in recount.iterate_traces(user_id):
        work = _recount_trace(trace, ctx, report, votes_by_type)
        if not await run_isolated(f"traces/{trace.id}", work, ctx, report):
            is_complete = False
        budget.progress(1)
    record = compute_record(snapshot, votes_by_type)
    if is_complete and record != read_record(snapshot):
        was_corrected = await recount.correct_record(snapshot, record)
        report.counts["records" if was_corrected else "busy"] += 1


async def _recount_trace(
    snapshot: Document, ctx: Context, report: Report, votes_by_type: Counter[VoteType] | None = None
) -> None:
    """Recount a trace, correct its tally, and add its votes to `votes_by_type`."""
    recount = VoteRecount(ctx.database)
    trace = to_trace(snapshot.id, snapshot.to_dict() or {})
    count = await recount.count_votes(trace)
    if votes_by_type is not None:
        votes_by_type.update(count.by_type)
    if count.tally != trace.tally:
        was_corrected = await recount.correct_tally(snapshot, count.tally)
        report.counts["tallies" if was_corrected else "busy"] += 1


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
    run=recount_votes,
    total=count_pending,
    schedule="37 4 * * *",
)
