"""Remove extractions that hang on no chunk, and show what repeated one that is gone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from functions.jobs.purge.rounds import go_round
from functions.jobs.purge.sweep import Sweep
from shared.extractions.heirs import show_heirs
from shared.extractions.upkeep import ExtractionUpkeep

if TYPE_CHECKING:
    from shared.runtime.context import Deps
    from shared.runtime.job import Budget, Report


async def _count_gone(deps: Deps) -> int:
    return await ExtractionUpkeep(deps.database).count()


async def forget_topics(deps: Deps, budget: Budget, report: Report) -> None:
    """Delete topics of which nothing is left."""
    upkeep = ExtractionUpkeep(deps.database)
    while forgotten := await upkeep.forget_empty_topics():
        report.counts += Counter(topics=forgotten)
        if budget.spent:
            report.finished = False
            return


async def remove_orphans(deps: Deps, budget: Budget, report: Report) -> None:
    """Look at every extraction once a week: one read for it, and one for its chunk."""
    upkeep = ExtractionUpkeep(deps.database)

    async def look(place: str) -> str | None:
        page = await upkeep.page(place)
        removed = await upkeep.remove(await upkeep.orphans(page))
        report.counts += Counter(extractions=removed)
        return page[-1].id if page else None

    await go_round("extractions", look, deps, budget, report)


DUPLICATES: Final = Sweep("duplicates", show_heirs, _count_gone)
TOPICS: Final = Sweep("topics", forget_topics)
EXTRACTIONS: Final = Sweep("extractions", remove_orphans)
