"""Cleans up after deleted extractions.

Of several extractions that make the same statement, tools show one, the original. The others, its
duplicates, stay hidden and store the original's id. The commit that deletes an extraction also
writes a deletion marker, a document with the id of the extraction. Processing the marker of an
original promotes one of its duplicates: it becomes visible, and the new original of the others.

A chunk lists the extractions that were found in it, in its field `extracted`. Both are written in
one commit.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from shared.extractions.extracted_chunks import (
    COLLECTION as EXTRACTIONS,
)
from shared.extractions.extracted_chunks import (
    DELETION_MARKERS,
    TOPICS,
    build_topic_count_writes,
)
from shared.extractions.model import ExtractionType, build_facets
from shared.firestore.database import WriteConflict
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD
from shared.firestore.writes import Write, delete_if_unchanged, put_if_unchanged
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.firestore.database import Database
    from shared.knowledge.queue import ExtractionSummaries
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

    Snapshot = Document

PAGE_SIZE: Final = 200
"""One query reads at most this many topics."""
MAX_MARKERS: Final = 50
"""One query reads at most this many deletion markers. Each may cost several more requests."""
MAX_DUPLICATES: Final = 100
"""One query reads at most this many duplicates of an extraction, called a page. One commit changes
all of them."""
_DUPLICATE_FIELDS: Final = ("type", "topics", "source_id", "chunk_id", "confidence")
"""Of a duplicate, these fields are read: what promoting it takes."""


async def promote_duplicates(ctx: Context, budget: Budget, report: Report) -> None:
    """Replace each deleted original by its duplicate with the highest confidence.

    Every job that deletes extractions must call this function when it ends. The report counts
    promoted duplicates as `shown`. Costs one read if there is nothing to do.
    """
    while (counts := await ExtractionUpkeep(ctx.database).process_deletions())["settled"]:
        report.counts += Counter(shown=counts["shown"])
        if budget.spent:
            report.finished = False
            return


class ExtractionUpkeep:
    """Promotes duplicates, and deletes empty topics."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def process_deletions(self) -> Counter[str]:
        """Process some deletion markers. The caller repeats this until none was processed.

        Costs one read if there is nothing to do.

        Returns:
            The number of processed markers, as `settled`, and of promoted duplicates, as `shown`. A
            marker with too many duplicates for one commit counts as processed, but is kept for the
            next call.
        """
        query = markers_query().limit(MAX_MARKERS)
        markers = await self._database.find(query)
        counts = Counter[str]()
        obsolete: list[Write] = []
        existence = await self._check_existence(markers)
        for marker, exists_again in zip(markers, existence, strict=True):
            duplicates = [] if exists_again else await self._load_duplicates(marker.id)
            if duplicates:
                counts += await self._promote(marker, duplicates)
            else:
                obsolete.append(delete_if_unchanged(marker))
        counts["settled"] += (
            await self._database.commit_skipping_conflicts(obsolete) if obsolete else 0
        )
        return counts

    async def count_deletions(self) -> int:
        """Count the deletion markers. Costs one Firestore round trip."""
        return await self._database.count(markers_query())

    async def _check_existence(self, markers: Sequence[Snapshot]) -> list[bool]:
        """Return for each marker whether its extraction exists again, since its chunk came back."""
        references = [Reference(EXTRACTIONS, marker.id) for marker in markers]
        snapshots = await self._database.get_all(references, ["type"])
        ids = {snapshot.id for snapshot in snapshots}
        return [marker.id in ids for marker in markers]

    async def _load_duplicates(self, extraction_id: str) -> list[Snapshot]:
        return await self._database.find(
            Query(EXTRACTIONS)
            .where("duplicate_of", "==", extraction_id)
            .order_by("__name__")
            .select(_DUPLICATE_FIELDS)
            .limit(MAX_DUPLICATES)
        )

    async def _promote(self, marker: Snapshot, duplicates: Sequence[Snapshot]) -> Counter[str]:
        """Promote one of a deleted original's duplicates, unless one is already promoted.

        The one with the highest confidence is promoted. The others on the same page become its
        duplicates. If there are more pages, the marker is kept and stores the id of the promoted
        duplicate, as `heir`, for the next call. If a document changes in the meantime, nothing is
        written.

        Args:
            marker: The deletion marker of the original.
            duplicates: The first page of the duplicates.

        Returns:
            The numbers that `process_deletions` returns, for this marker. All are 0 if nothing was
            written.
        """
        promoted_id = marker.fields.get("heir")
        writes: list[Write] = []
        promotions = 0
        if not promoted_id:
            chunks = await self._load_chunks(duplicates)
            # Chunks may be deleted, and with them their duplicates, since the duplicates were read.
            candidates = [entry for entry in duplicates if _is_listed(entry, chunks)]
            if not candidates:
                return Counter()
            promoted = max(candidates, key=lambda duplicate: duplicate.get("confidence"))
            promoted_id, promotions = promoted.id, 1
            writes += self._build_promotion_writes(promoted, chunks[promoted.get("chunk_id")])
        writes += [
            put_if_unchanged(duplicate, {"duplicate_of": promoted_id})
            for duplicate in duplicates
            if duplicate.id != promoted_id
        ]
        writes.append(
            put_if_unchanged(marker, {"heir": promoted_id})
            if len(duplicates) == MAX_DUPLICATES
            else delete_if_unchanged(marker)
        )
        try:
            await self._database.commit(writes)
        except WriteConflict:
            return Counter()
        return Counter(settled=1, shown=promotions)

    def _build_promotion_writes(self, duplicate: Snapshot, chunk: Snapshot) -> Iterator[Write]:
        """Build the writes that make a duplicate visible.

        The duplicate gets facets, its chunk no longer lists it as a duplicate, and the topic counts
        include it.
        """
        extraction_type = ExtractionType(duplicate.get("type"))
        topics = duplicate.get("topics")
        facets = build_facets(extraction_type, topics, duplicate.get("source_id"))
        yield put_if_unchanged(duplicate, {"facets": facets, "duplicate_of": DELETE_FIELD})
        before = _read_summaries(chunk)
        summary = {
            name: value for name, value in before[duplicate.id].items() if name != "duplicate"
        }
        after = {**before, duplicate.id: {**summary, "topics": topics}}
        yield put_if_unchanged(chunk, {"extracted": after})
        yield from build_topic_count_writes(before, after)

    async def delete_empty_topics(self) -> int:
        """Delete a page of topics without extractions, and return how many were deleted.

        Costs one read if there are none.
        """
        topics = await self._database.find(Query(TOPICS).where("total", "<=", 0).limit(PAGE_SIZE))
        writes = list(map(delete_if_unchanged, topics))
        return await self._database.commit_skipping_conflicts(writes) if writes else 0

    async def _load_chunks(self, extractions: Sequence[Snapshot]) -> dict[str, Snapshot]:
        """Load the chunks of these extractions that exist, by id."""
        ids = sorted({_get_chunk_id(snapshot) for snapshot in extractions})
        references = [Reference(CHUNKS, chunk_id) for chunk_id in ids]
        chunks = await self._database.get_all(references, ["extracted"])
        return {chunk.id: chunk for chunk in chunks}


def markers_query() -> Query:
    """Build the query for the deletion markers."""
    return Query(DELETION_MARKERS).order_by("__name__")


def _get_chunk_id(extraction: Snapshot) -> str:
    return str(extraction.get("chunk_id"))


def _is_listed(extraction: Snapshot, chunks: dict[str, Snapshot]) -> bool:
    """Return whether an extraction's chunk exists and lists the extraction."""
    chunk = chunks.get(_get_chunk_id(extraction))
    return chunk is not None and extraction.id in _read_summaries(chunk)


def _read_summaries(chunk: Snapshot) -> ExtractionSummaries:
    """Return what a chunk lists of its extractions, by extraction id."""
    return chunk.fields.get("extracted") or {}
