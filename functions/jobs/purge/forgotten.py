"""Deletes sources and chunks for good 30 days after they were forgotten.

The records of who forgot them, when and why stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from functions.jobs.purge.sweep import Sweep
from shared.pipeline.forgotten_expiry import ForgottenContents

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report


async def delete_forgotten(ctx: Context, budget: Budget, report: Report) -> None:
    """Delete the texts of chunks and sources that can no longer be restored, in small commits."""
    async for deleted in ForgottenContents(ctx.database).delete_expired(ctx.clock()):
        report.counts["forgotten"] += deleted
        if budget.spent:
            report.finished = False
            return


async def _count_forgotten(ctx: Context) -> int:
    return await ForgottenContents(ctx.database).count_expired(ctx.clock())


FORGOTTEN: Final = Sweep("forgotten", delete_forgotten, _count_forgotten)
