"""`meta/{job}`: the progress of the rounds of a job.

A round reads a whole collection, page by page and over as many runs as it takes, to find what no
query can find, such as orphaned documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from shared.firestore.database import Database


class SweepProgress:
    """Stores the progress of the rounds of one job."""

    def __init__(self, database: Database, job: str) -> None:
        """Use this database."""
        self._database = database
        self._reference = database.document("meta", job)

    async def due(self, name: str, now: datetime, every: timedelta) -> str | None:
        """Load the position after which to continue a round. One round trip.

        Returns:
            The last position; empty at the beginning of a round; None while no round is due.
        """
        state: dict[str, Any] = (await self._state()).get(name, {})
        if state.get("after"):
            return str(state["after"])
        ended = state.get("ended_at")
        return None if ended and now - ended < every else ""

    async def reached(self, name: str, position: str) -> None:
        """Store the position of a round."""
        await self._merge({name: {"after": position}})

    async def ended(self, name: str, now: datetime) -> None:
        """Store that a round is complete."""
        await self._merge({name: {"after": "", "ended_at": now}})

    async def _state(self) -> dict[str, Any]:
        return (await self._database.get(self._reference)).to_dict() or {}

    async def _merge(self, change: dict[str, Any]) -> None:
        await self._database.commit([lambda batch: batch.set(self._reference, change, merge=True)])
