"""Keep the lists that search reads: which chunks hold a term, which bear a facet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from functions.jobs.index.commits import commits
from shared.core.bisection import bisect
from shared.core.errors import PlatformFault
from shared.extractions.upkeep import promote_duplicates
from shared.firestore.database import WriteConflict
from shared.index.analysis import indexed_state
from shared.index.indexed_state import NOT_INDEXED
from shared.index.posting_changes import PostingsTruncation
from shared.index.postings import KNOWLEDGE, TRACES
from shared.index.truncation import truncation_policies
from shared.knowledge.queue import ChunkQueue
from shared.pipeline.indexing import STEP, IndexChange, Indexing
from shared.pipeline.worker import dead_lettered_chunks, defer_chunk
from shared.runtime.job import Job, Report
from shared.text.terms import ANALYZER_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.pipeline.indexing import ChunkToIndex
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

PAGE: Final = 300
"""How many pending chunks are read at once. The more share a commit, the fewer writes: a list is
written once for all of them."""
AT_ONCE: Final = 100
"""Long lists of a kind that are cut in a run."""


async def index(ctx: Context, budget: Budget) -> Report:
    """Index what waits, with postings cut at their usual length."""
    return await index_with(Indexing(ctx.database), ctx, budget)


async def index_with(indexing: Indexing, ctx: Context, budget: Budget) -> Report:
    """Index pending chunks, and take out deleted ones, commit by commit.

    A commit holds the chunks' marks and all that they change in the lists: killed anywhere, the
    next run goes on with what is left. When the analysis of texts changes, everything is indexed
    again. What repeats an extraction that went with a chunk is shown in its place.
    """
    report = Report()
    await _follow_analysis(indexing, ctx)
    await _shorten_traces(ctx, report)
    while not budget.spent:
        page = await indexing.pending(ctx.clock(), PAGE)
        if not page:
            await promote_duplicates(ctx, budget, report)
            return report
        for commit in await _commits(page, ctx, report):
            await _apply(commit, indexing, ctx, budget, report)
    report.finished = False
    return report


async def _follow_analysis(indexing: Indexing, ctx: Context) -> None:
    """Once texts are analysed in another way, all of them must be."""
    found = await indexing.analysis()
    if found == ANALYZER_VERSION:
        return
    if found is not None:
        await indexing.requeue(ctx.clock())
    await indexing.stamp(ANALYZER_VERSION)


async def _shorten_traces(ctx: Context, report: Report) -> None:
    """Cut what has grown too long of the lists that traces write themselves, some in each run."""
    lists = PostingsTruncation(ctx.database, TRACES)
    overlong = await lists.overlong(AT_ONCE)
    await lists.shorten(overlong, truncation_policies(TRACES))
    if overlong:
        report.counts["shortened"] += len(overlong)


async def _commits(
    page: Sequence[ChunkToIndex], ctx: Context, report: Report
) -> list[list[IndexChange]]:
    """What to commit of a page. What cannot be indexed is put off."""
    found = await asyncio.to_thread(list, map(_change, page))
    for waiting, change in zip(page, found, strict=True):
        if isinstance(change, str):
            await defer_chunk(STEP, waiting, change, ctx, report)
    cut = list(commits([change for change in found if isinstance(change, IndexChange)]))
    # The rest of a full page is read again with the next one: it shares lists with those chunks.
    return cut[:-1] if len(page) == PAGE and len(cut) > 1 else cut


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
        if isinstance(outcome, list):
            await indexing.long_lists.shorten(outcome, truncation_policies(KNOWLEDGE))
            report.counts["indexed"] += len(batch)
            budget.progress(len(batch))
        elif not isinstance(outcome, WriteConflict):
            await defer_chunk(STEP, batch[0].waiting, f"was refused: {outcome}", ctx, report)


def _change(waiting: ChunkToIndex) -> IndexChange | str:
    """What the lists are to know of a chunk, or why it cannot be said."""
    if waiting.fault:
        return waiting.fault
    if waiting.chunk is None:
        return IndexChange(waiting, NOT_INDEXED)
    try:
        return IndexChange(waiting, indexed_state(waiting.chunk))
    except (AttributeError, TypeError, ValueError) as error:
        return f"is no chunk as they are stored: {error!r}"


async def waiting(ctx: Context) -> int:
    """How many chunks wait to be indexed."""
    return await ChunkQueue(ctx.database).count_pending(STEP)


JOB = Job(
    name="index",
    title="Index words and facets",
    run=index,
    total=waiting,
    schedule="5-59/15 * * * *",
    dead_letters=dead_lettered_chunks(STEP),
)
