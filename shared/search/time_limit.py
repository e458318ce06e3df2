"""A part of a search that the rest can do without."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")


async def in_time(part: Awaitable[T], seconds: float | None) -> T | None:
    """The result of a part of a search; None if it takes longer than `seconds` (None: no limit)."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await part
    except TimeoutError:
        if not limit.expired():
            raise
        return None
