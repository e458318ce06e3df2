"""Forgetting: moving chunks with their extractions to `forgotten/{chunk_id}`, and back.

Live documents have no mark that says whether they are forgotten, which every vector query would
have to filter by. A forgotten chunk leaves the same remains as a deleted one: the index job removes
it from the postings. Its extractions are deleted in the commit that moves it.

A source with many chunks is moved commit by commit. `forgotten_sources/{source_id}` is written
first and says what is unfinished, so that a repeated call or the index job completes it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import (
    DELETE_FIELD,
    ArrayRemove,
    ArrayUnion,
    Increment,
    LastUpdateOption,
)
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.core.bisection import bisect_batch
from shared.core.dates import utc_now
from shared.core.errors import Conflict
from shared.extractions.extracted_chunks import COLLECTION as EXTRACTIONS
from shared.extractions.extracted_chunks import (
    DELETION_MARKERS,
    marker_writes,
    removal_writes,
    topic_count_writes,
)
from shared.extractions.model import ExtractionType, build_facets
from shared.firestore.database import CommitTooLarge, WriteConflict
from shared.firestore.writes import combine_writes, put_if_unchanged
from shared.index.embedding_space import EmbeddingSpace
from shared.index.indexed_state import read_indexed_state
from shared.index.stored_vector import NO_VECTOR
from shared.knowledge.chunk import parse_source_id
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.chunk_repository import deletion_update
from shared.knowledge.cluster_repository import COLLECTION as CLUSTERS
from shared.knowledge.forgotten_repository import COLLECTION as FORGOTTEN_SOURCES
from shared.knowledge.forgotten_repository import (
    RESTORABLE,
    ForgottenSource,
    Unfinished,
    forgotten_fields,
)
from shared.knowledge.map_repository import Maps
from shared.knowledge.source_repository import COLLECTION as SOURCES
from shared.knowledge.source_repository import MOVING, READ_AGAIN, REWRITE

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from datetime import datetime

    from google.cloud.firestore import (
        AsyncClient,
        AsyncCollectionReference,
        AsyncQuery,
        DocumentSnapshot,
    )

    from shared.firestore.database import Database, Write

    Snapshot = DocumentSnapshot[Any]

COLLECTION: Final = "forgotten"
PAGE: Final = 25
"""One commit moves at most this many chunks: Firestore counts the index entries that it deletes,
too, and a chunk has one with its vector for each facet."""
MAX_IN: Final = 30
"""A query takes at most this many values in one `array_contains_any`."""


@dataclass(frozen=True, slots=True)
class ContentCounts:
    """What forgetting removes.

    Attributes:
        chunks: The number of passages.
        vectors: Those that were embedded.
        cards: Those with a knowledge card.
        extractions: The number of their decisions, patterns, warnings and methodologies.
        postings: The number of their entries in the index of words and facets.
    """

    chunks: int = 0
    vectors: int = 0
    cards: int = 0
    extractions: int = 0
    postings: int = 0

    def __add__(self, other: ContentCounts) -> ContentCounts:
        """Add the numbers."""
        names = [field.name for field in fields(self)]
        return ContentCounts(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, slots=True)
class Forgetter:
    """Who forgets, when and why.

    Attributes:
        user_id: The user.
        reason: The reason in the user's words, if any.
        now: The time.
        missing: Whether it is forgotten only for as long as its origin does not have it.
    """

    user_id: str
    reason: str | None
    now: datetime
    missing: bool = False

    def fields(self) -> dict[str, Any]:
        """Return the stored fields."""
        return {
            "forgotten_at": self.now,
            "forgotten_by": self.user_id,
            "reason": self.reason,
            "expires_at": self.now + RESTORABLE,
        }


class Forgetting:
    """Moves chunks and sources to where nothing reads them, and back."""

    def __init__(self, database: Database) -> None:
        """Store the database client. Nothing is read yet."""
        self._database = database

    async def chunk(self, chunk_id: str) -> Snapshot | None:
        """Load a chunk with everything that is stored of it, or None. Costs one round trip."""
        snapshot = await self._database.get(self._database.document(CHUNKS, chunk_id))
        return snapshot if "content" in _get_fields(snapshot) else None

    async def source(self, source_id: str) -> Snapshot | None:
        """Load a source with everything that is stored of it, or None. Costs one round trip."""
        snapshot = await self._database.get(self._database.document(SOURCES, source_id))
        return snapshot if snapshot.exists else None

    async def forgotten_chunk(self, chunk_id: str) -> Snapshot | None:
        """Load a forgotten chunk that can be restored, or None. Costs one round trip."""
        snapshot = await self._database.get(self._database.document(COLLECTION, chunk_id))
        return snapshot if "document" in _get_fields(snapshot) else None

    async def admit_chunk(self, chunk_id: str) -> list[Write] | None:
        """Build the writes that let ingest store a chunk again whose text was deleted for good.

        Return None if the chunk was never forgotten. Costs two round trips.
        """
        forgotten = await self._database.get(self._database.document(COLLECTION, chunk_id))
        if not forgotten.exists:
            return None
        source_id = parse_source_id(chunk_id)
        record = self._database.document(FORGOTTEN_SOURCES, source_id)
        chunk_ids = ArrayRemove([chunk_id])
        writes: list[Write] = [
            _build_deletion(forgotten),
            lambda batch: batch.set(record, {"chunk_ids": chunk_ids}, merge=True),
        ]
        if source := await self.source(source_id):
            writes.append(put_if_unchanged(source, READ_AGAIN))
        return writes

    def admit_source(self, record: ForgottenSource, snapshot: Snapshot) -> list[Write]:
        """Build the write that lets ingest store a source again that was deleted for good.

        Raises:
            MovedElsewhere: Its passages are still being deleted, as the record's expiry shows.
        """
        if "expires_at" in (snapshot.to_dict() or {}):
            raise MovedElsewhere(
                "The passages of this source are just being deleted for good, by the job `purge`."
                " Try again when it has run.",
                details={"source_id": record.source_id},
            )
        if not record.chunk_ids:
            return [_build_deletion(snapshot)]
        remaining = ForgottenSource(source_id=record.source_id, chunk_ids=record.chunk_ids)
        return [put_if_unchanged(snapshot, forgotten_fields(remaining))]

    def keep_forgotten(
        self, record: ForgottenSource, snapshot: Snapshot, forgetter: Forgetter
    ) -> list[Write]:
        """Build the write after which a missing source stays forgotten when it comes back."""
        expiry = forgetter.fields() if record.document else {}
        return [put_if_unchanged(snapshot, {"missing": False} | expiry)]

    async def forget_chunk(
        self, chunk: Snapshot, source: Snapshot | None, forgetter: Forgetter
    ) -> list[Write]:
        """Build the writes that forget a chunk alone; its source has others, or does not exist."""
        chunk_ids = ArrayUnion([chunk.id])
        record = self._database.document(FORGOTTEN_SOURCES, chunk.get("source_id"))
        update = {"chunk_count": Increment(-1)} | READ_AGAIN | REWRITE
        return [
            *await self._build_moves([chunk], forgetter.fields(), forgetter.now),
            *([put_if_unchanged(source, update)] if source else []),
            lambda batch: batch.set(record, {"chunk_ids": chunk_ids}, merge=True),
        ]

    async def restore_chunk(
        self, forgotten: Snapshot, source: Snapshot, now: datetime
    ) -> list[Write]:
        """Build the writes that restore a chunk that was forgotten alone."""
        record = self._database.document(FORGOTTEN_SOURCES, source.id)
        chunk_ids = ArrayRemove([forgotten.id])
        update = {"chunk_count": Increment(1)} | READ_AGAIN | REWRITE
        return [
            *await self._build_restorations([forgotten], now),
            put_if_unchanged(source, update),
            lambda batch: batch.set(record, {"chunk_ids": chunk_ids}, merge=True),
        ]

    async def _build_moves(
        self, chunks: Sequence[Snapshot], record: Mapping[str, Any], now: datetime
    ) -> list[Write]:
        """Build the writes that move chunks with their extractions. One round trip.

        The points of the chunks leave the map at once, since the ids of chunks contain titles.
        """
        names = [name for chunk in chunks for name in _get_extracted(_get_fields(chunk))]
        references = [self._database.document(EXTRACTIONS, name) for name in names]
        snapshots, removals = await asyncio.gather(
            self._database.get_all(references),
            Maps(self._database).build_removal_writes([chunk.id for chunk in chunks]),
        )
        extractions = {snapshot.id: _get_fields(snapshot) for snapshot in snapshots}
        update = deletion_update(now) | {"extracted": DELETE_FIELD}
        writes: list[Write] = []
        for chunk in chunks:
            extracted = _get_extracted(_get_fields(chunk))
            stored = {name: extractions[name] for name in extracted if name in extractions}
            contents = {"document": _get_fields(chunk), "extractions": stored}
            data = {**record, **contents, "extraction_ids": sorted(stored)}
            writes.append(self._set(chunk.id, data))
            writes.append(put_if_unchanged(chunk, update))
            writes += removal_writes(self._database, extracted)
        return [*writes, *removals]

    def _set(self, chunk_id: str, data: dict[str, Any]) -> Write:
        reference = self._database.document(COLLECTION, chunk_id)
        return lambda batch: batch.set(reference, data)

    async def _build_restorations(
        self, forgotten: Sequence[Snapshot], now: datetime
    ) -> list[Write]:
        """Build the writes that move chunks back.

        Costs a round trip for the remains that the index job has not removed yet, one for what the
        chunks refer to, and one for the model of the vectors.
        """
        references = [self._database.document(CHUNKS, chunk.id) for chunk in forgotten]
        remains = {chunk.id: chunk for chunk in await self._database.get_all(references)}
        context = await self._load_restoration_context(forgotten)
        writes: list[Write] = []
        for chunk in forgotten:
            if "content" in _get_fields(remains.get(chunk.id)):
                writes += marker_writes(self._database, chunk.get("extractions"))
            else:
                writes += self._build_restoration(chunk, remains.get(chunk.id), context, now)
            writes.append(_build_deletion(chunk))
        return writes

    def _build_restoration(
        self,
        forgotten: Snapshot,
        remains: Snapshot | None,
        context: _RestorationContext,
        now: datetime,
    ) -> Iterator[Write]:
        extractions: Mapping[str, dict[str, Any]] = forgotten.get("extractions")
        document = context.restored_chunk(forgotten.get("document"), remains, now)
        if context.has_other_model(extractions):
            document = {name: value for name, value in document.items() if name != "extracted"}
            document["pending"] = {**document["pending"], "extract": now}
            yield from marker_writes(self._database, extractions)
            extractions = {}
        promoted = context.missing_originals(extractions)
        for name, data in extractions.items():
            if data.get("duplicate_of") in context.later_originals:
                # No job may promote a duplicate before its original follows.
                yield self._delete_marker(data["duplicate_of"])
            if name in promoted:
                yield self._set_extraction(name, _make_visible(data))
                document["extracted"] = {
                    **document["extracted"],
                    name: _make_entry_visible(document["extracted"][name], data),
                }
            else:
                yield self._set_extraction(name, data)
        yield from topic_count_writes(self._database, {}, _get_extracted(document))
        if remains is None:
            reference = self._database.document(CHUNKS, forgotten.id)
            yield lambda batch: batch.create(reference, document)
        else:
            obsolete = dict.fromkeys(_get_fields(remains).keys() - document.keys(), DELETE_FIELD)
            yield put_if_unchanged(remains, document | obsolete)

    def _set_extraction(self, name: str, data: dict[str, Any]) -> Write:
        extraction = self._database.document(EXTRACTIONS, name)
        return combine_writes(
            [lambda batch: batch.set(extraction, data), self._delete_marker(name)]
        )

    def _delete_marker(self, name: str) -> Write:
        marker = self._database.document(DELETION_MARKERS, name)
        return lambda batch: batch.delete(marker)

    async def _load_restoration_context(self, forgotten: Sequence[Snapshot]) -> _RestorationContext:
        documents = [chunk.get("document") for chunk in forgotten]
        clusters = {name for data in documents for name in data.get("cluster_id") or ()}
        extractions = {
            name: data for chunk in forgotten for name, data in chunk.get("extractions").items()
        }
        originals = {data.get("duplicate_of") for data in extractions.values()} - {None}
        references = [self._database.document(CLUSTERS, name) for name in sorted(clusters)]
        references += [self._database.document(EXTRACTIONS, name) for name in sorted(originals)]
        existing = {
            (snapshot.reference.parent.id, snapshot.id)
            for snapshot in await self._database.get_all(references, ["name"])
        }
        state = await EmbeddingSpace(self._database).load_state()
        present = {name for name in originals if (EXTRACTIONS, name) in existing}
        present |= originals & extractions.keys()
        return _RestorationContext(
            model=state.space[0] if state.space and not state.move else None,
            clusters=frozenset(name for name in clusters if (CLUSTERS, name) in existing),
            originals=frozenset(present),
            later_originals=await self._find_later_originals(forgotten, originals - present),
        )

    async def _find_later_originals(
        self, forgotten: Sequence[Snapshot], extraction_ids: Collection[str]
    ) -> frozenset[str]:
        """Return which of these extractions are restored with later chunks of the same source.

        Costs a round trip for each 30 of them.
        """
        restored_sources = {_get_fields(chunk).get("of_source") for chunk in forgotten} - {None}
        names = sorted(extraction_ids) if restored_sources else []
        later: set[str] = set()
        for start in range(0, len(names), MAX_IN):
            query = extractions_query(self._database.client, names[start : start + MAX_IN])
            for snapshot in await self._database.find(query):
                if _get_fields(snapshot).get("of_source") in restored_sources:
                    later.update(snapshot.get("extraction_ids"))
        return frozenset(later.intersection(names))


class MovedElsewhere(Conflict):
    """Another call, or the index job, is moving the same source."""


class SourceMove(Forgetting):
    """Moves one source with all its chunks, commit by commit.

    Each commit also changes the source's record, on the condition that nobody else did. So of two
    that move the same source, one stops.
    """

    def __init__(self, database: Database, source_id: str, update_time: Any) -> None:
        """Continue an operation.

        Args:
            database: The database.
            source_id: The source.
            update_time: The update time of the source's record in `forgotten_sources`.
        """
        super().__init__(database)
        self._source_id = source_id
        self._update_time = update_time
        self._source = database.document(SOURCES, source_id)
        self._record = database.document(FORGOTTEN_SOURCES, source_id)

    @classmethod
    async def begin_forgetting(
        cls,
        database: Database,
        source: Snapshot,
        record: ForgottenSource,
        snapshot: Snapshot,
        forgetter: Forgetter,
    ) -> SourceMove:
        """Record that a source is being forgotten, from when on ingest leaves it out.

        The commit changes the source, so that a run of ingest that has read it reads it again.

        Args:
            database: The database.
            source: The source, which exists.
            record: What is recorded of it in `forgotten_sources`.
            snapshot: The document of that record.
            forgetter: Who forgets it.

        Raises:
            WriteConflict: The source or its record changed since they were read. Read both again,
                since another call may have forgotten the source.
        """
        begun = replace(
            record,
            whole=True,
            unfinished=Unfinished.FORGETTING,
            document=source.to_dict(),
            missing=forgetter.missing,
        )
        results = await database.commit(
            [
                put_if_unchanged(snapshot, forgotten_fields(begun) | forgetter.fields()),
                put_if_unchanged(source, {MOVING: forgetter.now} | READ_AGAIN),
            ]
        )
        return cls(database, source.id, results[0].update_time)

    @classmethod
    async def begin_restoring(
        cls, database: Database, record: ForgottenSource, snapshot: Snapshot
    ) -> SourceMove:
        """Restore the document of a source, before its chunks. Until they are, nobody changes it.

        Raises:
            WriteConflict: The record changed since it was read.
        """
        source = database.document(SOURCES, record.source_id)
        document = (record.document or {}) | {MOVING: record.forgotten_at}
        begun = {"unfinished": Unfinished.RESTORING.value, "expires_at": DELETE_FIELD}
        results = await database.commit(
            [put_if_unchanged(snapshot, begun), lambda batch: batch.set(source, document)]
        )
        return cls(database, record.source_id, results[0].update_time)

    async def complete(
        self, record: ForgottenSource, now: datetime
    ) -> AsyncIterator[ContentCounts]:
        """Complete the operation that the record says, and yield what each commit moved.

        Raises:
            MovedElsewhere: Somebody else moves the source.
            WriteConflict: Somebody else has completed it.
        """
        forgets = record.unfinished is Unfinished.FORGETTING
        async for moved in self.move_chunks(now) if forgets else self.restore_chunks(now):
            yield moved
        await self._database.commit(
            self.finish_forgetting() if forgets else self.finish_restoring(record)
        )

    async def move_chunks(self, now: datetime) -> AsyncIterator[ContentCounts]:
        """Move the chunks of a source that is being forgotten, and yield what each commit moved.

        Raises:
            MovedElsewhere: Somebody else moves the source.
        """

        async def move(chunks: Sequence[Snapshot]) -> None:
            await self._commit(await self._build_moves(chunks, {"of_source": self._source_id}, now))

        query = of_source_query(self._database.client, self._source_id)
        async for chunks in self._commit_pages(query, move):
            yield count_contents(map(_get_fields, chunks))

    async def restore_chunks(self, now: datetime) -> AsyncIterator[ContentCounts]:
        """Restore the chunks of a source, and yield what each commit restored.

        Raises:
            MovedElsewhere: Somebody else moves the source.
        """

        async def restore(chunks: Sequence[Snapshot]) -> None:
            await self._commit(await self._build_restorations(chunks, now))

        query = forgotten_query(self._database.client, self._source_id)
        async for chunks in self._commit_pages(query, restore):
            yield count_contents(chunk.get("document") for chunk in chunks)

    def finish_forgetting(self) -> list[Write]:
        """Build the writes that delete a source whose chunks were moved."""
        option = LastUpdateOption(self._update_time)
        done = dict.fromkeys(("unfinished", "steps"), DELETE_FIELD)
        return [
            lambda batch: batch.update(self._record, done, option),
            lambda batch: batch.delete(self._source),
        ]

    def finish_restoring(self, record: ForgottenSource) -> list[Write]:
        """Build the writes that end the restoration of a source.

        Chunks that were forgotten one by one stay forgotten.
        """
        option = LastUpdateOption(self._update_time)
        done = {MOVING: DELETE_FIELD}
        writes: list[Write] = [lambda batch: batch.update(self._source, done)]
        if not record.chunk_ids:
            return [*writes, lambda batch: batch.delete(self._record, option)]
        whole = ForgottenSource(source_id=record.source_id, chunk_ids=record.chunk_ids)
        return [*writes, lambda batch: batch.update(self._record, forgotten_fields(whole), option)]

    async def _commit(self, writes: Sequence[Write]) -> None:
        option = LastUpdateOption(self._update_time)
        step = {"steps": Increment(1)}
        results = await self._database.commit(
            [*writes, lambda batch: batch.update(self._record, step, option)]
        )
        self._update_time = (
            results[-1].update_time
            if results
            else (await self._database.get(self._record, [])).update_time
        )

    async def _commit_pages(
        self, query: AsyncQuery, process: Callable[[Sequence[Snapshot]], Awaitable[None]]
    ) -> AsyncIterator[Sequence[Snapshot]]:
        """Process the results of a query, which then no longer match it; yield what was committed.

        A chunk that changed since it was read is read again.
        """
        has_more = True
        while has_more:
            page = await self._database.find(query)
            has_more = len(page) == PAGE
            async for chunks, outcome in bisect_batch(
                page, process, (CommitTooLarge, WriteConflict)
            ):
                if isinstance(outcome, CommitTooLarge):
                    raise outcome
                if isinstance(outcome, WriteConflict):
                    await self._require_unchanged_record()
                    has_more = True
                else:
                    yield chunks

    async def _require_unchanged_record(self) -> None:
        record = await self._database.get(self._record, [])
        if record.update_time != self._update_time:
            raise MovedElsewhere(
                "Another call or a job is moving this source at the same time. Try again in a few"
                " minutes.",
                details={"source_id": self._source_id},
            )


@dataclass(frozen=True, slots=True)
class _RestorationContext:
    """What restored chunks may refer to.

    Attributes:
        model: The model of the vectors in the database, or None while that changes.
        clusters: Their clusters that still exist.
        originals: The originals of their duplicate extractions that exist or are restored, too.
        later_originals: Those that are restored by a later commit.
    """

    model: str | None
    clusters: frozenset[str]
    originals: frozenset[str]
    later_originals: frozenset[str]

    def restored_chunk(
        self, stored: Mapping[str, Any], remains: Snapshot | None, now: datetime
    ) -> dict[str, Any]:
        """Return the fields of a chunk, without references to what no longer exists."""
        document = dict(stored)
        pending = {**(document.get("pending") or {}), "index": now}
        if document.get("embedding_model") not in (None, self.model):
            document = {name: value for name, value in document.items() if name not in NO_VECTOR}
            pending = {name: due for name, due in pending.items() if name != "cluster"}
            pending["embed"] = now
        if "embed" not in pending:
            pending["cluster"] = now  # The index job may have removed its point on the map.
        clusters = [name for name in document.get("cluster_id") or () if name in self.clusters]
        document |= {"pending": pending}
        if "cluster_id" in document:
            document["cluster_id"] = clusters
        # The postings have of the chunk what the remains say, and nothing if there are none.
        indexed = _get_fields(remains).get("indexed")
        document.pop("indexed", None)
        return document | ({"indexed": indexed} if indexed else {})

    def has_other_model(self, extractions: Mapping[str, Mapping[str, Any]]) -> bool:
        """Return whether the vector of an extraction is no longer comparable."""
        models = {data.get("embedding_model") for data in extractions.values()}
        return bool(models - {None, self.model})

    def missing_originals(self, extractions: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
        """Return the ids of duplicates whose original no longer exists."""
        originals = self.originals | self.later_originals
        return frozenset(
            name
            for name, data in extractions.items()
            if data.get("duplicate_of") and data["duplicate_of"] not in originals
        )


class ForgottenContents:
    """What was forgotten, until it is deleted for good."""

    def __init__(self, database: Database) -> None:
        """Store the database client. Nothing is read yet."""
        self._database = database

    async def delete_expired(self, now: datetime) -> AsyncIterator[int]:
        """Delete what can no longer be restored; yield the number of chunks of each commit."""
        client = self._database.client
        while chunks := await self._database.find(
            expired_query(client.collection(COLLECTION), now)
        ):
            contents = dict.fromkeys(
                ("document", "extractions", "extraction_ids", "expires_at"), DELETE_FIELD
            )
            writes = [put_if_unchanged(chunk, contents) for chunk in chunks]
            yield await self._database.commit_skipping_conflicts(writes)
        sources = client.collection(FORGOTTEN_SOURCES)
        while records := await self._database.find(expired_query(sources, now)):
            for record in records:
                async for deleted in self._delete_source(record):
                    yield deleted

    async def _delete_source(self, record: Snapshot) -> AsyncIterator[int]:
        """Delete a source and the chunks that were forgotten with it, unless it is restored."""
        text = put_if_unchanged(record, {"document": DELETE_FIELD})
        if not await self._database.commit_skipping_conflicts([text]):
            return
        query = forgotten_query(self._database.client, record.id).select([])
        while chunks := await self._database.find(query):
            writes = [_build_deletion(chunk) for chunk in chunks]
            yield await self._database.commit_skipping_conflicts(writes)
        done = {"expires_at": DELETE_FIELD}
        await self._database.commit([lambda batch: batch.update(record.reference, done)])

    async def count_expired(self, now: datetime) -> int:
        """Count the chunks and sources to delete. Costs two round trips."""
        client = self._database.client
        counts = [
            await self._database.count(expired_query(client.collection(name), now))
            for name in (COLLECTION, FORGOTTEN_SOURCES)
        ]
        return sum(counts)


def count_contents(documents: Iterable[Mapping[str, Any]]) -> ContentCounts:
    """Count what is stored of chunks, given their documents."""
    total = ContentCounts()
    for data in documents:
        state = read_indexed_state(data)
        total += ContentCounts(
            chunks=1,
            vectors=int("embedding_model" in data),
            cards=int(bool(data.get("knowledge_card"))),
            extractions=len(_get_extracted(data)),
            postings=len(state.terms) + len(state.facets),
        )
    return total


def of_source_query(client: AsyncClient, source_id: str) -> AsyncQuery:
    """Build the query for the first chunks of a source, with their vectors."""
    same = FieldFilter("source_id", "==", source_id)
    return client.collection(CHUNKS).where(filter=same).limit(PAGE)


def forgotten_query(client: AsyncClient, source_id: str) -> AsyncQuery:
    """Build the query for chunks that were forgotten with their source."""
    same = FieldFilter("of_source", "==", source_id)
    return client.collection(COLLECTION).where(filter=same).limit(PAGE)


def extractions_query(client: AsyncClient, extraction_ids: Sequence[str]) -> AsyncQuery:
    """Build the query for the forgotten chunks with any of up to `MAX_IN` extractions."""
    has_any = FieldFilter("extraction_ids", "array_contains_any", list(extraction_ids))
    query = client.collection(COLLECTION).where(filter=has_any)
    return query.select(["of_source", "extraction_ids"])


def expired_query(collection: AsyncCollectionReference, now: datetime) -> AsyncQuery:
    """Build the query for what can no longer be restored, the oldest first."""
    expired = FieldFilter("expires_at", "<=", now)
    query = collection.where(filter=expired).order_by("expires_at")
    return query.select(["expires_at"]).limit(PAGE)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Yield every query of this module, so that a test can check that each has an index."""
    yield of_source_query(client, "a")
    yield forgotten_query(client, "a")
    yield extractions_query(client, ["a"])
    for name in (COLLECTION, FORGOTTEN_SOURCES):
        yield expired_query(client.collection(name), utc_now())


def _make_visible(extraction: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a duplicate that becomes an original."""
    kind, topics = ExtractionType(extraction["type"]), extraction["topics"]
    visible = {name: value for name, value in extraction.items() if name != "duplicate_of"}
    return visible | {"facets": build_facets(kind, topics, extraction["source_id"])}


def _make_entry_visible(entry: Mapping[str, Any], extraction: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a duplicate that becomes an original in its chunk's `extracted`."""
    visible = {name: value for name, value in entry.items() if name != "duplicate"}
    return visible | {"topics": extraction["topics"]}


def _get_extracted(data: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return data.get("extracted") or {}


def _build_deletion(snapshot: Snapshot) -> Write:
    option = LastUpdateOption(snapshot.update_time)
    return lambda batch: batch.delete(snapshot.reference, option)


def _get_fields(snapshot: Snapshot | None) -> dict[str, Any]:
    return (snapshot.to_dict() or {}) if snapshot is not None else {}
