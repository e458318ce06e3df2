"""Reads searchable documents from Firestore: by id, by vector and by date.

Besides the fields that readers see, such a document contains its vector
(`shared.index.stored_vector`), `facets` (the ids of its facets, except the kinds of
`POSTINGS_ONLY`) and `dated_at`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic

from shared.core.dates import ALL_DATES, from_microseconds, to_microseconds
from shared.firestore.documents import Document, Reference
from shared.firestore.field_paths import join_path
from shared.firestore.queries import Query
from shared.index.searchable import DocumentT, Searchable
from shared.index.stored_vector import COMPACT, from_compact, read_compact
from shared.text.term_counts import TermCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from shared.ai.vector_halves import WeightedVector
    from shared.core.dates import DateSpan
    from shared.firestore.database import Database

    DateCursor = tuple[int, str]
    """A position in a listing by date: microseconds since 1970, and a document id."""

MAX_ARRAY_CONTAINS_ANY: Final = 30
"""The maximum number of values that Firestore accepts in one `array_contains_any`."""
DISTANCE: Final = "distance"
"""The field of a query's results in which Firestore returns the distance."""


@dataclass(frozen=True, slots=True)
class CountedDocument(Generic[DocumentT]):
    """A document, and how often the terms of a query occur in it.

    Attributes:
        counts: The terms' counts, or None if they were not requested or are not stored.
    """

    document: DocumentT
    counts: TermCounts | None = None


@dataclass(frozen=True, slots=True)
class Neighbour(Generic[DocumentT]):
    """A document that was compared with a vector.

    Attributes:
        similarity: The weighted mean of the cosines of the halves, from 0 to 1; a negative one
            becomes 0.
        distance: The cosine distance, from 0 to 2, by which neighbours are ordered.
    """

    document: DocumentT
    similarity: float
    distance: float
    counts: TermCounts | None = None


def compare(
    document: DocumentT,
    vector: WeightedVector,
    stored: Sequence[float],
    counts: TermCounts | None = None,
) -> Neighbour[DocumentT]:
    """Compare a document's stored vector with another, which has as many numbers."""
    return _make_neighbour(document, vector, vector.measure_distance(stored), counts)


def make_distance_key(neighbour: Neighbour[Any]) -> tuple[float, str]:
    """Return the sort key of a neighbour: nearest first, in the same order as the server."""
    return neighbour.distance, neighbour.document.id


def _make_neighbour(
    document: DocumentT, vector: WeightedVector, distance: float, counts: TermCounts | None
) -> Neighbour[DocumentT]:
    return Neighbour(document, vector.to_similarity(distance), distance, counts)


def _list_count_fields(terms: Iterable[str]) -> list[str]:
    """Return the paths of the terms' counts, which the index job stores in the field `indexed`."""
    paths = [join_path("indexed", "terms", term) for term in dict.fromkeys(terms)]
    return ["indexed.length", *paths] if paths else []


def _read_counts(data: Mapping[str, Any]) -> TermCounts | None:
    """Read the counts of the selected terms, or None if the document is not indexed yet."""
    stored = data.get("indexed", {})
    if not stored.get("length"):
        return None
    return TermCounts(stored.get("terms", {}), stored["length"])


