"""Plans what becomes of chunks: a change for each that is created, updated or deleted.

A change is made in one of two ways. A queued one leaves the postings to the index job, so its
commit need not know what the postings contain. One that is indexed at once changes the postings in
the same commit, and requires that no chunk has changed since it was read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.documents import Document, Reference, get_fields
from shared.firestore.values import DELETE_FIELD
from shared.firestore.writes import Create, Set, Update, Write, put_if_unchanged
from shared.index.facets import select_vector_index_facets
from shared.index.indexed_state import (
    NOT_INDEXED,
    IndexedState,
    compute_indexed_state,
    read_indexed_state,
)
from shared.index.on_request import is_on_request
from shared.index.posting_changes import IndexDifference
from shared.index.stored_vector import NO_VECTOR, build_vector_fields
from shared.knowledge.chunk_repository import (
    COLLECTION,
    READ_FIELDS,
    build_step_done,
    build_step_pending,
    to_chunk,
)
from shared.writer.chunk_documents import (
    BY_JOBS,
    build_deletion_update,
    build_new_document,
    build_update,
    compute_fingerprint,
)
from shared.writer.commits import ENTRIES_PER_DELETION, Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from shared.ai.embedding import Vector
    from shared.knowledge.chunk import Chunk

    StoredChunks = Mapping[str, Document]
    """Documents of chunks, by chunk id."""

STORED_FIELDS: Final = (*READ_FIELDS, "fingerprint", "content_hash", "created_at")
"""The fields of stored chunks that plans need."""
INDEXED_FIELDS: Final = (*STORED_FIELDS, "indexed", "extracted", "embedding_model")
"""The fields of stored chunks that plans with postings need."""


@dataclass(frozen=True, slots=True)
class ChunkVectors:
    """The vectors of chunks.

    Attributes:
        by_chunk: The vectors by chunk id. A chunk without a vector waits to be embedded.
    """

    model: str
    by_chunk: Mapping[str, Vector] = field(default_factory=dict)


def plan_queued(
    stored: StoredChunks, chunks: Iterable[Chunk], now: datetime, replaced_by: Mapping[str, str]
) -> Iterator[Change]:
    """Yield the changes that turn a source's stored chunks into `chunks`. Their postings wait.

    Their commit must require that the source has not changed since the chunks were read.

    Args:
        replaced_by: The ids of new chunks, by the ids of those whose notes they get.
    """
    obsolete = dict(stored)
    for chunk in chunks:
        document = obsolete.pop(chunk.chunk_id, None)
        if document is None:
            # A deleted chunk of this id may not be removed from the postings yet.
            no_remains = {"deleted_at": DELETE_FIELD, "replaced_by": DELETE_FIELD}
            fields = build_new_document(chunk, now) | no_remains
            write = Set(Reference(COLLECTION, chunk.chunk_id), fields, merge=True)
            yield Change("created", write)
        elif _differs(chunk, document):
            update = build_update(chunk, document.fields, now)
            yield Change("updated", Update(document.reference, update))
    for document in obsolete.values():
        fields = build_deletion_update(now)
        if successor := replaced_by.get(document.id):
            fields["replaced_by"] = successor
        deletion = Update(document.reference, fields)
        yield Change("deleted", deletion, ENTRIES_PER_DELETION)


def plan_updates(stored: StoredChunks, chunks: Iterable[Chunk], now: datetime) -> Iterator[Change]:
    """Yield the changes of those chunks that differ from what is stored of them.

    Each fails if its chunk has changed since it was read.
    """
    for chunk in chunks:
        document = stored[chunk.chunk_id]
        if _differs(chunk, document):
            update = build_update(chunk, document.fields, now)
            yield Change("updated", put_if_unchanged(document, update))


def plan_indexed(
    stored: StoredChunks, chunks: Iterable[Chunk], vectors: ChunkVectors, now: datetime
) -> Iterator[Change]:
    """Yield the changes that turn a source's stored chunks into `chunks`, with their postings.

    Args:
        stored: All stored chunks of the source, and what remains of deleted chunks that have the
            ids of new ones.
        vectors: The vectors of new chunks, and of those whose title changed.
    """
    obsolete = dict(stored)
    for chunk in chunks:
        document = obsolete.pop(chunk.chunk_id, None)
        vector = vectors.by_chunk.get(chunk.chunk_id)
        vector_fields = build_vector_fields(vector, vectors.model) if vector else {}
        if document is None or "content" not in document.fields:  # deleted
            yield _plan_indexed_creation(chunk, document, vector_fields, now)
        elif vector_fields or _differs(chunk, document):
            yield _plan_indexed_update(chunk, document, vector_fields, now)
    for document in obsolete.values():
        difference = IndexDifference(document.id, read_indexed_state(document.fields), NOT_INDEXED)
        removal = build_removal(document, now, {"indexed": DELETE_FIELD})
        yield Change("deleted", removal, ENTRIES_PER_DELETION, difference)


def build_removal(document: Document, now: datetime, fields: dict[str, Any] | None = None) -> Write:
    """Build the write that marks a chunk as deleted, if it has not changed since it was read.

    The same commit must delete its extractions.

    The index job removes the chunk's point from the map, what the postings still contain of it, and
    then the document.
    """
    update = build_deletion_update(now) | {"extracted": DELETE_FIELD} | (fields or {})
    return put_if_unchanged(document, update)


def build_indexed_fields(state: IndexedState) -> dict[str, Any]:
    """Return the fields of a chunk that is indexed in this state."""
    return {"indexed": state.to_document(), "facets": select_vector_index_facets(state.facets)}


def _differs(chunk: Chunk, document: Document) -> bool:
    return bool(document.get("fingerprint") != compute_fingerprint(chunk))


def _plan_indexed_creation(
    chunk: Chunk, remains: Document | None, vector_fields: dict[str, Any], now: datetime
) -> Change:
    if is_on_request(chunk.category, chunk.tags):
        vector_fields = {}
    steps = ("card", "extract", "cluster" if vector_fields else "embed")
    new = build_new_document(chunk, now, steps)
    state = compute_indexed_state(to_chunk(chunk.chunk_id, new))
    fields = new | vector_fields | build_indexed_fields(state)
    difference = IndexDifference(chunk.chunk_id, read_indexed_state(get_fields(remains)), state)
    write = (
        put_if_unchanged(remains, fields | {"deleted_at": DELETE_FIELD})
        if remains
        else Create(Reference(COLLECTION, chunk.chunk_id), fields)
    )
    return Change("created", write, 1 + len(fields["facets"]), difference)


def _plan_indexed_update(
    chunk: Chunk, document: Document, vector_fields: dict[str, Any], now: datetime
) -> Change:
    stored = to_chunk(document.id, document.fields)
    update = build_update(chunk, document.fields, now)
    if is_on_request(chunk.category, chunk.tags):  # The index job also removes it from the map.
        return Change("updated", put_if_unchanged(document, update))
    by_jobs = {name: getattr(stored, name) for name in BY_JOBS}
    state = compute_indexed_state(replace(chunk, **by_jobs))
    update |= build_step_done("index")
    update |= build_indexed_fields(state)
    if vector_fields:
        update |= build_step_done("embed") | build_step_pending("cluster", now) | vector_fields
    elif document.get("content_hash") != chunk.content_hash:
        # The vector is that of the former title. Until the job `embed` has made another, the chunk
        # is found by its words only, as the answer of `save_note` says.
        update |= NO_VECTOR
    difference = IndexDifference(document.id, read_indexed_state(document.fields), state)
    return Change(
        "updated", put_if_unchanged(document, update), 1 + len(update["facets"]), difference
    )
