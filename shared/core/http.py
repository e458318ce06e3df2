"""Parses headers, reads bodies up to a limit and retries requests, for HTTP clients and servers.

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
"""How many seconds a caller is asked to wait if the service asks for none."""
MAX_RETRY_AFTER: Final = 3_600.0
"""The maximum number of seconds that a caller is asked to wait."""
_MIN_BACKOFF: Final = 0.25
"""The first pause between attempts, in seconds. Each further pause is twice as long."""
_MAX_BACKOFF: Final = 8.0
"""The longest pause between attempts, in seconds, besides the time that the service asks for."""
_SECONDS_PATTERN: Final = re.compile(r"\d{1,9}", re.ASCII)
"""A number of seconds, up to 31 years. A longer number counts as malformed."""


def parse_media_type(content_type: str | None) -> str:
    """Return the media type of a Content-Type header, in lower case and without parameters."""
    return (content_type or "").partition(";")[0].strip().lower()


async def read_limited(body: AsyncIterable[bytes], limit: int) -> bytes | None:
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
    """Repeat an attempt until it succeeds or fails for good, or no time is left for a pause.

    Pauses double from a quarter of a second to eight seconds, with jitter. If the service asks to
    wait, that time is added to the pause.

    Args:
        attempt: Makes one attempt. Only `Unavailable` and `RateLimited` lead to another attempt.
        deadline: The time on the event loop's clock by which the last pause must end. An attempt
            may take longer.

    Raises:
        Unavailable: The last attempt raised it. `retry_after` is set.
        RateLimited: The last attempt raised it. `retry_after` is set.
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
    """Parse a Retry-After header, which is a number or a date (RFC 9110, 10.2.3), into seconds.

    Returns:
        At least 0 and at most MAX_RETRY_AFTER seconds, or None if the header is malformed.
    """
    if _SECONDS_PATTERN.fullmatch(header):
        return min(float(header), MAX_RETRY_AFTER)
    from email.utils import parsedate_to_datetime  # imported here, because dates are rare

    try:
        date = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    # For the zone -0000, which means UTC, the parser returns a date without a time zone.
    seconds = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
    return min(max(0.0, seconds), MAX_RETRY_AFTER)
