"""The token buckets of rate limits in Firestore: `limits/{limit_id}`.

All instances of the gateway share them (`shared.accounts.token_bucket`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.accounts.token_bucket import TokenBucket
from shared.firestore.documents import Reference
from shared.firestore.writes import put_if_unchanged

if TYPE_CHECKING:
    from datetime import datetime

    from shared.accounts.token_bucket import Rate, TokenLease
    from shared.firestore.database import Database

COLLECTION: Final = "limits"
_FULL_AT: Final = "expires_at"
"""A bucket's `full_at` is stored in this field, by which Firestore deletes expired documents. A
full bucket may be deleted, because it equals a new one."""


class Limits:
    """Leases tokens from stored buckets."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lease(self, limit_id: str, rate: Rate, now: datetime) -> TokenLease:
        """Lease a block of tokens, or fewer if the bucket has fewer.

        Costs one read and at most one write. If the response is lost, another block is leased, and
        the tokens of the lost block are not returned.
        """
        reference = Reference(COLLECTION, limit_id)
        return await self._database.retry_on_conflict(lambda: self._attempt(reference, rate, now))

    async def _attempt(self, reference: Reference, rate: Rate, now: datetime) -> TokenLease:
        """Lease tokens, unless another instance is faster.

        Raises:
            WriteConflict: The bucket has changed since it was read.
        """
        snapshot = await self._database.get(reference)
        bucket = TokenBucket(rate, snapshot.get(_FULL_AT)) if snapshot.exists else TokenBucket(rate)
        lease, bucket = bucket.lease(now)
        if lease.tokens:
            await self._database.commit([put_if_unchanged(snapshot, {_FULL_AT: bucket.full_at})])
        return lease
