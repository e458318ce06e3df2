"""Time limits and concurrency of calls to a provider."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from shared.ai.embedding import Purpose

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

AnswerT = TypeVar("AnswerT")

QUERY_SECONDS: Final = 5.0
"""A search waits at most this many seconds for the vector of its query. A whole search may take
ten."""
ATTEMPTS_IN_TIME: Final = 3
"""The time limit of an attempt is the whole time limit divided by this, so that there is time for
retries even if an attempt hangs."""


def compute_deadline(purpose: Purpose, time_limit: float) -> float:
    """Return when to give up, on the event loop's clock.

    Args:
        purpose: What the vectors are for. A query has at most `QUERY_SECONDS`.
    """
    seconds = min(time_limit, QUERY_SECONDS) if purpose is Purpose.QUERY else time_limit
    return asyncio.get_running_loop().time() + seconds


async def run_concurrently(calls: Iterable[Coroutine[Any, Any, AnswerT]]) -> list[AnswerT]:
    """Run calls concurrently. The first failure cancels the others and is raised alone."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