class Documents(Generic[DocumentT]):
    """Reads the documents of a corpus by id, by vector and by date.

    Each read costs one round trip.
    """

    def __init__(
        self,
        database: Database,
        collection: str,
        fields: Sequence[str],
        read: Callable[[str, dict[str, Any]], DocumentT | None],
    ) -> None:
        """Store how documents are read. Nothing is read yet.

        Args:
            read: Builds a document from its id and fields, or returns None if it is deleted.
        """
        self._database = database
        self._collection = collection
        self._fields = fields
        self._read = read

    async def get_all(self, ids: Sequence[str]) -> list[DocumentT]:
        """Load the existing documents among these ids, in their order."""
        return [counted.document for counted in await self.get_all_counted(ids, ())]

    async def get_all_counted(
        self, ids: Sequence[str], terms: Sequence[str]
    ) -> list[CountedDocument[DocumentT]]:
        """Load the existing documents among these ids, in their order, with the terms' counts."""
        references = [Reference(self._collection, document_id) for document_id in ids]
        selected = [*self._fields, *_list_count_fields(terms)]
        snapshots = await self._database.get_all(references, selected)
        fields_by_id = {snapshot.id: snapshot.fields for snapshot in snapshots}
        return [
            CountedDocument(document, _read_counts(fields_by_id[document_id]))
            for document_id in ids
            if document_id in fields_by_id
            and (document := self._read(document_id, fields_by_id[document_id])) is not None
        ]

    async def find_nearest(
        self,
        vector: WeightedVector,
        limit: int,
        facets: Sequence[str] = (),
        terms: Sequence[str] = (),
    ) -> list[Neighbour[DocumentT]]:
        """Find the documents with the nearest vectors, nearest first.

        Args:
            limit: The maximum number of documents; Firestore returns at most 1,000.
            facets: The ids of at most 30 facets; only documents with one of them are searched. By
                default, all documents are searched.
        """
        collection = Query(self._collection)
        selected = [*self._fields, *_list_count_fields(terms)]
        query = nearest_query(collection, selected, vector, limit, facets)
        snapshots = await self._database.find(query)
        fields_by_id = {snapshot.id: snapshot.fields for snapshot in snapshots}
        return [
            _make_neighbour(document, vector, float(fields[DISTANCE]), _read_counts(fields))
            for document_id, fields in fields_by_id.items()
            if (document := self._read(document_id, fields)) is not None
        ]

    async def measure_similarities(
        self, vector: WeightedVector, ids: Sequence[str], terms: Sequence[str] = ()
    ) -> list[Neighbour[DocumentT]]:
        """Compare these documents with a vector, nearest first, and count the terms in them.

        Documents without a vector of the same length are left out. The vectors are read in their
        compact form, which is cheaper than a vector search filtered by ids.
        """
        references = [Reference(self._collection, document_id) for document_id in ids]
        selected = [*self._fields, COMPACT, *_list_count_fields(terms)]
        snapshots = await self._database.get_all(references, selected)
        fields_by_id = {snapshot.id: snapshot.fields for snapshot in snapshots}
        vectors = read_compact(fields_by_id, len(vector.values))
        neighbours = [
            compare(
                document, vector, from_compact(compact), _read_counts(fields_by_id[document_id])
            )
            for document_id, compact in vectors.items()
            if (document := self._read(document_id, fields_by_id[document_id])) is not None
        ]
        return sorted(neighbours, key=make_distance_key)

    async def load_newest(
        self,
        limit: int,
        facets: Sequence[str] = (),
        span: DateSpan = ALL_DATES,
        after: DateCursor | None = None,
        *,
        oldest_first: bool = False,
    ) -> list[DocumentT]:
        """Load documents by date, newest first by default.

        Args:
            facets: The ids of at most 30 facets; only documents that had one of them when they were
                last indexed are loaded. By default, all documents are loaded.
            span: The days within which the documents must be dated.
            after: The cursor of the previous page's last document.
        """
        query = dated_query(Query(self._collection), span)
        for path in ("dated_at", "__name__"):
            query = query.order_by(path, descending=not oldest_first)
        if facets:
            query = query.where("facets", "array_contains_any", list(facets))
        if after:
            moment, reference = from_microseconds(after[0]), Reference(self._collection, after[1])
            query = query.start_after({"dated_at": moment, "__name__": reference})
        query = query.select(self._fields).limit(limit)
        return self._read_documents(await self._database.find(query))

    def _read_documents(self, snapshots: Iterable[Document]) -> list[DocumentT]:
        documents = (self._read(snapshot.id, snapshot.fields) for snapshot in snapshots)
        return [document for document in documents if document is not None]


def make_date_cursor(document: Searchable) -> DateCursor:
    """Return the cursor with which a listing by date continues after this document."""
    # Stored documents have a date. The 0 only satisfies the type checker.
    return to_microseconds(document.dated_at) if document.dated_at else 0, document.id


def nearest_query(
    documents: Query,
    fields: Sequence[str],
    vector: WeightedVector,
    limit: int,
    facets: Sequence[str] = (),
) -> Query:
    """Build the query for the documents nearest to a vector, without reading their vectors."""
    query = documents.select([*fields, DISTANCE])
    if facets:
        query = query.where("facets", "array_contains_any", list(facets))
    return query.find_nearest(
        "embedding",
        vector.values,
        limit,
        distance_field=DISTANCE,
    )


def dated_query(documents: Query, span: DateSpan) -> Query:
    """Build the query for the documents dated within a span of days."""
    return documents.where("dated_at", ">=", span.start).where("dated_at", "<=", span.end)
