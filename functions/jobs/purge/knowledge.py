"""Deletes what deleted chunks and extractions leave behind.

A tombstone is a chunk that was marked as deleted, and that the index job gave up on.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.extractions.groups import TOPICS, ExtractionGroups
from shared.firestore.queries import Query
from shared.firestore.retention import Retention
from shared.firestore.writes import delete_if_unchanged
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.forgotten_chunks import get_extraction_ids
from shared.knowledge.map_repository import Maps
from shared.writer.indexing import STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.firestore.documents import Document
    from shared.firestore.writes import Write
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

PAGE_SIZE: Final = 200
"""The number of topics that one query reads."""
TOMBSTONES: Final = Retention(
    title="what remains of deleted passages, if the index job failed on it",
    collection=CHUNKS,
    since="deleted_at",
    duration=timedelta(days=7),
)


async def build_tombstone_writes(ctx: Context, tombstone: Document) -> Sequence[Write]:
    """Build the writes that delete a tombstone with its extractions and its point on the map.

    There are none while the index job retries it. The repair job later removes its entries from the
    postings. Costs up to four round trips.
    """
    if STEP in tombstone.fields.get("pending", {}):
        return []
    groups = ExtractionGroups(ctx.database)
    return [
        delete_if_unchanged(tombstone),
        *await groups.build_deletion_writes(get_extraction_ids(tombstone.fields)),
        *await Maps(ctx.database).build_removal_writes([tombstone.id]),
    ]


async def delete_empty_topics(ctx: Context, budget: Budget, report: Report) -> None:
    """Delete topics without extractions."""
    query = Query(TOPICS).where("total", "<=", 0).limit(PAGE_SIZE)
    while topics := await ctx.database.find(query):
        writes = list(map(delete_if_unchanged, topics))
        report.counts += Counter(topics=await ctx.database.commit_skipping_conflicts(writes))
        if budget.spent:
            report.finished = False
            return
