"""Cleans up after deleted extractions, and deletes orphaned extractions.

Of several extractions that make the same statement, tools show one, the original. The others, its
duplicates, stay hidden and store the original's id. The commit that deletes an extraction also
writes a deletion marker, a document with the id of the extraction. Processing the marker of an
original promotes one of its duplicates: it becomes visible, and the new original of the others.

A chunk lists the extractions that were found in it, in its field `extracted`. An extraction is
orphaned if its chunk does not list it. Carrel writes an extraction and its chunk in one commit, so
only other programs can leave orphans.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.extractions.extracted_chunks import (
    COLLECTION as EXTRACTIONS,
)
from shared.extractions.extracted_chunks import (
    DELETION_MARKERS,
    TOPICS,
    build_removal_writes,
    build_topic_count_writes,
)
from shared.extractions.model import ExtractionType, build_facets
from shared.firestore.database import WriteConflict
from shared.firestore.writes import combine_writes, delete_if_unchanged, put_if_unchanged
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write
    from shared.knowledge.queue import ExtractionSummaries
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

    Snapshot = DocumentSnapshot[Any]

PAGE_SIZE: Final = 200
"""One query reads at most this many extractions or topics."""
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
    """Promotes duplicates, and deletes orphans and empty topics."""

    def __init__(self, database: Database) -> None:
        """Use this database, which contains the knowledge base."""
        self._database = database

    async def process_deletions(self) -> Counter[str]:
        """Process some deletion markers. The caller repeats this until none was processed.

        Costs one read if there is nothing to do.

        Returns:
            The number of processed markers, as `settled`, and of promoted duplicates, as `shown`. A
            marker with too many duplicates for one commit counts as processed, but is kept for the
            next call.
        """
        query = markers_query(self._database.client).limit(MAX_MARKERS)
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
        return await self._database.count(markers_query(self._database.client))

    async def _check_existence(self, markers: Sequence[Snapshot]) -> list[bool]:
        """Return for each marker whether its extraction exists again, since its chunk came back."""
        references = [self._database.document(EXTRACTIONS, marker.id) for marker in markers]
        snapshots = await self._database.get_all(references, ["type"])
        ids = {snapshot.id for snapshot in snapshots}
        return [marker.id in ids for marker in markers]

    async def _load_duplicates(
        self, extraction_id: str, after: Snapshot | None = None
    ) -> list[Snapshot]:
        """Load the next MAX_DUPLICATES duplicates of an extraction, sorted by id."""
        query = duplicates_query(self._database.client, extraction_id)
        if after:
            query = query.start_after({"__name__": after.reference})
        return await self._database.find(query)

    async def _promote(self, marker: Snapshot, duplicates: Sequence[Snapshot]) -> Counter[str]:
        """Promote one of a deleted original's duplicates, unless one is already promoted.

        The one with the highest confidence is promoted. The others on the same page become its
        duplicates. If there are more pages, the marker is kept and stores the id of the promoted
        duplicate, as `heir`, for the next call. If a document changes in the meantime, nothing is
        written. Only duplicates that their chunk lists are promoted: others are orphans, which the
        job `purge` deletes.

        Args:
            marker: The deletion marker of the original.
            duplicates: The first page of the duplicates.

        Returns:
            The numbers that `process_deletions` returns, for this marker. All are 0 if nothing was
            written.
        """
        promoted_id = (marker.to_dict() or {}).get("heir")
        writes: list[Write] = []
        page, promotions = duplicates, 0
        if not promoted_id:
            page, chunks = await self._find_listed_page(marker.id, duplicates)
            candidates = [duplicate for duplicate in page if _is_listed(duplicate, chunks)]
            if candidates:
                promoted = max(candidates, key=lambda duplicate: duplicate.get("confidence"))
                promoted_id, promotions = promoted.id, 1
                writes += self._build_promotion_writes(promoted, chunks[promoted.get("chunk_id")])
        writes += [
            put_if_unchanged(duplicate, {"duplicate_of": promoted_id})
            for duplicate in page
            if duplicate.id != promoted_id
        ]
        # The duplicates on pages before or after this one still refer to the deleted original.
        has_more = promoted_id and (page is not duplicates or len(page) == MAX_DUPLICATES)
        writes.append(
            put_if_unchanged(marker, {"heir": promoted_id})
            if has_more
            else delete_if_unchanged(marker)
        )
        try:
            await self._database.commit(writes)
        except WriteConflict:
            return Counter()
        return Counter(settled=1, shown=promotions)

    async def _find_listed_page(
        self, extraction_id: str, page: Sequence[Snapshot]
    ) -> tuple[Sequence[Snapshot], dict[str, Snapshot]]:
        """Find the first page of duplicates with a duplicate that its chunk lists.

        Args:
            extraction_id: The id of the original.
            page: The first page of its duplicates.

        Returns:
            The page and its chunks by id. Both are empty if no duplicate is listed.
        """
        while page:
            chunks = await self._load_chunks(page)
            if any(_is_listed(duplicate, chunks) for duplicate in page):
                return page, chunks
            if len(page) < MAX_DUPLICATES:
                break
            page = await self._load_duplicates(extraction_id, after=page[-1])
        return [], {}

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
        yield from build_topic_count_writes(self._database, before, after)

    async def load_page(self, after: str) -> list[Snapshot]:
        """Load the next page of all extractions, sorted by id. Costs one Firestore round trip.

        Args:
            after: The id of the last extraction of the previous page, or an empty string.
        """
        return await self._database.find(all_extractions_query(self._database.client, after))

    async def find_orphans(self, page: Sequence[Snapshot]) -> list[Snapshot]:
        """Return the extractions of a page that no chunk lists. Costs one Firestore round trip."""
        chunks = await self._load_chunks(page)
        return [snapshot for snapshot in page if not _is_listed(snapshot, chunks)]

    async def delete_orphans(self, orphans: Sequence[Snapshot]) -> int:
        """Delete orphans that have not changed since they were read, and return how many."""
        writes = [combine_writes(list(self._build_orphan_writes(orphan))) for orphan in orphans]
        return await self._database.commit_skipping_conflicts(writes) if writes else 0

    def _build_orphan_writes(self, orphan: Snapshot) -> Iterator[Write]:
        """Build the writes that delete an orphan, and subtract it from the topic counts."""
        fields = orphan.to_dict() or {}
        # Duplicates are not counted.
        topics = [] if fields.get("duplicate_of") else fields.get("topics", [])
        # This write makes the commit fail if the orphan has changed.
        yield put_if_unchanged(orphan, {"facets": []})
        summary = {"type": fields["type"], "topics": topics}
        yield from build_removal_writes(self._database, {orphan.id: summary})

    async def delete_empty_topics(self) -> int:
        """Delete a page of topics without extractions, and return how many were deleted.

        Costs one read if there are none.
        """
        topics = await self._database.find(empty_topics_query(self._database.client))
        writes = list(map(delete_if_unchanged, topics))
        return await self._database.commit_skipping_conflicts(writes) if writes else 0

    async def _load_chunks(self, extractions: Sequence[Snapshot]) -> dict[str, Snapshot]:
        """Load the chunks of these extractions that exist, by id."""
        ids = sorted({_get_chunk_id(snapshot) for snapshot in extractions} - {""})
        references = [self._database.document(CHUNKS, chunk_id) for chunk_id in ids]
        chunks = await self._database.get_all(references, ["extracted"])
        return {chunk.id: chunk for chunk in chunks}


def markers_query(client: AsyncClient) -> AsyncQuery:
    """Build the query for the deletion markers."""
    return client.collection(DELETION_MARKERS).order_by("__name__")


def duplicates_query(client: AsyncClient, extraction_id: str) -> AsyncQuery:
    """Build the query for the first page of the duplicates of an extraction, sorted by id."""
    is_duplicate = FieldFilter("duplicate_of", "==", extraction_id)
    query = client.collection(EXTRACTIONS).where(filter=is_duplicate)
    return query.order_by("__name__").select(_DUPLICATE_FIELDS).limit(MAX_DUPLICATES)


def all_extractions_query(client: AsyncClient, after: str) -> AsyncQuery:
    """Build the query for the next page of all extractions, sorted by id."""
    collection = client.collection(EXTRACTIONS)
    query = collection.order_by("__name__").select(["chunk_id", "type", "topics", "duplicate_of"])
    query = query.start_after({"__name__": collection.document(after)}) if after else query
    return query.limit(PAGE_SIZE)


def empty_topics_query(client: AsyncClient) -> AsyncQuery:
    """Build the query for topics without extractions."""
    return client.collection(TOPICS).where(filter=FieldFilter("total", "<=", 0)).limit(PAGE_SIZE)


def _get_chunk_id(extraction: Snapshot) -> str:
    """Return the id of an extraction's chunk, or an empty string if another program left it out."""
    return str((extraction.to_dict() or {}).get("chunk_id", ""))


def _is_listed(extraction: Snapshot, chunks: dict[str, Snapshot]) -> bool:
    """Return whether an extraction's chunk exists and lists the extraction."""
    chunk = chunks.get(_get_chunk_id(extraction))
    return chunk is not None and extraction.id in _read_summaries(chunk)


def _read_summaries(chunk: Snapshot) -> ExtractionSummaries:
    """Return what a chunk lists of its extractions, by extraction id."""
    return (chunk.to_dict() or {}).get("extracted") or {}
