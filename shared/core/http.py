"""Helpers for HTTP clients and servers: headers, bodies of limited size, retries.

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

AnswerT = TypeVar("AnswerT")

DEFAULT_RETRY_AFTER: Final = 10.0
"""Seconds that a caller is asked to wait if the service does not say."""
MAX_RETRY_AFTER: Final = 3_600.0
"""Seconds that a caller is asked to wait at most, even if the service asks for more."""
_MIN_BACKOFF: Final = 0.25
_MAX_BACKOFF: Final = 8.0
_SECONDS: Final = re.compile(r"\d{1,9}", re.ASCII)


def media_type(content_type: str | None) -> str:
    """Return the media type in a Content-Type header, in lower case, without parameters."""
    return (content_type or "").partition(";")[0].strip().lower()


async def read_at_most(limit: int, body: AsyncIterable[bytes]) -> bytes | None:
    """Read a streamed body, or return None once it is longer than `limit` bytes."""
    content = bytearray()
    async for block in body:
        content += block
        if len(content) > limit:
            return None
    return bytes(content)


async def retry_with_backoff(
    attempt: Callable[[], Awaitable[AnswerT]], *, deadline: float
) -> AnswerT:
    """Repeat a call until it succeeds, fails for good, or the deadline leaves no time for a pause.

    Pauses double from a quarter of a second to eight, with jitter, in addition to Retry-After.

    Args:
        attempt: Makes one call. It is repeated after `Unavailable` and `RateLimited` only.
        deadline: When to stop, on the event loop's clock. An attempt must respect it itself.

    Raises:
        Unavailable: The error of the last attempt, with a `retry_after`.
        RateLimited: Likewise.
    """
    backoff = _MIN_BACKOFF
    while True:
        try:
            return await attempt()
        except (Unavailable, RateLimited) as failure:
            pause = (failure.retry_after or 0) + backoff * random.uniform(0.5, 1)  # noqa: S311 - jitter
            if asyncio.get_running_loop().time() + pause > deadline:
                failure.retry_after = failure.retry_after or DEFAULT_RETRY_AFTER
                raise
        await asyncio.sleep(pause)
        backoff = min(2 * backoff, _MAX_BACKOFF)


def parse_retry_after(header: str, now: datetime) -> float | None:
    """Parse a Retry-After header, a number or a date (RFC 9110, 10.2.3), into seconds."""
    if _SECONDS.fullmatch(header):
        return min(float(header), MAX_RETRY_AFTER)
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    seconds = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    return min(max(0.0, seconds), MAX_RETRY_AFTER)
