"""A sweep deletes one kind of what nobody needs any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.runtime.context import Deps
    from shared.runtime.job import Budget, Report


@dataclass(frozen=True, slots=True)
class Sweep:
    """A part of the job.

    Attributes:
        name: What it deletes.
        run: Deletes in small commits until nothing is left or the budget is spent; says the latter
            in the report.
        waiting: How many items it would deal with now; None of one that has to look for them.
    """

    name: str
    run: Callable[[Deps, Budget, Report], Awaitable[None]]
    waiting: Callable[[Deps], Awaitable[int]] | None = None
