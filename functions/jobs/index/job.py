"""Maintain the inverted index that search reads: the postings of terms and facets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from functions.jobs.index.commits import split_commits
from functions.jobs.index.unfinished import finish_unfinished
from shared.core.bisection import bisect
from shared.core.errors import PlatformFault
from shared.extractions.upkeep import promote_duplicates
from shared.firestore.database import WriteConflict
from shared.index.bm25 import CAP
from shared.index.indexed_state import NOT_INDEXED, indexed_state
from shared.index.posting_changes import SLACK, PostingsTruncation
from shared.index.postings import KNOWLEDGE, TRACES
from shared.knowledge.queue import ChunkQueue
from shared.pipeline.indexing import INDEX_VERSION, STEP, IndexChange, Indexing
from shared.pipeline.worker import dead_lettered_chunks, defer_chunk
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.pipeline.indexing import ChunkToIndex
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

PAGE: Final = 300
"""Pending chunks are read in pages of this size. The more chunks share a commit, the fewer writes:
postings are written once for all of them."""
MAX_TRUNCATED: Final = 200
"""At most this many overlong postings of each kind are truncated before a page. A page adds some
30,000 entries, which make about 120 postings overlong again."""


async def index(ctx: Context, budget: Budget) -> Report:
    """Index pending chunks, with the usual limits of postings."""
    return await index_with(Indexing(ctx.database), ctx, budget)


async def index_with(
    indexing: Indexing, ctx: Context, budget: Budget, cap: int = CAP, slack: int = SLACK
) -> Report:
    """Index pending chunks, and remove deleted ones, commit by commit.

    Postings of both corpora that have `cap + slack` entries are truncated to `cap`, those that
    others have made so long included.

    A commit has the indexed state of some chunks and all that changes in their postings: the next
    run continues where one was killed. When INDEX_VERSION has changed, everything is indexed again.
    A duplicate of an extraction that was deleted with its chunk is shown instead of it. The job
    also completes the forgetting of sources that took a call too long.
    """
    report = Report()
    await _follow_version(indexing, ctx)
    await finish_unfinished(ctx, budget, report)
    truncations = [
        PostingsTruncation(ctx.database, names, cap, slack) for names in (KNOWLEDGE, TRACES)
    ]
    while not budget.spent:
        for truncation in truncations:
            await _truncate(truncation, report)
        page = await indexing.pending(ctx.clock(), PAGE)
        if not page:
            await promote_duplicates(ctx, budget, report)
            return report
        for commit in await _commits(page, ctx, report):
            await _apply(commit, indexing, ctx, budget, report)
    report.finished = False
    return report


async def _follow_version(indexing: Indexing, ctx: Context) -> None:
    """Queue all chunks again if the index was made with another version."""
    version = await indexing.version()
    if version == INDEX_VERSION:
        return
    if version:
        await indexing.requeue(ctx.clock())
    await indexing.save_version(INDEX_VERSION)


async def _truncate(truncation: PostingsTruncation, report: Report) -> None:
    """Truncate the overlong postings of a corpus."""
    overlong = await truncation.overlong(MAX_TRUNCATED)
    await truncation.truncate(overlong)
    if overlong:
        report.counts["shortened"] += len(overlong)


async def _commits(
    page: Sequence[ChunkToIndex], ctx: Context, report: Report
) -> list[list[IndexChange]]:
    """Return the commits of a page; a chunk that cannot be indexed is deferred."""
    changes = await asyncio.to_thread(list, map(_change, page))
    for chunk, change in zip(page, changes, strict=True):
        if isinstance(change, str):
            await defer_chunk(STEP, chunk, change, ctx, report)
    valid = [change for change in changes if isinstance(change, IndexChange)]
    commits = list(split_commits(valid))
    # The last commit of a full page is read again with the next one, to share postings with it.
    return commits[:-1] if len(page) == PAGE and len(commits) > 1 else commits


async def _apply(
    changes: Sequence[IndexChange], indexing: Indexing, ctx: Context, budget: Budget, report: Report
) -> None:
    """Commit changes, and find those that the database refuses.

    A chunk that was edited since it was read stays pending. One that is refused for another reason,
    or of which Google's client cannot make a request (`ValueError`), is deferred; if the database
    refuses that write too, no chunk is at fault and the run ends.
    """
    refusal = (WriteConflict, PlatformFault, ValueError)
    async for batch, outcome in bisect(changes, indexing.apply, refusal):
        if outcome is None:
            report.counts["indexed"] += len(batch)
            budget.progress(len(batch))
        elif not isinstance(outcome, WriteConflict):
            await defer_chunk(STEP, batch[0].pending, f"was refused: {outcome}", ctx, report)


def _change(pending: ChunkToIndex) -> IndexChange | str:
    """Return the changes of the index for a chunk, or the reason why it cannot be indexed."""
    if pending.fault:
        return pending.fault
    if pending.chunk is None:
        return IndexChange(pending, NOT_INDEXED)
    try:
        return IndexChange(pending, indexed_state(pending.chunk))
    except (AttributeError, TypeError, ValueError) as error:
        return f"the document is malformed: {error!r}"


async def count_pending(ctx: Context) -> int:
    """Count the chunks that wait to be indexed."""
    return await ChunkQueue(ctx.database).count_pending(STEP)


JOB = Job(
    name="index",
    title="Index words and facets",
    run=index,
    total=count_pending,
    schedule="5-59/15 * * * *",
    dead_letters=dead_lettered_chunks(STEP),
)
