"""Make the lists that search reads from scratch, and mend those that differ."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from functions.jobs.repair.rebuilt_postings import RebuildLimits, RebuiltPostings
from shared.pipeline.index_repair import CORPORA, PAGE, IndexRepair, RepairProgress
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from shared.index.postings import PostingsRef
    from shared.pipeline.index_repair import IndexedCorpus
    from shared.runtime.context import Context
    from shared.runtime.job import Budget


async def repair(ctx: Context, budget: Budget) -> Report:
    """Compare every list with what the documents' marks say, and replace it where it differs.

    The index job keeps the lists of chunks exact, and each trace those that it stands on; this one
    makes good what befell them otherwise, and gives long lists their best entries again. It goes
    through all documents for as many lists as it can hold in memory, and then again for the next
    ones. The marks of chunks stand still meanwhile: the two jobs share a lease. Killed anywhere,
    the next run starts again; out of time, it goes on.

    It reads every list once, and every document once for each such part.
    """
    return await repair_within(RebuildLimits(), ctx, budget)


async def repair_within(limits: RebuildLimits, ctx: Context, budget: Budget) -> Report:
    """Repair, and hold no more than this at once."""
    report, place = Report(), RepairProgress(ctx.database)
    unfinished = await place.place()
    for corpus in CORPORA:
        after: PostingsRef | None = max(unfinished or corpus.start, corpus.start)
        while after and after[0] in corpus.collections:
            if budget.spent:
                await place.remember(after)
                report.finished = False
                return report
            mending = CorpusRepair(corpus, limits, ctx, report)
            part = await mending.rebuilt(after)
            await mending.mend(part, budget)
            after = part.until
    if unfinished:
        await place.remember(None)
    return report


class CorpusRepair:
    """Makes lists of a corpus from scratch, and puts them in the place of those that differ."""

    def __init__(
        self, corpus: IndexedCorpus, limits: RebuildLimits, ctx: Context, report: Report
    ) -> None:
        """Work on this corpus."""
        self._corpus = corpus
        self._limits = limits
        self._report = report
        self._store = IndexRepair(ctx.database, corpus)

    async def rebuilt(
        self, after: PostingsRef, only: Collection[PostingsRef] | None = None
    ) -> RebuiltPostings:
        """The lists from one on. What long ones keep depends on the totals: these come first."""
        while True:
            seen = await self._store.totals()
            part = RebuiltPostings(
                self._corpus.names, after, seen.totals.average, self._limits, only
            )
            async for document_id, mark in self._store.marks():
                part.add(document_id, mark)
            # Totals that changed since they were read are right, and the marks may be older.
            if part.totals == seen.totals or not await self._store.correct(seen, part.totals):
                return part
            self._report.counts["mended"] += 1

    async def mend(self, part: RebuiltPostings, budget: Budget) -> None:
        """Replace those lists of a range that differ from a part, and remove what is not in it."""
        missing = set(part.names())
        wrong: set[PostingsRef] = set()
        async for stored in self._store.lists(part.after, part.until):
            differing = _differing(part, stored)
            if self._corpus.stands_still:
                await self._replace(differing)
            else:
                wrong |= differing.keys()
            missing -= stored.keys()
            budget.progress(len(stored))
        if self._corpus.stands_still:
            names = sorted(missing)
            for start in range(0, len(names), PAGE):
                page = names[start : start + PAGE]
                await self._replace({name: part.document(name, None) for name in page})
        elif wrong or missing:
            await self._look_again(part.after, sorted(wrong | missing))

    async def _look_again(self, after: PostingsRef, names: list[PostingsRef]) -> None:
        """Replace what differs again, from marks that were read after the list.

        A trace writes its mark and its lists in one commit. A list that is as it was before the
        marks were read therefore has to say what they say; one that changed meanwhile is left to
        the next run.
        """
        seen = await self._store.seen(names)
        part = await self.rebuilt(after, frozenset(names))
        stored = {name: each.to_dict() or {} for name, each in seen.items()}
        wrong = _differing(part, stored)
        wrong |= {name: part.document(name, None) for name in part.names() if name not in seen}
        for kind, removed in (("mended", False), ("removed", True)):
            lists = {name: data for name, data in wrong.items() if (data is None) is removed}
            held = await self._store.replace_unchanged(lists, seen)
            self._report.counts += Counter({kind: held})

    async def _replace(self, lists: Mapping[PostingsRef, dict[str, Any] | None]) -> None:
        await self._store.replace(lists)
        removed = sum(data is None for data in lists.values())
        self._report.counts += Counter(mended=len(lists) - removed, removed=removed)


def _differing(
    part: RebuiltPostings, stored: Mapping[PostingsRef, Mapping[str, Any]]
) -> dict[PostingsRef, dict[str, Any] | None]:
    """Those of the lists that differ, as they are to be; None: there is to be no such list."""
    wanted = {name: part.document(name, data.get("name")) for name, data in stored.items()}
    return {name: data for name, data in wanted.items() if _differs(data, stored[name])}


def _differs(wanted: Mapping[str, Any] | None, stored: Mapping[str, Any]) -> bool:
    """Whether a list is not as it is to be. `held` may be too high, never too low."""
    if wanted is None:
        return True
    exact = wanted.keys() - {"held"}
    return stored.get("held", 0) < wanted["held"] or any(
        stored.get(name) != wanted[name] for name in exact
    )


async def lists(ctx: Context) -> int:
    """How many lists there are to compare."""
    return sum([await IndexRepair(ctx.database, each).count() for each in CORPORA])


JOB = Job(
    name="repair",
    title="Compare the index with the documents",
    run=repair,
    total=lists,
    schedule="42 3 * * 0",
    lease="index",
)
