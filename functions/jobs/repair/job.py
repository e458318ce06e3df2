"""Rebuilds the inverted index from the documents, and repairs the postings that differ."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from functions.jobs.repair.rebuilt_postings import RebuildLimits, RebuiltPostings
from shared.core.blocks import split
from shared.index.postings import to_totals
from shared.pipeline.index_repair import CORPORA, PAGE, IndexRepair, RepairProgress
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.firestore.documents import Document
    from shared.index.postings import PostingsRef
    from shared.pipeline.index_repair import IndexedCorpus
    from shared.runtime.context import Context
    from shared.runtime.job import Budget


async def repair(ctx: Context, budget: Budget) -> Report:
    """Compare all postings with the indexed states of the documents, and replace what differs.

    Indexing keeps the postings exact. This job repairs damage from other causes, deletes empty
    postings, and restores the best entries of truncated postings. It rebuilds the index in parts
    that fit in memory, and reads all documents for each part. It shares a lease with the index job,
    so the two never run at the same time. If a run is out of time, the next run continues. If a run
    is killed, the next run starts at the beginning.

    Reads all postings once, and all documents once for each part, or twice if postings of the part
    differ.
    """
    return await repair_within(RebuildLimits(), ctx, budget)


async def repair_within(limits: RebuildLimits, ctx: Context, budget: Budget) -> Report:
    """Repair the index within limits of memory."""
    report = Report()
    progress = RepairProgress(ctx.database)
    unfinished_position = await progress.load_position()
    for corpus in CORPORA:
        position: PostingsRef | None = max(unfinished_position or corpus.start, corpus.start)
        while position and position[0] in corpus.collections:
            if budget.spent:
                await progress.save(position)
                report.finished = False
                return report
            corpus_repair = CorpusRepair(corpus, limits, ctx, report)
            rebuilt = await corpus_repair.rebuild(position)
            await corpus_repair.compare(rebuilt, budget)
            position = rebuilt.end_at
    if unfinished_position:
        await progress.save(None)
    return report


class CorpusRepair:
    """Rebuilds postings of a corpus, and replaces those that differ."""

    def __init__(
        self, corpus: IndexedCorpus, limits: RebuildLimits, ctx: Context, report: Report
    ) -> None:
        self._corpus = corpus
        self._limits = limits
        self._report = report
        self._store = IndexRepair(ctx.database, corpus)

    async def rebuild(self, after: PostingsRef) -> RebuiltPostings:
        """Correct the totals, on which truncation depends, and rebuild postings after a place."""
        while True:
            stored_totals = await self._store.load_totals()
            totals = to_totals(stored_totals.fields)
            rebuilt = RebuiltPostings(self._corpus.names, after, totals.average, self._limits)
            async for document_id, state in self._store.iterate_indexed_states():
                rebuilt.add_document(document_id, state)
            if rebuilt.totals == totals:
                return rebuilt
            # Totals that have changed in the meantime are newer than what was read, and correct.
            if not await self._store.correct_totals(stored_totals, rebuilt.totals):
                return rebuilt
            # Run records have always called repaired postings and totals `mended`.
            self._report.counts["mended"] += 1

    async def compare(self, rebuilt: RebuiltPostings, budget: Budget) -> None:
        """Replace stored postings that differ, add missing ones, and delete obsolete ones."""
        missing_refs = set(rebuilt.list_refs())
        suspects: dict[PostingsRef, object] = {}
        async for stored_postings in self._store.iterate_postings(
            rebuilt.start_after, rebuilt.end_at
        ):
            suspects |= {
                ref: stored_postings[ref].update_time
                for ref in _find_corrections(rebuilt, stored_postings)
            }
            missing_refs -= stored_postings.keys()
            budget.progress(len(stored_postings))
        suspects |= dict.fromkeys(missing_refs)
        if suspects:
            await self._compare_again(rebuilt.start_after, suspects)

    async def _compare_again(
        self, after: PostingsRef, suspects: Mapping[PostingsRef, object]
    ) -> None:
        """Read the indexed states again, and replace the suspects that still differ.

        Indexing writes a document's indexed state and its postings in one commit. Therefore
        postings that have not changed since the first comparison must agree with the states that
        are read now. Postings that have changed are left to the next run.

        Args:
            after: The position before the first suspect.
            suspects: The postings that differed, each with the time of their last write, or None if
                they were missing.
        """
        rebuilt = await self.rebuild(after)
        # New documents may have filled the memory. What did not fit is left to the next run.
        refs = sorted(ref for ref in suspects if not rebuilt.end_at or ref <= rebuilt.end_at)
        for page in split(refs, PAGE):
            snapshots = await self._store.load_postings(page)
            unchanged_postings: dict[PostingsRef, Document | None] = {}
            for ref in page:
                snapshot = snapshots.get(ref)  # None if the postings are missing
                if (snapshot.update_time if snapshot else None) == suspects[ref]:
                    unchanged_postings[ref] = snapshot
            corrections = _find_corrections(rebuilt, unchanged_postings)
            for count, is_removal in (("mended", False), ("removed", True)):
                postings = {
                    ref: data for ref, data in corrections.items() if (data is None) is is_removal
                }
                replaced_count = await self._store.replace_unchanged(postings, snapshots)
                self._report.counts += Counter({count: replaced_count})


def _find_corrections(
    rebuilt: RebuiltPostings, stored_postings: Mapping[PostingsRef, Document | None]
) -> dict[PostingsRef, dict[str, Any] | None]:
    """Return the correct fields of all postings that differ. None deletes postings."""
    fields = {
        ref: snapshot.fields if snapshot else None for ref, snapshot in stored_postings.items()
    }
    correct_fields = {
        ref: rebuilt.build_fields(ref, (data or {}).get("name")) for ref, data in fields.items()
    }
    return {ref: data for ref, data in correct_fields.items() if _differs(data, fields[ref])}


def _differs(correct: Mapping[str, Any] | None, stored: Mapping[str, Any] | None) -> bool:
    """Return whether stored postings are wrong.

    The stored `held`, an upper bound of the number of entries, may be too high, but not too low.
    The stored `days` may contain days without documents.
    """
    if correct is None or stored is None:
        return correct is not stored
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
