"""Makes what a job needs to run in the test's process: a context, and a budget.

A budget is the time that a run has. A job asks it between steps whether the time is spent.
"""

import math
import time
from collections.abc import Awaitable, Callable

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Job, Report


def make_job_context(app: App) -> Context:
    """Make the context of a job run, which has no user."""
    return app.context(Caller(), Meter())


def make_job(
    run: Callable[[Context, Budget], Awaitable[Report]],
    name: str = "dusting",
    timeout: float = 60.0,
) -> Job:
    """Make a job with this run, and with this time in seconds. Nothing is pending."""

    async def count_none(_context: Context) -> int:
        return 0

    return Job(
        name=name, title="Dust the shelves", run=run, total=count_none, schedule="", timeout=timeout
    )


def make_ample_budget() -> Budget:
    """Make a budget of an hour, which is more than a test needs."""
    return Budget(time.monotonic() + 3600)


def make_brief_budget() -> Budget:
    """Make a budget of half a second, which is too short to wait for other processes."""
    return Budget(time.monotonic() + 0.5)


def make_spent_budget() -> Budget:
    """Make a budget that is already spent."""
    return Budget(-math.inf)


def make_one_step_budget(on_progress: Callable[[int], None] = lambda _: None) -> Budget:
    """Make a budget that is spent when the job reports its first progress.

    Args:
        on_progress: A function that is called with each reported number.
    """
    reports: list[int] = []

    def record_progress(count: int) -> None:
        reports.append(count)
        on_progress(count)

    class OneStepBudget(Budget):
        @property
        def spent(self) -> bool:
            return bool(reports)

    return OneStepBudget(math.inf, record_progress)


def make_hasty_budget() -> Budget:
    """Make a budget whose time is over but that says it is not spent.

    So a job begins a step, and has no time to complete it.
    """

    class HastyBudget(Budget):
        @property
        def spent(self) -> bool:
            return False

    return HastyBudget(-math.inf)
