"""Deletes forgotten texts for good, and what deleted chunks and extractions leave behind.

A tombstone is a chunk that was marked as deleted, and that the index job gave up on.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from functions.jobs.purge.sweep import Sweep
from shared.extractions.extracted_chunks import build_removal_writes
from shared.extractions.upkeep import ExtractionUpkeep, promote_duplicates
from shared.firestore.queries import Query
from shared.firestore.writes import Together, delete_if_unchanged
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.map_repository import Maps
from shared.pipeline.forgotten_expiry import ForgottenContents
from shared.writer.indexing import STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.firestore.documents import Document
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

PAGE: Final = 200
"""Tombstones are read in pages of this size."""
COMMIT_SIZE: Final = 20
"""The number of tombstones that a commit deletes. Firestore also counts the index entries of their
extractions, which contain vectors."""
GRACE_PERIOD: Final = timedelta(days=7)
"""How long the index job has to remove a chunk that was marked as deleted."""


async def delete_forgotten(ctx: Context, budget: Budget, report: Report) -> None:
    """Delete the texts of chunks and sources that were forgotten 30 days ago, in small commits.

    The records of who forgot them, when and why stay.
    """
    async for deleted in ForgottenContents(ctx.database).delete_expired(ctx.clock()):
        report.counts["forgotten"] += deleted
        if budget.spent:
            report.finished = False
            return


async def delete_tombstones(ctx: Context, budget: Budget, report: Report) -> None:
    """Delete chunks that were marked as deleted long ago and that the index job no longer retries.

    Chunks that are still pending stay, because the index job deletes them.
    """
    query = (
        Query(CHUNKS)
        .where("deleted_at", "<", ctx.clock() - GRACE_PERIOD)
        .order_by("deleted_at")
        .select(["deleted_at", "extracted", f"pending.{STEP}"])
    )
    async for page in ctx.database.iterate(query, PAGE):
        not_pending = [chunk for chunk in page if STEP not in chunk.fields.get("pending", {})]
        report.counts += Counter(tombstones=await _delete_chunks(not_pending, ctx))
        if len(page) == PAGE and budget.spent:
            report.finished = False
            return


async def _delete_chunks(tombstones: Sequence[Document], ctx: Context) -> int:
    """Delete tombstones with their extractions, after their points on the map.

    Costs two round trips more than the deletion. Later, the repair job removes their entries from
    the postings.
    """
    chunk_ids = [tombstone.id for tombstone in tombstones]
    await ctx.database.commit(await Maps(ctx.database).build_removal_writes(chunk_ids))
    return await ctx.database.commit_skipping_conflicts(
        [
            Together(
                [
                    delete_if_unchanged(tombstone),
                    *build_removal_writes(tombstone.fields.get("extracted") or {}),
                ]
            )
            for tombstone in tombstones
        ],
        COMMIT_SIZE,
    )


async def delete_empty_topics(ctx: Context, budget: Budget, report: Report) -> None:
    """Delete topics without extractions."""
    upkeep = ExtractionUpkeep(ctx.database)
    while deleted := await upkeep.delete_empty_topics():
        report.counts += Counter(topics=deleted)
        if budget.spent:
            report.finished = False
            return


FORGOTTEN: Final = Sweep(
    "forgotten",
    delete_forgotten,
    lambda ctx: ForgottenContents(ctx.database).count_expired(ctx.clock()),
)
TOMBSTONES: Final = Sweep("tombstones", delete_tombstones)
DUPLICATES: Final = Sweep(
    "duplicates",
    promote_duplicates,
    lambda ctx: ExtractionUpkeep(ctx.database).count_deletions(),
)
TOPICS: Final = Sweep("topics", delete_empty_topics)
