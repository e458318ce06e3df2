"""Rounds through all of something, once a week: what should not be there, no query finds."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.pipeline.sweeps import Rounds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.runtime.context import Deps
    from shared.runtime.job import Budget, Report

    Look = Callable[[str], Awaitable[str | None]]
    """Looks at the page after a place; returns where it ends, or None where nothing is left."""

EVERY: Final = timedelta(days=6, hours=12)
"""Between two rounds: every seventh night, even if one is a little early."""


async def go_round(name: str, look: Look, deps: Deps, budget: Budget, report: Report) -> None:
    """Go on with a round, or begin one if it is time, page by page."""
    rounds = Rounds(deps.database, "purge")
    place = await rounds.due(name, deps.clock(), EVERY)
    while place is not None:
        reached = await look(place)
        if reached is None:
            if place:
                await rounds.ended(name, deps.clock())
            return
        await rounds.reached(name, reached)
        place = reached
        if budget.spent:
            report.finished = False
            return
