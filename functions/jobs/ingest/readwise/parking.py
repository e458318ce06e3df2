"""Books that could not be read five times: for `carrel jobs show` and `carrel jobs retry`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.knowledge.readwise_sync import ReadwiseSync
from shared.runtime.job import Failure, Parking

if TYPE_CHECKING:
    from shared.runtime.context import Context


async def parked(ctx: Context, limit: int) -> list[Failure]:
    """Some of the books that are not tried any more until they change."""
    found = await ReadwiseSync(ctx.database).parked()
    return [Failure(f"Readwise: {each.name}", each.reason) for each in found[:limit]]


async def retry(ctx: Context) -> int:
    """Have them tried again; tell how many there are."""
    return await ReadwiseSync(ctx.database).retry()


PARKING = Parking(parked=parked, retry=retry)
