"""Make the lists that search reads from scratch, and mend those that differ."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from functions.jobs.repair.part import Limits, Part
from shared.job import Job, Report
from shared.store.repairing import PAGE, START

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.deps import Deps
    from shared.job import Budget
    from shared.store.index_lists import ListName


async def repair(deps: Deps, budget: Budget) -> Report:
    """Compare every list with what the chunks' marks say, and replace it where it differs.

    The index job keeps the lists exact; this one makes good what befell them otherwise, and gives
    long lists their best entries again. It goes through all chunks for as many lists as it can hold
    in memory, and then again for the next ones. Marks stand still meanwhile: the two jobs share a
    lease. Killed anywhere, the next run starts again; out of time, it goes on.

    It reads every list once, and every chunk once for each such part.
    """
    return await repair_within(Limits(), deps, budget)


async def repair_within(limits: Limits, deps: Deps, budget: Budget) -> Report:
    """Repair, and hold no more than this at once."""
    report = Report()
    unfinished = await deps.store.repairing.place()
    after: ListName | None = unfinished or START
    while after:
        if budget.spent:
            await deps.store.repairing.remember(after)
            report.finished = False
            return report
        part = await _rebuilt(after, limits, deps, report)
        await _mend(part, deps, budget, report)
        after = part.until
    if unfinished:
        await deps.store.repairing.remember(None)
    return report


async def _rebuilt(after: ListName, limits: Limits, deps: Deps, report: Report) -> Part:
    """The lists from one on. What long ones keep depends on the totals: these come first."""
    totals = await deps.store.repairing.totals()
    while True:
        part = Part(after, totals.average, limits)
        async for chunk_id, mark in deps.store.repairing.marks():
            part.add(chunk_id, mark)
        if part.totals == totals:
            return part
        totals = part.totals
        await deps.store.repairing.correct(totals)
        report.counts["mended"] += 1


async def _mend(part: Part, deps: Deps, budget: Budget, report: Report) -> None:
    missing = set(part.names())
    async for stored in deps.store.repairing.lists(part.after, part.until):
        wanted = {name: part.document(name, data.get("name")) for name, data in stored.items()}
        wrong = {name: data for name, data in wanted.items() if _differs(data, stored[name])}
        await _replace(wrong, deps, report)
        missing -= stored.keys()
        budget.progress(len(stored))
    names = sorted(missing)
    for start in range(0, len(names), PAGE):
        page = names[start : start + PAGE]
        await _replace({name: part.document(name, None) for name in page}, deps, report)


async def _replace(
    lists: Mapping[ListName, dict[str, Any] | None], deps: Deps, report: Report
) -> None:
    await deps.store.repairing.replace(lists)
    removed = sum(data is None for data in lists.values())
    report.counts += Counter(mended=len(lists) - removed, removed=removed)


def _differs(wanted: Mapping[str, Any] | None, stored: Mapping[str, Any]) -> bool:
    """Whether a list is not as it is to be. `held` may be too high, never too low."""
    if wanted is None:
        return True
    exact = wanted.keys() - {"held"}
    return stored.get("held", 0) < wanted["held"] or any(
        stored.get(name) != wanted[name] for name in exact
    )


async def lists(deps: Deps) -> int:
    """How many lists there are to compare."""
    return await deps.store.repairing.count()


JOB = Job(
    name="repair",
    title="Compare the index with the chunks",
    run=repair,
    total=lists,
    schedule="42 3 * * 0",
    lease="index",
)
