"""Chunks on which a step failed too often, as a job shows and retries them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.knowledge.queue import Steps
from shared.runtime.job import Failure, Parking

if TYPE_CHECKING:
    from shared.runtime.context import Deps


def parked_chunks(step: str) -> Parking:
    """The parking of the job that does this step."""

    async def parked(deps: Deps, limit: int) -> list[Failure]:
        found = await Steps(deps.database).parked(step, limit)
        return [Failure(each.chunk_id, each.reason) for each in found]

    async def retry(deps: Deps) -> int:
        return await Steps(deps.database).retry(step, deps.clock())

    return Parking(parked=parked, retry=retry)
