"""Restoring: moving forgotten chunks with their extractions back.

What a chunk refers to may have changed since: its cluster may be gone, the model of the vectors may
be another, and the original of a duplicate extraction may be deleted. A restored chunk refers only
to what exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.core.blocks import split
from shared.extractions.extracted_chunks import COLLECTION as EXTRACTIONS
from shared.extractions.extracted_chunks import (
    DELETION_MARKERS,
    build_marker_writes,
    build_topic_count_writes,
)
from shared.extractions.model import ExtractionType, build_facets
from shared.firestore.documents import Document, Reference, get_fields
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD, ArrayRemove, Increment
from shared.firestore.writes import (
    Create,
    Delete,
    Set,
    Together,
    Write,
    delete_if_unchanged,
    put_if_unchanged,
)
from shared.index.embedding_space import EmbeddingSpace
from shared.index.stored_vector import NO_VECTOR
from shared.knowledge.chunk import Kept
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.cluster_repository import COLLECTION as CLUSTERS
from shared.knowledge.forgotten_repository import COLLECTION as FORGOTTEN_SOURCES
from shared.knowledge.source_repository import READ_AGAIN, REWRITE
from shared.writer.forgotten_chunks import COLLECTION, get_extraction_summaries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from shared.firestore.database import Database

MAX_QUERY_VALUES: Final = 30
"""Firestore's maximum number of values in one `array_contains_any`."""


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
        """Build the writes that move chunks back.

        Costs a round trip for the remains that the index job has not removed yet, one for what the
        chunks refer to, and one for the model of the vectors. If an original of their duplicate
        extractions does not exist, costs another for each 30 such originals.
        """
        references = [Reference(CHUNKS, chunk.id) for chunk in forgotten]
        remains = {chunk.id: chunk for chunk in await self._database.get_all(references)}
        targets = await self._load_reference_targets(forgotten)
        writes: list[Write] = []
        for chunk in forgotten:
            if "content" in get_fields(remains.get(chunk.id)):
                # Ingest has stored the chunk again; its former extractions stay deleted.
                writes += build_marker_writes(chunk.get("extractions"))
            else:
                writes += self._build_chunk_writes(chunk, remains.get(chunk.id), targets, now)
            writes.append(delete_if_unchanged(chunk))
        return writes

    def _build_chunk_writes(
        self,
        forgotten: Document,
        remains: Document | None,
        targets: _ReferenceTargets,
        now: datetime,
    ) -> Iterator[Write]:
        """Yield the writes that restore a chunk and its extractions.

        Extractions with vectors of another model are not restored, but made again.
        """
        extractions: Mapping[str, dict[str, Any]] = forgotten.get("extractions")
        document = targets.restore_fields(forgotten.get("document"), remains, now)
        if forgotten.fields.get("missing"):  # so that its origin does not delete it again
            document["kept"] = Kept.RESTORED.value
        if targets.has_other_model(extractions):
            document = {name: value for name, value in document.items() if name != "extracted"}
            document["pending"] = {**document["pending"], "extract": now}
            yield from build_marker_writes(extractions)
            extractions = {}
        without_original = targets.find_without_original(extractions)
        for name, data in extractions.items():
            if data.get("duplicate_of") in targets.later_originals:
                # No job may promote a duplicate before its original follows.
                yield self._delete_marker(data["duplicate_of"])
            if name in without_original:
                yield self._set_extraction(name, _make_original(data))
                document["extracted"] = {
                    **document["extracted"],
                    name: _summarize_as_original(document["extracted"][name], data),
                }
            else:
                yield self._set_extraction(name, data)
        yield from build_topic_count_writes({}, get_extraction_summaries(document))
        if remains is None:
            reference = Reference(CHUNKS, forgotten.id)
            yield Create(reference, document)
        else:
            obsolete = dict.fromkeys(remains.fields.keys() - document.keys(), DELETE_FIELD)
            yield put_if_unchanged(remains, document | obsolete)

    def _set_extraction(self, name: str, data: dict[str, Any]) -> Write:
        extraction = Reference(EXTRACTIONS, name)
        return Together([Set(extraction, data), self._delete_marker(name)])

    def _delete_marker(self, name: str) -> Write:
        marker = Reference(DELETION_MARKERS, name)
        return Delete(marker)

    async def _load_reference_targets(self, forgotten: Sequence[Document]) -> _ReferenceTargets:
        """Load which clusters and originals exist that chunks and their extractions refer to."""
        documents = [chunk.get("document") for chunk in forgotten]
        clusters = {name for data in documents for name in data.get("cluster_id") or ()}
        extractions = {
            name: data for chunk in forgotten for name, data in chunk.get("extractions").items()
        }
        originals = {data.get("duplicate_of") for data in extractions.values()} - {None}
        references = [Reference(CLUSTERS, name) for name in sorted(clusters)]
        references += [Reference(EXTRACTIONS, name) for name in sorted(originals)]
        existing = {
            (snapshot.reference.collection_id, snapshot.id)
            for snapshot in await self._database.get_all(references, ["name"])
        }
        state = await EmbeddingSpace(self._database).load_state()
        present = {name for name in originals if (EXTRACTIONS, name) in existing}
        present |= originals & extractions.keys()
        return _ReferenceTargets(
            model=state.space[0] if state.space and not state.migration else None,
            clusters=frozenset(name for name in clusters if (CLUSTERS, name) in existing),
            originals=frozenset(present),
            later_originals=await self._find_later_originals(forgotten, originals - present),
        )

    async def _find_later_originals(
        self, forgotten: Sequence[Document], extraction_ids: Collection[str]
    ) -> frozenset[str]:
        """Return which of these extractions are restored with later chunks of the same source.

        Costs a round trip for each 30 of them.
        """
        restored_sources = {chunk.fields.get("of_source") for chunk in forgotten} - {None}
        names = sorted(extraction_ids) if restored_sources else []
        later: set[str] = set()
        for block in split(names, MAX_QUERY_VALUES):
            query = (
                Query(COLLECTION)
                .where("extraction_ids", "array_contains_any", list(block))
                .select(["of_source", "extraction_ids"])
            )
            for snapshot in await self._database.find(query):
                if snapshot.fields.get("of_source") in restored_sources:
                    later.update(snapshot.get("extraction_ids"))
        return frozenset(later.intersection(names))


