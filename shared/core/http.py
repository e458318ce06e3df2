"""What all our HTTP clients and servers need: headers, bodies of bounded size, retries.

The pauses between retries are those of "Exponential Backoff And Jitter", Marc Brooker, AWS
Architecture Blog, 2015.
"""

from __future__ import annotations

import asyncio
import random
import re
from datetime import UTC
from typing import TYPE_CHECKING, Final, TypeVar

from shared.core.errors import RateLimited, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable
    from datetime import datetime

Answer = TypeVar("Answer")

DEFAULT_RETRY_AFTER: Final = 10.0
"""Seconds to suggest to a caller when the service didn't say."""
MAX_RETRY_AFTER: Final = 3_600.0
"""Seconds; a service that asks for more is told to a caller as asking for this."""
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 8.0
_SECONDS: Final = re.compile(r"\d{1,9}", re.ASCII)


def media_type(content_type: str | None) -> str:
    """The media type of a Content-Type header, in lower case, without its parameters."""
    return (content_type or "").partition(";")[0].strip().lower()


async def read_at_most(limit: int, body: AsyncIterable[bytes]) -> bytes | None:
    """A body that comes piece by piece; None as soon as it is longer than `limit` bytes."""
    content = bytearray()
    async for piece in body:
        content += piece
        if len(content) > limit:
            return None
    return bytes(content)


async def retry_with_backoff(
    attempt: Callable[[], Awaitable[Answer]], *, deadline: float
) -> Answer:
    """Attempt a call until it succeeds, fails for good, or the next pause would pass the deadline.

    Pauses double from a quarter of a second to eight, with jitter, on top of what Retry-After asks.

    Args:
        attempt: One call; only its `Unavailable` and `RateLimited` are worth another.
        deadline: When to stop, on the event loop's clock. An attempt must keep to it by itself.

    Raises:
        Unavailable: That of the last attempt, with a `parse_retry_after`.
        RateLimited: Likewise.
    """
    backoff = _FIRST_PAUSE
    while True:
        try:
            return await attempt()
        except (Unavailable, RateLimited) as failure:
            pause = (failure.retry_after or 0) + backoff * random.uniform(0.5, 1)  # noqa: S311 - jitter
            if asyncio.get_running_loop().time() + pause > deadline:
                failure.retry_after = failure.retry_after or DEFAULT_RETRY_AFTER
                raise
        await asyncio.sleep(pause)
        backoff = min(2 * backoff, _LONGEST_PAUSE)


def parse_retry_after(header: str, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks for: a number or a date (RFC 9110, 10.2.3)."""
    if _SECONDS.fullmatch(header):
        return min(float(header), MAX_RETRY_AFTER)
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    seconds = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    return min(max(0.0, seconds), MAX_RETRY_AFTER)
