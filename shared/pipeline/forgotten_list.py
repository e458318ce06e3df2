"""Lists what was forgotten and can still be restored, the latest first."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.dates import from_microseconds, to_microseconds
from shared.firestore.documents import Reference
from shared.firestore.queries import Query
from shared.firestore.retention import PURGE_AT
from shared.knowledge.forgotten_chunks import COLLECTION as FORGOTTEN_CHUNKS
from shared.knowledge.forgotten_chunks import RESTORABLE_SOURCES
from shared.knowledge.forgotten_repository import COLLECTION as FORGOTTEN_SOURCES
from shared.knowledge.forgotten_repository import INGEST

if TYPE_CHECKING:
    from datetime import datetime

    from shared.firestore.database import Database
    from shared.firestore.documents import Document

    ForgottenCursor = tuple[int, str]
    """A position in the list: the expiry of an item in microseconds, and the id of its document."""

_RECORD_FIELDS: Final = ("forgotten_at", "forgotten_by", "forgotten_with", "reason", PURGE_AT)
_FIELDS: Final = {
    FORGOTTEN_SOURCES: (
        *(*_RECORD_FIELDS, "missing"),
        *(f"document.{name}" for name in ("title", "saved_by", "chunk_count")),
    ),
    FORGOTTEN_CHUNKS: (
        *_RECORD_FIELDS,
        *(f"document.{name}" for name in ("title", "source_id", "content")),
    ),
}
"""The fields to read, by collection. The vectors of chunks are not among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenItem:
    """A forgotten source, or a passage that was forgotten alone.

    Attributes:
        chunk_id: The id of the passage, or None if the whole source was forgotten.
        text: The text of the passage, or None if the whole source was forgotten.
        purge_at: The time until which it can be restored.
        missing: Whether ingest forgot it because its origin no longer had it.
    """

    source_id: str
    chunk_id: str | None
    title: str
    text: str | None
    chunk_count: int
    saved_by: str | None
    forgotten_at: datetime
    forgotten_by: str
    forgotten_with: str | None
    reason: str | None
    purge_at: datetime
    missing: bool

    @property
    def cursor(self) -> ForgottenCursor:
        """The cursor after this item."""
        return to_microseconds(self.purge_at), self.chunk_id or self.source_id


async def list_restorable(
    database: Database,
    now: datetime,
    limit: int,
    after: ForgottenCursor | None = None,
    *,
    with_chunks: bool = True,
) -> list[ForgottenItem]:
    """Load what can be restored, the latest first.

    Passages that were forgotten with their source are not listed. Costs one round trip, and reads
    up to `limit` sources and as many passages.

    Args:
        after: The cursor of the last item of the previous page.
        with_chunks: Whether to list passages that were forgotten alone, too.
    """
    collections = (FORGOTTEN_SOURCES, FORGOTTEN_CHUNKS) if with_chunks else (FORGOTTEN_SOURCES,)
    pages = await asyncio.gather(
        *(database.find(restorable_query(name, now, limit, after)) for name in collections)
    )
    items = [_to_item(snapshot) for snapshots in pages for snapshot in snapshots]
    return sorted(items, key=lambda item: item.cursor, reverse=True)[:limit]


async def list_removed_by_run(database: Database, removed_at: datetime) -> list[ForgottenItem]:
    """Load what the run of ingest with this time in its records removed.

    Costs one round trip.
    """
    purge_at = RESTORABLE_SOURCES.compute_purge_at(removed_at)
    pages = await asyncio.gather(
        *(
            database.find(Query(name).where(PURGE_AT, "==", purge_at).select(_FIELDS[name]))
            for name in _FIELDS
        )
    )
    items = [_to_item(snapshot) for snapshots in pages for snapshot in snapshots]
    return [item for item in items if item.forgotten_by == INGEST]


def restorable_query(
    collection: str,
    now: datetime,
    limit: int,
    after: ForgottenCursor | None,
) -> Query:
    """Build the query for what can be restored at a time, the latest expiry first."""
    query = Query(collection).where(PURGE_AT, ">", now).select(_FIELDS[collection])
    for name in (PURGE_AT, "__name__"):
        query = query.order_by(name, descending=True)
    if after:
        reference = Reference(collection, after[1])
        moment = from_microseconds(after[0])
        query = query.start_after({PURGE_AT: moment, "__name__": reference})
    return query.limit(limit)


def _to_item(snapshot: Document) -> ForgottenItem:
    data = snapshot.fields
    document = data.get("document") or {}
    is_source = snapshot.reference.collection_id == FORGOTTEN_SOURCES
    return ForgottenItem(
        source_id=snapshot.id if is_source else document["source_id"],
        chunk_id=None if is_source else snapshot.id,
        title=document["title"],
        text=document.get("content"),
        chunk_count=document["chunk_count"] if is_source else 1,
        saved_by=document.get("saved_by"),
        forgotten_at=data["forgotten_at"],
        forgotten_by=data["forgotten_by"],
        forgotten_with=data.get("forgotten_with"),
        reason=data.get("reason"),
        purge_at=data[PURGE_AT],
        missing=bool(data.get("missing")),
    )
