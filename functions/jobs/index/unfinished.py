"""Complete what calls of `forget` left unfinished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shared.firestore.database import WriteConflict
from shared.knowledge.forgotten_repository import ForgottenSources
from shared.pipeline.forgetting import PAGE, MovedElsewhere, SourceMove
from shared.pipeline.worker import run_isolated

if TYPE_CHECKING:
    from shared.knowledge.forgotten_repository import ForgottenSource
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report


async def finish_unfinished(ctx: Context, budget: Budget, report: Report) -> None:
    """Complete what calls left unfinished. Costs one read if there is nothing to do."""
    for record, update_time in await ForgottenSources(ctx.database).unfinished(PAGE):
        work = _finish(record, update_time, ctx, budget, report)
        await run_isolated(f"sources/{record.source_id}", work, ctx, report)
        if budget.spent:
            report.finished = False
            return


async def _finish(
    record: ForgottenSource, update_time: Any, ctx: Context, budget: Budget, report: Report
) -> None:
    move = SourceMove(ctx.database, record.source_id, update_time)
    try:
        async for moved in move.complete(record, ctx.clock()):
            report.counts["moved"] += moved.chunks
            if budget.spent:
                return
    except (MovedElsewhere, WriteConflict):
        return  # A call completes it.
