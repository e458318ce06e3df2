"""`forgotten/{chunk_id}`: a forgotten chunk as it was stored, and its extractions.

A forgotten chunk can be restored for some time. Then the job `purge` deletes it for good.

- If it was forgotten alone, the document also records who did that, when and why. `purge` deletes
  the text and the extractions, and the record stays.
- If it was forgotten with its source, the record is in `forgotten_sources/{source_id}`, and the
  document has the id of the source in `of_source`. `purge` deletes the whole document.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.queries import Query
from shared.firestore.retention import Dependents, Retention
from shared.index.indexed_state import read_indexed_state
from shared.knowledge.forgotten_repository import COLLECTION as FORGOTTEN_SOURCES
from shared.knowledge.source_repository import FORMER_REVISIONS, make_revisions_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

COLLECTION: Final = "forgotten"
CHUNKS_PER_COMMIT: Final = 25
"""The maximum number of chunks that one commit moves or deletes. Firestore's limit also covers the
deleted index entries. A chunk has one for each facet, and each contains the vector."""


@dataclass(frozen=True, slots=True)
class ContentCounts:
    """How much is forgotten or restored with chunks.

    Attributes:
        vectors: The number of chunks with a vector.
        extractions: The number of their decisions, patterns, warnings and methodologies.
        postings: The number of their entries in the postings of words and facets.
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


def count_contents(documents: Iterable[Mapping[str, Any]]) -> ContentCounts:
    """Count what belongs to chunks, given the fields of their documents."""
    total = ContentCounts()
    for document in documents:
        state = read_indexed_state(document)
        total += ContentCounts(
            chunks=1,
            vectors=int("embedding_model" in document),  # stored together with the vector
            cards=int(bool(document.get("knowledge_card"))),
            extractions=len(get_extraction_ids(document)),
            postings=len(state.terms) + len(state.facets),
        )
    return total


def get_extraction_ids(chunk_fields: Mapping[str, Any]) -> Collection[str]:
    """Return the ids of the extractions that a chunk's document names."""
    return (chunk_fields.get("extracted") or {}).keys()


def forgotten_with_source_query(source_id: str) -> Query:
    """Build the query for chunks that were forgotten with a source: as many as one commit moves."""
    return Query(COLLECTION).where("of_source", "==", source_id).limit(CHUNKS_PER_COMMIT)


RESTORABLE_SOURCES: Final = Retention(
    title="forgotten sources, with their passages and revisions; who forgot them, and why, stays",
    collection=FORGOTTEN_SOURCES,
    duration=timedelta(days=30),
    contents=("document",),
    dependents=(
        Dependents(
            name=COLLECTION,
            query=lambda source: forgotten_with_source_query(source.id),
            commit_size=CHUNKS_PER_COMMIT,
        ),
        Dependents(
            name=FORMER_REVISIONS.collection,
            query=lambda source: Query(make_revisions_path(source.id)),
            commit_size=50,
        ),
    ),
)
RESTORABLE_CHUNKS: Final = Retention(
    title="passages that were forgotten alone; who forgot them, and why, stays",
    collection=COLLECTION,
    duration=RESTORABLE_SOURCES.duration,
    contents=("document", "extractions"),
)
