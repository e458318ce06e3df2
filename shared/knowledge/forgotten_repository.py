"""`forgotten_sources/{source_id}`: what was forgotten of a source, so that ingest leaves it out.

These documents stay for good, because ingest reads them whenever a source is new or has changed.
The forgotten chunks themselves are in `forgotten/{chunk_id}` (`shared.knowledge.forgotten_chunks`)
until they can no longer be restored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.codec import Codec
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.firestore.database import Database

COLLECTION: Final = "forgotten_sources"
INGEST: Final = "ingest"
"""The name that a record has in place of a user's id if ingest forgot a source or a chunk."""


class Unfinished(StrEnum):
    """An operation on a source that has begun and is not complete."""

    FORGETTING = "forgetting"
    RESTORING = "restoring"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenSource:
    """What was forgotten of a source.

    Attributes:
        chunk_ids: The ids of the chunks that were forgotten one by one, even if the whole source
            was forgotten later.
        unfinished: The operation on the whole source that has begun and is not complete, if any.
        forgotten_at: When the whole source was forgotten.
        forgotten_by: The user who forgot the whole source.
        forgotten_with: The client with which they did, if it is known.
        purge_at: When the whole source will be deleted for good, or None once it is.
        document: The fields of the source's document, until the source is deleted for good.
        missing: Whether ingest forgot the source because its origin no longer had it. It is
            restored when the origin has it again.
        moved: What the unfinished operation has moved so far, as `ContentCounts` names it.
    """

    source_id: str
    whole: bool = False
    chunk_ids: frozenset[str] = frozenset()
    unfinished: Unfinished | None = None
    forgotten_at: datetime | None = None
    forgotten_by: str | None = None
    forgotten_with: str | None = None
    reason: str | None = None
    purge_at: datetime | None = None
    document: dict[str, Any] | None = None
    missing: bool = False
    moved: dict[str, int] | None = None


_CODEC: Final = Codec(ForgottenSource, "source_id", readers={"unfinished": Unfinished})
_INGEST_FIELDS: Final = ("whole", "chunk_ids", "unfinished", "missing")


class ForgottenSources:
    """Reads what was forgotten of sources."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, source_id: str) -> tuple[ForgottenSource, Document]:
        """Load what was forgotten of a source, and the document that says so.

        Costs one round trip.
        """
        snapshot = await self._database.get(Reference(COLLECTION, source_id))
        return _CODEC.read(source_id, snapshot.fields), snapshot

    async def get_many(self, source_ids: Sequence[str]) -> dict[str, ForgottenSource]:
        """Load what was forgotten of these sources, by source id. Costs one round trip.

        A source is left out if nothing of it was forgotten. Only the fields that ingest needs are
        set.
        """
        references = [Reference(COLLECTION, name) for name in source_ids]
        snapshots = await self._database.get_all(references, _INGEST_FIELDS)
        return {snapshot.id: _CODEC.read(snapshot.id, snapshot.fields) for snapshot in snapshots}

    async def load_unfinished(self, limit: int) -> list[tuple[ForgottenSource, Any]]:
        """Load sources with an unfinished operation, each with the update time of its record.

        Costs one round trip.
        """
        snapshots = await self._database.find(
            Query(COLLECTION)
            .where("unfinished", "in", [state.value for state in Unfinished])
            .limit(limit)
        )
        return [
            (_CODEC.read(snapshot.id, snapshot.fields), snapshot.update_time)
            for snapshot in snapshots
        ]


def build_forgotten_fields(source: ForgottenSource) -> dict[str, Any]:
    """Return the stored fields of a record."""
    return _CODEC.write(source)
