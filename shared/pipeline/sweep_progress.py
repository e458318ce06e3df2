"""`meta/{job}`: how far rounds have come that a job makes through all of something, now and then.

A round looks at everything once, page by page and over as many runs as it takes. It finds what no
query can: what should not be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from shared.firestore.database import Database


class SweepProgress:
    """Remembers the rounds of one job."""

    def __init__(self, database: Database, job: str) -> None:
        """Keep them in this database."""
        self._database = database
        self._reference = database.document("meta", job)

    async def due(self, name: str, now: datetime, every: timedelta) -> str | None:
        """After which place a round is to go on. One round trip.

        Returns:
            The place that was reached last; empty at the beginning of a round; None while the next
            round is not due.
        """
        found: dict[str, Any] = (await self._state()).get(name, {})
        if found.get("after"):
            return str(found["after"])
        ended = found.get("ended_at")
        return None if ended and now - ended < every else ""

    async def reached(self, name: str, place: str) -> None:
        """Say up to where a round has come."""
        await self._say({name: {"after": place}})

    async def ended(self, name: str, now: datetime) -> None:
        """Say that a round is complete."""
        await self._say({name: {"after": "", "ended_at": now}})

    async def _state(self) -> dict[str, Any]:
        return (await self._database.get(self._reference)).to_dict() or {}

    async def _say(self, change: dict[str, Any]) -> None:
        await self._database.commit([lambda batch: batch.set(self._reference, change, merge=True)])
