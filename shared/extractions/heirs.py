"""What takes the place of extractions that went."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from shared.extractions.upkeep import ExtractionUpkeep

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report


async def show_heirs(ctx: Context, budget: Budget, report: Report) -> None:
    """Of what repeats an extraction that is gone, show the surest in its place.

    Each job that removes extractions ends with it. Nothing to do costs one read.
    """
    while (done := await ExtractionUpkeep(ctx.database).settle())["settled"]:
        report.counts += Counter(shown=done["shown"])
        if budget.spent:
            report.finished = False
            return
