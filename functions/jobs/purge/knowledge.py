"""Deletes what deleted chunks and extractions leave behind.

A tombstone is a chunk that was marked as deleted, and that the index job gave up on.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.extractions.extracted_chunks import build_removal_writes
from shared.extractions.upkeep import ExtractionUpkeep
from shared.firestore.retention import Retention
from shared.firestore.writes import delete_if_unchanged
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.map_repository import Maps
from shared.writer.indexing import STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.firestore.documents import Document
    from shared.firestore.writes import Write
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

TOMBSTONES: Final = Retention(
    title="what remains of deleted passages, if the index job failed on it",
    collection=CHUNKS,
    since="deleted_at",
    duration=timedelta(days=7),
)


async def build_tombstone_writes(ctx: Context, tombstone: Document) -> Sequence[Write]:
    """Build the writes that delete a tombstone with its extractions and its point on the map.

    There are none while the index job retries it. The repair job later removes its entries from the
    postings. Costs a round trip.
    """
    if STEP in tombstone.fields.get("pending", {}):
        return []
    return [
        delete_if_unchanged(tombstone),
        *build_removal_writes(tombstone.fields.get("extracted") or {}),
        *await Maps(ctx.database).build_removal_writes([tombstone.id]),
    ]


async def delete_empty_topics(ctx: Context, budget: Budget, report: Report) -> None:
    """Delete topics without extractions."""
    upkeep = ExtractionUpkeep(ctx.database)
    while deleted := await upkeep.delete_empty_topics():
        report.counts += Counter(topics=deleted)
        if budget.spent:
            report.finished = False
            return
