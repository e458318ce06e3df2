"""`limits/{limit_id}`: the token buckets that all instances draw on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.accounts.token_bucket import Bucket
from shared.firestore.writes import put_if_unchanged

if TYPE_CHECKING:
    from datetime import datetime

    from google.cloud.firestore import AsyncDocumentReference

    from shared.accounts.token_bucket import Leased, Rate
    from shared.firestore.database import Database

_FULL_AT: Final = "expires_at"
"""When a bucket is full again, it is like one that was never used: its document may go."""


class Limits:
    """Leases tokens."""

    def __init__(self, database: Database) -> None:
        """Keep the buckets in this database."""
        self._database = database

    async def lease(self, limit_id: str, rate: Rate, now: datetime) -> Leased:
        """Take a block of tokens, or what there is: one read, and one write if there is any.

        A lease whose answer is lost on the way is taken again, so that it costs the caller a block.
        """
        reference = self._database.document("limits", limit_id)
        return await self._database.retry_on_conflict(lambda: self._attempt(reference, rate, now))

    async def _attempt(
        self, reference: AsyncDocumentReference, rate: Rate, now: datetime
    ) -> Leased:
        seen = await self._database.get(reference)
        bucket = Bucket(rate, seen.get(_FULL_AT)) if seen.exists else Bucket(rate)
        leased, rest = bucket.lease(now)
        if leased.tokens:
            await self._database.commit([put_if_unchanged(seen, {_FULL_AT: rest.full_at})])
        return leased
