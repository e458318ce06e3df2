"""What ingest compares and writes: `sources/{source_id}` and the chunks under their care."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.api_core.exceptions import InvalidArgument
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.core.bisection import bisect
from shared.core.errors import PlatformFault
from shared.core.log import error_fields, log
from shared.index.facets import Kind
from shared.knowledge import chunk_repository as documents
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.source_repository import COLLECTION, removed_fields, source_fields, title_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncDocumentReference, AsyncQuery

    from shared.firestore.database import Database, Write
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.source import Source

BLOCK: Final = 30
"""How many sources are compared at once: Firestore takes 30 values in one `in`."""
MAX_WRITES: Final = 200
MAX_BYTES: Final = 2_000_000
"""What one commit may hold: the emulator refuses requests above 4 MiB, the cloud above 10."""
_GONE: Final = 80_000
"""Bytes that a deletion takes: the cloud counts the index entries that go, too, and the vector goes
once for each of some ten facets."""
CHUNK_BYTES: Final = 500_000
"""What may be written of a chunk: a document holds 1 MiB, and jobs add a vector, a card, facets."""
MOST_TAGS: Final = 4_000
TAGS_BYTES: Final = 300_000
"""Of a source and all its passages: each tag takes three index entries, of which one repeats the
title; a document may have 40,000, of 8 MiB in all."""
_LISTED_BY: Final = frozenset({Kind.AUTHOR, Kind.CATEGORY, Kind.TAG})
"""What sources are filtered by; a tag of one highlight counts."""


@dataclass(frozen=True, slots=True)
class ChunkedSource:
    """A source with its chunks."""

    source: Source
    chunks: list[Chunk]

    @property
    def content_hash(self) -> str:
        """Changes exactly when anything changes that ingest writes of the source or its chunks."""
        parts = [
            source_fields(self.source),
            *(documents.fingerprint(chunk) for chunk in self.chunks),
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def excess(self) -> str | None:
        """What is too large in it for a document to hold, for people; None: it fits."""
        largest = max(map(documents.write_size, self.chunks), default=0)
        if largest > CHUNK_BYTES:
            said = f"has a passage that takes {largest:,} bytes with its tags"
            return f"{said}, of which {CHUNK_BYTES:,} fit: take tags from it"
        tags = [each for each in _facets(self) if each.startswith(Kind.TAG)]
        taken = sum(len(each.encode()) for each in tags)
        if len(tags) > MOST_TAGS or taken > TAGS_BYTES:
            said = f"has {len(tags):,} different tags, of {taken:,} bytes"
            return f"{said}; {MOST_TAGS:,} fit, of {TAGS_BYTES:,} bytes: take some from it"
        return None


@dataclass(frozen=True, slots=True)
class SaveResult:
    """What came of sources.

    Attributes:
        counts: As `Ingestion.save` counts.
        refused: The ids of those that the database takes in no form, each with the reason.
    """

    counts: Counter[str]
    refused: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Change:
    """One write: what it counts as, and about how many bytes it takes."""

    kind: str
    write: Write
    size: int = 1_000


class Ingestion:
    """Brings the database to what the sources say."""

    def __init__(self, database: Database) -> None:
        """Keep them in this database."""
        self._database = database

    async def save(self, sources: Sequence[ChunkedSource], now: datetime) -> Counter[str]:
        """Write what differs, and nothing for a source that does not.

        A source's own document is its last write: a run that is killed before it leaves the old
        content hash, or none, and the next run compares the source again.

        Args:
            sources: At most 30 sources of different ids. One without chunks is deleted.
            now: The time to stamp on what is written.

        Returns:
            How many `sources` differed, and how many chunks were `created`, `updated`, `deleted`.

        Raises:
            PlatformFault: The database refuses one of them; others may have been written.
        """
        counts: Counter[str] = Counter()
        await self._save(sources, now, counts)
        return counts

    async def save_each(self, sources: Sequence[ChunkedSource], now: datetime) -> SaveResult:
        """The same, where one that the database refuses keeps none of the others out.

        Of one that is refused nothing stays, or, where it was there before, its old document: it is
        found to differ again.
        """
        counts: Counter[str] = Counter()
        refused: dict[str, str] = {}

        async def save(batch: Sequence[ChunkedSource]) -> None:
            try:
                await self._save(batch, now, counts)
            except (PlatformFault, ValueError) as error:
                if reason := _refusal(error):
                    raise _Refusal(reason) from error
                raise

        async for batch, refusal in bisect(sources, save, _Refusal):
            if refusal:
                log.warning("source_refused", **error_fields(refusal))
                [source] = batch
                refused[source.source.source_id] = str(refusal)
                await self._take_back(source, now, counts)
        return SaveResult(counts, refused)

    async def _take_back(self, source: ChunkedSource, now: datetime, counts: Counter[str]) -> None:
        """Delete what was written of a new source before the database refused the rest."""
        if not await self._stored_hashes([source]):
            await self._save([ChunkedSource(source.source, [])], now, counts)

    async def _save(
        self, sources: Sequence[ChunkedSource], now: datetime, counts: Counter[str]
    ) -> None:
        """Write what differs, and count each commit that was made."""
        stored = await self._stored_hashes(sources)
        differing = [each for each in sources if _differs(each, stored)]
        known = await self._known_chunks(each.source.source_id for each in differing)
        changes: list[_Change] = []
        for each in differing:
            source_id = each.source.source_id
            changes += self._chunk_changes(each, known.get(source_id, {}), now)
            changes += self._source_change(each, stored.get(source_id), now)
        for commit in _commits(changes):
            await self._database.commit(change.write for change in commit)
            counts.update(change.kind for change in commit)

    async def _stored_hashes(self, sources: Sequence[ChunkedSource]) -> dict[str, str]:
        references = [self._reference(COLLECTION, each.source.source_id) for each in sources]
        snapshots = await self._database.get_all(references, ["content_hash"])
        return {snapshot.id: snapshot.get("content_hash") for snapshot in snapshots}

    async def _known_chunks(self, source_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """What is stored of each source's chunks: source id to chunk id to fingerprints."""
        wanted = list(source_ids)
        known: dict[str, dict[str, Any]] = {}
        if wanted:
            query = chunks_of_sources_query(self._database.client, wanted)
            for snapshot in await self._database.find(query):
                data = snapshot.to_dict() or {}
                known.setdefault(data["source_id"], {})[snapshot.id] = data
        return known

    def _chunk_changes(
        self, wanted: ChunkedSource, known: dict[str, Any], now: datetime
    ) -> Iterator[_Change]:
        for chunk in wanted.chunks:
            yield from self._chunk_change(chunk, known.get(chunk.chunk_id), now)
        for chunk_id in known.keys() - {chunk.chunk_id for chunk in wanted.chunks}:
            yield self._deletion(chunk_id, now)

    def _deletion(self, chunk_id: str, now: datetime) -> _Change:
        """A chunk that is gone stays until the index has taken back what it knows of it."""
        reference = self._reference(CHUNKS, chunk_id)
        gone = documents.deletion_update(now)
        return _Change("deleted", lambda batch: batch.update(reference, gone), _GONE)

    def _source_change(
        self,
        wanted: ChunkedSource,
        stored: str | None,
        now: datetime,
    ) -> Iterator[_Change]:
        reference = self._reference(COLLECTION, wanted.source.source_id)
        if wanted.chunks:
            data = _document(wanted, now)
            data |= removed_fields(wanted.source) if stored else {"created_at": now}
            # A chunk repeats what is said of its source.
            size = documents.write_size(wanted.chunks[0]) + 4 * sum(map(len, data["facets"]))
            yield _Change("sources", lambda batch: batch.set(reference, data, merge=True), size)
        elif stored:
            yield _Change("sources", lambda batch: batch.delete(reference))

    def _chunk_change(
        self, chunk: Chunk, known: dict[str, Any] | None, now: datetime
    ) -> Iterator[_Change]:
        reference = self._reference(CHUNKS, chunk.chunk_id)
        size = documents.write_size(chunk)
        if known is None:
            new = documents.new_document(chunk, now)
            yield _Change("created", lambda batch: batch.set(reference, new, merge=True), size)
        elif known["fingerprint"] != documents.fingerprint(chunk):
            same_text = known["content_hash"] == chunk.content_hash
            update = documents.edit_update if same_text else documents.rewrite_update
            edit = update(chunk, known, now)
            yield _Change("updated", lambda batch: batch.update(reference, edit), size)

    def _reference(self, collection: str, document_id: str) -> AsyncDocumentReference:
        return self._database.document(collection, document_id)


