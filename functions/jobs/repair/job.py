"""Rebuild the inverted index from the documents, and repair the postings that differ."""

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
    """Compare all postings with the indexed states of the documents, and replace what differs.

    The index job keeps the postings of chunks exact, and each trace those that it is in; this job
    repairs damage of other origin, and restores the best entries of truncated postings. It reads
    all documents for as many postings as fit in memory, and again for the next part. The index job
    does not run at the same time, because the two share a lease. After a run that was killed, the
    next one starts from the beginning; after one that ran out of time, it continues.

    Every postings document is read once, and every document once for each part.
    """
    return await repair_within(RebuildLimits(), ctx, budget)


async def repair_within(limits: RebuildLimits, ctx: Context, budget: Budget) -> Report:
    """Repair with these limits of memory."""
    report, progress = Report(), RepairProgress(ctx.database)
    unfinished = await progress.position()
    for corpus in CORPORA:
        after: PostingsRef | None = max(unfinished or corpus.start, corpus.start)
        while after and after[0] in corpus.collections:
            if budget.spent:
                await progress.save(after)
                report.finished = False
                return report
            corpus_repair = CorpusRepair(corpus, limits, ctx, report)
            rebuilt = await corpus_repair.rebuild(after)
            await corpus_repair.compare(rebuilt, budget)
            after = rebuilt.end_at
    if unfinished:
        await progress.save(None)
    return report


class CorpusRepair:
    """Rebuilds postings of a corpus, and replaces those that differ."""

    def __init__(
        self, corpus: IndexedCorpus, limits: RebuildLimits, ctx: Context, report: Report
    ) -> None:
        """Store the corpus and its limits. Nothing is read yet."""
        self._corpus = corpus
        self._limits = limits
        self._report = report
        self._store = IndexRepair(ctx.database, corpus)

    async def rebuild(
        self, after: PostingsRef, only_refs: Collection[PostingsRef] | None = None
    ) -> RebuiltPostings:
        """Rebuild postings from a position on, after the totals, on which truncation depends."""
        while True:
            stored = await self._store.totals()
            average = stored.totals.average
            rebuilt = RebuiltPostings(self._corpus.names, after, average, self._limits, only_refs)
            async for document_id, state in self._store.indexed_states():
                rebuilt.add_document(document_id, state)
            # Totals that changed in the meantime are right; the indexed states may be older.
            if rebuilt.totals == stored.totals:
                return rebuilt
            if not await self._store.correct_totals(stored, rebuilt.totals):
                return rebuilt
            # Run records store the name `mended` for what was repaired.
            self._report.counts["mended"] += 1

    async def compare(self, rebuilt: RebuiltPostings, budget: Budget) -> None:
        """Replace the stored postings that differ, add missing ones, and delete obsolete ones."""
        missing = set(rebuilt.refs())
        suspect: set[PostingsRef] = set()
        async for stored in self._store.postings(rebuilt.start_after, rebuilt.end_at):
            differing = _differing(rebuilt, stored)
            if self._corpus.exclusive:
                await self._replace(differing)
            else:
                suspect |= differing.keys()
            missing -= stored.keys()
            budget.progress(len(stored))
        if self._corpus.exclusive:
            refs = sorted(missing)
            for start in range(0, len(refs), PAGE):
                page = refs[start : start + PAGE]
                await self._replace({ref: rebuilt.posting_data(ref, None) for ref in page})
        elif suspect or missing:
            await self._compare_again(rebuilt.start_after, sorted(suspect | missing))

    async def _compare_again(self, after: PostingsRef, refs: list[PostingsRef]) -> None:
        """Replace what differs from indexed states that were read after the postings.

        A trace writes its indexed state and its postings in one commit. So postings that have not
        changed since before the states were read must agree with them; changed ones are left to the
        next run.
        """
        snapshots = await self._store.snapshots(refs)
        rebuilt = await self.rebuild(after, frozenset(refs))
        stored = {ref: snapshot.to_dict() or {} for ref, snapshot in snapshots.items()}
        wrong = _differing(rebuilt, stored)
        wrong |= {
            ref: rebuilt.posting_data(ref, None) for ref in rebuilt.refs() if ref not in stored
        }
        for count, removed in (("mended", False), ("removed", True)):
            postings = {ref: data for ref, data in wrong.items() if (data is None) is removed}
            replaced = await self._store.replace_unchanged(postings, snapshots)
            self._report.counts += Counter({count: replaced})

    async def _replace(self, postings: Mapping[PostingsRef, dict[str, Any] | None]) -> None:
        await self._store.replace(postings)
        removed = sum(data is None for data in postings.values())
        self._report.counts += Counter(mended=len(postings) - removed, removed=removed)


def _differing(
    rebuilt: RebuiltPostings, stored: Mapping[PostingsRef, Mapping[str, Any]]
) -> dict[PostingsRef, dict[str, Any] | None]:
    """Return the correct fields of each stored posting list that differs, or None to delete it."""
    correct = {ref: rebuilt.posting_data(ref, data.get("name")) for ref, data in stored.items()}
    return {ref: data for ref, data in correct.items() if _differs(data, stored[ref])}


def _differs(correct: Mapping[str, Any] | None, stored: Mapping[str, Any]) -> bool:
    """Return whether stored postings are wrong.

    Their length `held` may be too high, never too low. `days` may have days without documents.
    """
    if correct is None:
        return True
    exact = correct.keys() - {"held", "days"}
    days = {day: count for day, count in stored.get("days", {}).items() if count}
    return (
        stored.get("held", 0) < correct["held"]
        or days != correct.get("days", {})
        or any(stored.get(name) != correct[name] for name in exact)
    )


async def count_postings(ctx: Context) -> int:
    """Count the postings to compare."""
    return sum([await IndexRepair(ctx.database, corpus).count() for corpus in CORPORA])


JOB = Job(
    name="repair",
    title="Compare the index with the documents",
    run=repair,
    total=count_postings,
    schedule="42 3 * * 0",
    lease="index",
)
