"""Completes calls of `forget` and `edit_source` that ran out of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shared.firestore.database import WriteConflict
from shared.knowledge.forgotten_repository import ForgottenSources
from shared.pipeline.worker import run_isolated
from shared.writer.source_editing import SourceEditing
from shared.writer.source_move import MovedElsewhere, SourceMove

if TYPE_CHECKING:
    from shared.knowledge.forgotten_repository import ForgottenSource
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

MAX_MOVES: Final = 25
"""The maximum number of sources that a run completes to forget or restore."""
MAX_EDITS: Final = 300
"""The maximum number of sources whose edits a run completes."""


async def finish_interrupted_calls(ctx: Context, budget: Budget, report: Report) -> None:
    """Complete calls of `forget` and `edit_source`. Costs two reads if none ran out of time."""
    await _finish_moves(ctx, budget, report)
    await _finish_edits(ctx, budget, report)


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