def chunks_of_sources_query(client: AsyncClient, source_ids: Sequence[str]) -> AsyncQuery:
    """What comparing needs of the chunks of up to 30 sources; their number is what bounds it."""
    return (
        client.collection(CHUNKS)
        .where(filter=FieldFilter("source_id", "in", list(source_ids)))
        .select(["source_id", "fingerprint", "content_hash", "created_at", "dated_at"])
    )


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield chunks_of_sources_query(client, ["a", "b"])


def _differs(wanted: ChunkedSource, stored: dict[str, str]) -> bool:
    """A source that is to be deleted always differs: chunks may be left without their source."""
    return not wanted.chunks or stored.get(wanted.source.source_id) != wanted.content_hash


def _document(wanted: ChunkedSource, now: datetime) -> dict[str, Any]:
    return source_fields(wanted.source) | {
        "title_key": title_key(wanted.source.title),
        "facets": _facets(wanted),
        "chunk_count": len(wanted.chunks),
        "content_hash": wanted.content_hash,
        "updated_at": now,
    }


def _facets(wanted: ChunkedSource) -> list[str]:
    facets = {facet for chunk in wanted.chunks for facet in chunk.facets}
    return sorted(facet.id for facet in facets if facet.kind in _LISTED_BY)


class _Refusal(Exception):
    """The database refuses a source for what it is; the message says why, for people."""


def _refusal(error: PlatformFault | ValueError) -> str | None:
    """Why the database refuses a source for what it is; None if the fault is another one."""
    cause = error.__cause__ if isinstance(error, PlatformFault) else error
    if isinstance(cause, InvalidArgument | ValueError):
        return f"is refused by the database ({type(cause).__name__})"
    return None


def _commits(changes: Sequence[_Change]) -> Iterator[list[_Change]]:
    """Cut changes, in their order, into commits that Firestore takes."""
    commit: list[_Change] = []
    size = 0
    for change in changes:
        if commit and (len(commit) == MAX_WRITES or size + change.size > MAX_BYTES):
            yield commit
            commit, size = [], 0
        commit.append(change)
        size += change.size
    if commit:
        yield commit
