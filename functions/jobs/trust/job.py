"""Keep what is said of votes true: the sums on traces, and the records of contributors."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.pipeline.sweep_progress import SweepProgress
from shared.pipeline.worker import run_isolated
from shared.runtime.job import Job, Report
from shared.traces.trust import VoteType
from shared.traces.trust_upkeep import TrustUpkeep, record_of, seen_trace, wanted_record

if TYPE_CHECKING:
    from datetime import datetime

    from shared.firestore.database import Document
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

NAME: Final = "trust"
ROUND: Final = "contributors"
EVERY: Final = timedelta(days=6, hours=12)
"""Between two rounds through all traces: every seventh night, even if one is a little early."""
LATE: Final = timedelta(minutes=10)
"""How much later than it says a vote may be written, by whatever clock its writer goes."""
REMEMBERED: Final = 20
"""Contributors after whom a round remembers its place: each time costs a write."""


async def trust(ctx: Context, budget: Budget) -> Report:
    """Add up the votes on every trace that was voted on since the last run, and once a week on all.

    Trust and status follow from the sums whenever they are read, and no age plays a part: there is
    nothing else to bring up to date. Votes keep the sums exact; this makes good what befell them
    otherwise. A vote that comes meanwhile is never undone: what it touches is left to the next
    run. Killed anywhere, the next run goes on.
    """
    report, began = Report(), ctx.clock()
    upkeep = TrustUpkeep(ctx.database)
    since = await upkeep.seen_until()
    if since is None:
        await upkeep.remember(began - LATE)
    else:
        await _latest(since, began, ctx, budget, report)
    if report.finished:
        await _round(ctx, budget, report)
    return report


async def _latest(
    since: datetime, began: datetime, ctx: Context, budget: Budget, report: Report
) -> None:
    """Look at what was voted on since the last run. Records are added up in the round."""
    upkeep, seen_until = TrustUpkeep(ctx.database), since
    async for voted_on in upkeep.voted_on(since):
        if budget.spent and seen_until > since:
            report.finished = False
            break
        for seen in await upkeep.traces(list(voted_on)):
            work = _check_tally(seen, Counter(), ctx, report)
            await run_isolated(f"traces/{seen.id}", work, ctx, report)
        seen_until = min(max(voted_on.values()), began - LATE)
    if seen_until > since:
        await upkeep.remember(seen_until)


async def _round(ctx: Context, budget: Budget, report: Report) -> None:
    """Look at all that each contributor's traces got, contributor by contributor."""
    upkeep, rounds = TrustUpkeep(ctx.database), SweepProgress(ctx.database, NAME)
    place, done = await rounds.due(ROUND, ctx.clock(), EVERY), 0
    while place is not None:
        user_id = await upkeep.contributor_after(place)
        if user_id is None:
            if place:
                await rounds.ended(ROUND, ctx.clock())
            return
        await run_isolated("a contributor", _check(user_id, ctx, budget, report), ctx, report)
        place, done = user_id, done + 1
        if budget.spent or done % REMEMBERED == 0:
            await rounds.reached(ROUND, place)
        if budget.spent:
            report.finished = False
            return


async def _check(user_id: str, ctx: Context, budget: Budget, report: Report) -> None:
    """Add up the votes on what somebody contributed, and what they make of their record."""
    upkeep, heads, complete = TrustUpkeep(ctx.database), Counter[VoteType](), True
    record = await upkeep.record(user_id)
    async for seen in upkeep.traces_of(user_id):
        work = _check_tally(seen, heads, ctx, report)
        complete &= await run_isolated(f"traces/{seen.id}", work, ctx, report)
        budget.progress(1)
    wanted = wanted_record(record, heads)
    if complete and wanted != record_of(record):
        held = await upkeep.correct_record(record, wanted)
        report.counts += Counter(records=held, busy=not held)


async def _check_tally(
    seen: Document, heads: Counter[VoteType], ctx: Context, report: Report
) -> None:
    """Add up the votes on a trace."""
    upkeep, trace = TrustUpkeep(ctx.database), seen_trace(seen)
    cast = await upkeep.cast(trace)
    heads.update(cast.heads)
    if cast.tally != trace.tally:
        held = await upkeep.correct_tally(seen, cast.tally)
        report.counts += Counter(tallies=held, busy=not held)


async def waiting(ctx: Context) -> int:
    """How many traces the round goes through that is due; none where none is."""
    rounds = SweepProgress(ctx.database, NAME)
    due = await rounds.due(ROUND, ctx.clock(), EVERY)
    return 0 if due is None else await TrustUpkeep(ctx.database).count(due)


JOB = Job(
    name=NAME,
    title="Add up the votes on solved problems",
    run=trust,
    total=waiting,
    schedule="37 4 * * *",
)
