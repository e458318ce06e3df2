"""Calls to a provider: several at once, and given up in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

from shared.ai.embedding import Purpose

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

Answer = TypeVar("Answer")

QUERY_SECONDS: Final = 5.0
"""How long a query waits for its vector: a search has ten seconds, and can go on by words alone."""
ATTEMPTS_IN_TIME: Final = 3
"""How many attempts that hang fit into the time limit: a dead connection must not eat it all."""


def deadline_for(purpose: Purpose, time_limit: float) -> float:
    """When to give up, on the event loop's clock; a query is never given more than its seconds."""
    seconds = min(time_limit, QUERY_SECONDS) if purpose is Purpose.QUERY else time_limit
    return asyncio.get_running_loop().time() + seconds


async def concurrently(calls: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """Await them all at once; the first failure ends the others, and is raised alone."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