@dataclass(frozen=True, slots=True)
class _ReferenceTargets:
    """What restored chunks may refer to.

    Attributes:
        model: The model of the vectors in the database, or None while that changes.
        clusters: The ids of the chunks' clusters that still exist.
        originals: The ids of the originals of the chunks' duplicate extractions that exist, or are
            restored in the same commit.
        later_originals: The ids of those that a later commit restores.
    """

    model: str | None
    clusters: frozenset[str]
    originals: frozenset[str]
    later_originals: frozenset[str]

    def restore_fields(
        self, stored: Mapping[str, Any], remains: Document | None, now: datetime
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
        # The remains say under which words and facets the postings still list the chunk. Without
        # remains, they list it nowhere.
        indexed = get_fields(remains).get("indexed")
        document.pop("indexed", None)
        return document | ({"indexed": indexed} if indexed else {})

    def has_other_model(self, extractions: Mapping[str, Mapping[str, Any]]) -> bool:
        """Return whether the vector of an extraction cannot be compared with those of `model`."""
        models = {data.get("embedding_model") for data in extractions.values()}
        return bool(models - {None, self.model})

    def find_without_original(self, extractions: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
        """Return the ids of duplicates whose original no longer exists."""
        originals = self.originals | self.later_originals
        return frozenset(
            name
            for name, data in extractions.items()
            if data.get("duplicate_of") and data["duplicate_of"] not in originals
        )


def _make_original(extraction: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a duplicate extraction that becomes an original."""
    kind, topics = ExtractionType(extraction["type"]), extraction["topics"]
    original = {name: value for name, value in extraction.items() if name != "duplicate_of"}
    return original | {"facets": build_facets(kind, topics, extraction["source_id"])}


def _summarize_as_original(
    summary: Mapping[str, Any], extraction: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the chunk stores of a duplicate extraction that becomes an original."""
    original = {name: value for name, value in summary.items() if name != "duplicate"}
    return original | {"topics": extraction["topics"]}
