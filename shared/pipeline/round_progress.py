"""`meta/{job}`: the progress of a job's rounds through whole collections.

A round reads a whole collection page by page, over as many runs as necessary, to find documents
that no query can find, such as orphaned chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from shared.firestore.database import Database


class RoundProgress:
    """Stores the progress of the rounds of one job."""

    def __init__(self, database: Database, job: str) -> None:
        """Store the database client. Nothing is read yet."""
        self._database = database
        self._reference = database.document("meta", job)

    async def load_position(self, name: str, now: datetime, interval: timedelta) -> str | None:
        """Load the position after which a round continues. Costs one round trip.

        Args:
            name: The name of the round.
            now: The present time.
            interval: The minimum time between the end of a round and the start of the next.

        Returns:
            The last position, an empty string to start a round, or None if no round is due.
        """
        state: dict[str, Any] = (await self._load_state()).get(name, {})
        if state.get("after"):
            return str(state["after"])
        ended = state.get("ended_at")
        return None if ended and now - ended < interval else ""

    async def save_position(self, name: str, position: str) -> None:
        """Store the position that a round has reached."""
        await self._merge({name: {"after": position}})

    async def complete(self, name: str, now: datetime) -> None:
        """Record that a round is complete."""
        await self._merge({name: {"after": "", "ended_at": now}})

    async def _load_state(self) -> dict[str, Any]:
        return (await self._database.get(self._reference)).to_dict() or {}

    async def _merge(self, change: dict[str, Any]) -> None:
        await self._database.commit([lambda batch: batch.set(self._reference, change, merge=True)])
