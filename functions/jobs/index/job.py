"""Maintains the inverted index that search reads: the postings of terms and facets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from shared.core.bisection import bisect_batch
from shared.core.errors import PlatformFault
from shared.firestore.database import WriteConflict
from shared.index.bm25 import CAP
from shared.index.indexed_state import NOT_INDEXED, compute_indexed_state
from shared.index.posting_changes import SLACK, PostingsTruncation
from shared.index.postings import KNOWLEDGE, TRACES
from shared.knowledge.forgotten_repository import ForgottenSources
from shared.knowledge.queue import ChunkQueue
from shared.pipeline.worker import defer_chunk, make_dead_letters, run_isolated
from shared.runtime.job import Job, Report
from shared.text.splitting import CHUNK_LIMITS
from shared.writer.commits import split_commits
from shared.writer.indexing import INDEX_VERSION, STEP, IndexChange, Indexing, plan_indexing
from shared.writer.note_repository import Notes
from shared.writer.source_editing import SourceEditing
from shared.writer.source_move import MovedElsewhere, SourceMove

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.knowledge.forgotten_repository import ForgottenSource
    from shared.runtime.context import Context
    from shared.runtime.job import Budget
    from shared.writer.indexing import ChunkToIndex

PAGE_SIZE: Final = 300
"""The number of pending chunks in a page. The more chunks share a commit, the fewer writes there
are, because a commit writes the postings of a term once for all its chunks."""
MAX_TRUNCATED: Final = 200
"""Before each page, at most this many overlong postings of terms are truncated in each corpus, and
as many of facets. A page adds about 30,000 entries, which make about 120 postings overlong."""
MAX_MOVES: Final = 25
"""The maximum number of sources that a run completes to forget or restore."""
MAX_EDITS: Final = 300
"""The maximum number of sources whose edits a run completes."""


async def index(ctx: Context, budget: Budget) -> Report:
    """Index pending chunks, with the usual limits of postings."""
    return await index_with(Indexing(ctx.database), ctx, budget)


async def index_with(
    indexing: Indexing, ctx: Context, budget: Budget, cap: int = CAP, slack: int = SLACK
) -> Report:
    """Index pending chunks, and remove deleted chunks from the index, commit by commit.

    The postings of the knowledge base and of traces are truncated to `cap` entries once they have
    `cap + slack`, no matter who added the entries.

    A commit contains the indexed state of some chunks and all changes to their postings, so the
    next run continues where a killed run stopped. When INDEX_VERSION has changed, every chunk is
    indexed again. The job also completes calls of `forget` and `edit_source` that ran out of time,
    and lets a note about a passage that is gone be about the source.
    """
    report = Report()
    await _requeue_if_outdated(indexing, ctx)
    await _finish_moves(ctx, budget, report)
    await _finish_edits(ctx, budget, report)
    truncations = [
        PostingsTruncation(ctx.database, names, cap, slack) for names in (KNOWLEDGE, TRACES)
    ]
    while not budget.spent:
        for truncation in truncations:
            await _truncate(truncation, report)
        page = await indexing.load_pending(ctx.clock(), PAGE_SIZE)
        if not page:
            return report
        deleted = {
            chunk.chunk_id: chunk.replaced_by
            for chunk in page
            if chunk.chunk is None and not chunk.fault
        }
        limits = CHUNK_LIMITS[ctx.settings.embedding_provider]
        await Notes(ctx.database).move_from_deleted(deleted, limits, ctx.clock)
        for changes in await _plan_commits(page, ctx, report):
            await _apply(changes, indexing, ctx, budget, report)
    report.finished = False
    return report


async def _requeue_if_outdated(indexing: Indexing, ctx: Context) -> None:
    """Queue all chunks again if the index was built with another version."""
    version = await indexing.load_version()
    if version == INDEX_VERSION:
        return
    if version:  # A new index has no version. Its chunks are queued already.
        await indexing.requeue(ctx.clock())
    await indexing.save_version(INDEX_VERSION)


async def _finish_moves(ctx: Context, budget: Budget, report: Report) -> None:
    """Complete the forgetting and restoring of sources. The report counts chunks as `moved`."""
    for record, update_time in await ForgottenSources(ctx.database).load_unfinished(MAX_MOVES):
        work = _finish_move(record, update_time, ctx, budget, report)
        await run_isolated(f"sources/{record.source_id}", work, ctx, report)
        if budget.spent:
            report.finished = False
            return


async def _finish_move(
    record: ForgottenSource, update_time: Any, ctx: Context, budget: Budget, report: Report
) -> None:
    move = SourceMove(ctx.database, record.source_id, update_time)
    try:
        async for moved in move.complete(record, ctx.clock()):
            report.counts["moved"] += moved.chunks
            if budget.spent:
                return
    except (MovedElsewhere, WriteConflict):
        return  # Another call is completing it.


async def _finish_edits(ctx: Context, budget: Budget, report: Report) -> None:
    """Rewrite the chunks of edited sources. The report counts them as `rewritten`."""
    for source_id in await SourceEditing(ctx.database).load_unfinished(MAX_EDITS):
        await run_isolated(
            f"sources/{source_id}", _finish_edit(source_id, ctx, budget, report), ctx, report
        )
        if budget.spent:
            report.finished = False
            return


async def _finish_edit(source_id: str, ctx: Context, budget: Budget, report: Report) -> None:
    try:
        async for count in SourceEditing(ctx.database).rewrite_chunks(source_id, ctx.clock()):
            report.counts["rewritten"] += count
            if budget.spent:
                return
    except WriteConflict:
        return  # The source or a chunk has changed. The next run compares all chunks again.


async def _truncate(truncation: PostingsTruncation, report: Report) -> None:
    """Truncate the overlong postings of a corpus. The report counts them as `shortened`."""
    overlong = await truncation.find_overlong(MAX_TRUNCATED)
    await truncation.truncate(overlong)
    if overlong:
        report.counts["shortened"] += len(overlong)


async def _plan_commits(
    page: Sequence[ChunkToIndex], ctx: Context, report: Report
) -> list[list[IndexChange]]:
    """Divide the changes for a page into commits. Chunks that cannot be indexed are deferred."""
    # Finding the terms takes CPU time. In a thread, it does not block the event loop.
    outcomes = await asyncio.to_thread(list, map(_build_change, page))
    for chunk, outcome in zip(page, outcomes, strict=True):
        if isinstance(outcome, str):
            await defer_chunk(STEP, chunk, outcome, ctx, report)
    changes = [outcome for outcome in outcomes if isinstance(outcome, IndexChange)]
    commits = list(split_commits(changes))
    # The last commit of a full page may be small. Its chunks are read again with the next page,
    # so that they share a commit with more chunks.
    return commits[:-1] if len(page) == PAGE_SIZE and len(commits) > 1 else commits


async def _apply(
    changes: Sequence[IndexChange], indexing: Indexing, ctx: Context, budget: Budget, report: Report
) -> None:
    """Commit changes. If the database refuses them, find those that it refuses.

    A chunk that was edited since it was read stays pending. A chunk is deferred if its change is
    refused for another reason, or if Google's client cannot encode it as a request (`ValueError`).
    If the database also refuses the write that defers the chunk, the chunk is not the cause, and
    the run ends.
    """
    refusals = (WriteConflict, PlatformFault, ValueError)
    async for batch, outcome in bisect_batch(changes, indexing.apply, refusals):
        if outcome is None:
            report.counts["indexed"] += len(batch)
            budget.progress(len(batch))
        elif not isinstance(outcome, WriteConflict):
            await defer_chunk(STEP, batch[0].pending, f"was refused: {outcome}", ctx, report)


def _build_change(chunk: ChunkToIndex) -> IndexChange | str:
    """Return the change to the index for a chunk, or why the chunk cannot be indexed."""
    if chunk.fault:
        return chunk.fault
    if chunk.chunk is None:
        return plan_indexing(chunk, NOT_INDEXED)
    try:
        return plan_indexing(chunk, compute_indexed_state(chunk.chunk))
    except (AttributeError, TypeError, ValueError) as error:
        return f"the document is malformed: {error!r}"


async def count_pending(ctx: Context) -> int:
    """Count the chunks that are waiting to be indexed."""
    return await ChunkQueue(ctx.database).count_pending(STEP)


JOB = Job(
    name="index",
    title="Index words and facets",
    run=index,
    total=count_pending,
    schedule="5-59/15 * * * *",  # At these minutes, no other job starts.
    dead_letters=make_dead_letters(STEP),
    settings=("embedding_provider",),
)
