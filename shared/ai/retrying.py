"""Calls to a service that embeds: several at once, tried again with backoff, given up in time.

The pauses are those of "Exponential Backoff And Jitter", Marc Brooker, AWS Architecture Blog, 2015.
"""

from __future__ import annotations

import asyncio
import random
import re
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, TypeVar

from shared.ai.embedding import Purpose
from shared.core.errors import RateLimited, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable
    from datetime import datetime

Answer = TypeVar("Answer")

QUERY_SECONDS: Final = 5.0
"""How long a query waits for its vector: a search has ten seconds, and can go on by words alone."""
ATTEMPTS_IN_TIME: Final = 3
"""How many attempts that hang fit into the time limit: a dead connection must not eat it all."""
RETRY_AFTER: Final = 10.0
"""Seconds to suggest to a caller when the service didn't say."""
LONGEST_WAIT: Final = 3_600.0
"""Seconds; a service that asks for more is told to a caller as asking for this."""

_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 8.0
_SECONDS = re.compile(r"\d{1,9}", re.ASCII)


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


async def retry_with_backoff(
    attempt: Callable[[], Awaitable[Answer]], *, deadline: float
) -> Answer:
    """Attempt a call until it succeeds, fails for good, or the next pause would pass the deadline.

    Pauses double from a quarter of a second to eight, with jitter, on top of what Retry-After asks.

    Args:
        attempt: One call; only its `Unavailable` and `RateLimited` are worth another.
        deadline: When to stop, on the event loop's clock. An attempt must keep to it by itself.

    Raises:
        Unavailable: That of the last attempt, with a `retry_after`.
        RateLimited: Likewise.
    """
    backoff = _FIRST_PAUSE
    while True:
        try:
            return await attempt()
        except (Unavailable, RateLimited) as failure:
            pause = (failure.retry_after or 0) + backoff * random.uniform(0.5, 1)  # noqa: S311 - jitter
            if asyncio.get_running_loop().time() + pause > deadline:
                failure.retry_after = failure.retry_after or RETRY_AFTER
                raise
        await asyncio.sleep(pause)
        backoff = min(2 * backoff, _LONGEST_PAUSE)


def retry_after(header: str, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks for: a number or a date (RFC 9110, 10.2.3)."""
    if _SECONDS.fullmatch(header):
        return min(float(header), LONGEST_WAIT)
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    seconds = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    return min(max(0.0, seconds), LONGEST_WAIT)
