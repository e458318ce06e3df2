"""Restoring: moving forgotten chunks with their extractions back.

What a chunk refers to may have changed since: its cluster may be gone, or the model of the vectors
may be another. A restored chunk refers only to what exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.extractions.groups import ExtractionGroups
from shared.firestore.documents import Document, Reference, get_fields
from shared.firestore.values import DELETE_FIELD, ArrayRemove, Increment
from shared.firestore.writes import Create, Set, Write, delete_if_unchanged, put_if_unchanged
from shared.index.embedding_space import EmbeddingSpace
from shared.index.stored_vector import NO_VECTOR
from shared.knowledge.chunk import Kept
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.cluster_repository import COLLECTION as CLUSTERS
from shared.knowledge.forgotten_chunks import COLLECTION
from shared.knowledge.forgotten_repository import COLLECTION as FORGOTTEN_SOURCES
from shared.knowledge.source_repository import READ_AGAIN, REWRITE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.firestore.database import Database


class Restoring:
    """Moves forgotten chunks back."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load_forgotten_chunk(self, chunk_id: str) -> Document | None:
        """Load a forgotten chunk whose text is still stored, or None. Costs one round trip."""
        snapshot = await self._database.get(Reference(COLLECTION, chunk_id))
        return snapshot if "document" in snapshot.fields else None

    async def build_restore_writes(
        self, forgotten: Document, source: Document, now: datetime
    ) -> list[Write]:
        """Build the writes that restore a chunk that was forgotten alone.

        Costs the round trips of `build_move_back_writes`.
        """
        record = Reference(FORGOTTEN_SOURCES, source.id)
        chunk_ids = ArrayRemove([forgotten.id])
        update = {"chunk_count": Increment(1)} | READ_AGAIN | REWRITE
        return [
            *await self.build_move_back_writes([forgotten], now),
            put_if_unchanged(source, update),
            Set(record, {"chunk_ids": chunk_ids}, merge=True),
        ]

    async def build_move_back_writes(
        self, forgotten: Sequence[Document], now: datetime
    ) -> list[Write]:
        """Build the writes that move chunks back with their extractions.

        Costs a round trip for the remains that the index job has not removed yet, one for the
        clusters, one for the model of the vectors, and up to two for the groups of extractions.
        """
        references = [Reference(CHUNKS, chunk.id) for chunk in forgotten]
        remains = {chunk.id: chunk for chunk in await self._database.get_all(references)}
        surroundings = await self._load_surroundings(forgotten)
        writes: list[Write] = []
        extractions: dict[str, dict[str, Any]] = {}
        for chunk in forgotten:
            writes.append(delete_if_unchanged(chunk))
            if "content" in get_fields(remains.get(chunk.id)):
                continue  # Ingest has stored the chunk again; its former extractions stay deleted.
            document = surroundings.restore_fields(chunk, remains.get(chunk.id), now)
            if "extracted" in document:
                extractions |= chunk.get("extractions")
            writes.append(_build_chunk_write(chunk.id, document, remains.get(chunk.id)))
        return [*writes, *await ExtractionGroups(self._database).build_writes([], extractions)]

    async def _load_surroundings(self, forgotten: Sequence[Document]) -> _Surroundings:
        """Load the model of the vectors, and which clusters of chunks still exist."""
        clusters = {
            name for chunk in forgotten for name in chunk.get("document").get("cluster_id") or ()
        }
        references = [Reference(CLUSTERS, name) for name in sorted(clusters)]
        existing = await self._database.get_all(references, ["name"])
        state = await EmbeddingSpace(self._database).load_state()
        return _Surroundings(
            model=state.space[0] if state.space and not state.migration else None,
            clusters=frozenset(cluster.id for cluster in existing),
        )


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What restored chunks may refer to.

    Attributes:
        model: The model of the vectors in the database, or None while that changes.
        clusters: The ids of the chunks' clusters that still exist.
    """

    model: str | None
    clusters: frozenset[str]

    def restore_fields(
        self, forgotten: Document, remains: Document | None, now: datetime
    ) -> dict[str, Any]:
        """Return the fields of a chunk, without references to what no longer exists.

        If its extractions have vectors of another model, they are made again.
        """
        document = dict(forgotten.get("document"))
        pending = {**(document.get("pending") or {}), "index": now}
        if document.get("embedding_model") not in (None, self.model):
            document = {name: value for name, value in document.items() if name not in NO_VECTOR}
            pending = {name: due for name, due in pending.items() if name != "cluster"}
            pending["embed"] = now
        if "embed" not in pending:
            pending["cluster"] = now  # The index job may have removed its point on the map.
        extractions = forgotten.get("extractions").values()
        if {data.get("embedding_model") for data in extractions} - {None, self.model}:
            del document["extracted"]
            pending["extract"] = now
        document["pending"] = pending
        if "cluster_id" in document:
            document["cluster_id"] = [
                name for name in document["cluster_id"] or () if name in self.clusters
            ]
        if forgotten.fields.get("missing"):  # so that its origin does not delete it again
            document["kept"] = Kept.RESTORED.value
        # The remains say under which words and facets the postings still list the chunk. Without
        # remains, they list it nowhere.
        indexed = get_fields(remains).get("indexed")
        document.pop("indexed", None)
        return document | ({"indexed": indexed} if indexed else {})


def _build_chunk_write(chunk_id: str, document: dict[str, Any], remains: Document | None) -> Write:
    """Build the write that stores a chunk in the place of its remains."""
    if remains is None:
        return Create(Reference(CHUNKS, chunk_id), document)
    obsolete = dict.fromkeys(remains.fields.keys() - document.keys(), DELETE_FIELD)
    return put_if_unchanged(remains, document | obsolete)
