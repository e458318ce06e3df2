"""Searchable documents in Firestore: by id, by vector and by date.

Besides the fields that readers see, such a document has its vector (`shared.index.stored_vector`),
`facets` (the ids of its facets, but those of `POSTINGS_ONLY`) and `dated_at`.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import mul
from typing import TYPE_CHECKING, Any, Final, Generic

from google.cloud.firestore_v1.base_query import BaseQuery, FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector as FirestoreVector

from shared.core.dates import ALL_DATES, from_microseconds, to_microseconds
from shared.index.searchable import DocumentT, Searchable
from shared.index.stored_vector import COMPACT_FIELDS, from_compact, load_compact
from shared.index.term_counts import read_term_counts, term_count_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from google.cloud.firestore import AsyncCollectionReference, AsyncQuery, DocumentSnapshot
    from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery

    from shared.ai.embedding import Vector
    from shared.core.dates import DateSpan
    from shared.firestore.database import Database
    from shared.index.term_counts import TermCounts

    DateCursor = tuple[int, str]
    """A place in a listing by date: microseconds since 1970, and a document id."""

MAX_ANY: Final = 30
"""Values that Firestore accepts in one `array_contains_any`."""
_DISTANCE: Final = "distance"
_DOWN: Final = BaseQuery.DESCENDING


@dataclass(frozen=True, slots=True)
class CountedDocument(Generic[DocumentT]):
    """A document, and how often it has the terms of a query.

    Attributes:
        document: The document.
        counts: The counts of the terms, or None if they were not asked for or are not stored.
    """

    document: DocumentT
    counts: TermCounts | None = None


@dataclass(frozen=True, slots=True)
class Neighbour(Generic[DocumentT]):
    """A document found by its vector.

    Attributes:
        document: The document.
        similarity: The cosine, from 0 to 1; negative ones become 0.
        distance: 1 - cosine, from 0 to 2, by which neighbours are ordered.
        counts: The counts of the terms, or None if they were not asked for or are not stored.
    """

    document: DocumentT
    similarity: float
    distance: float
    counts: TermCounts | None = None


def compare(
    document: DocumentT, vector: Vector, other: Sequence[float], counts: TermCounts | None = None
) -> Neighbour[DocumentT]:
    """Compare a document's vector with another unit vector of the same length."""
    return _make_neighbour(document, 1.0 - sum(map(mul, vector, other)), counts)


def distance_key(neighbour: Neighbour[Any]) -> tuple[float, str]:
    """Return the sort key of a neighbour: nearest first, in the server's order."""
    return neighbour.distance, neighbour.document.id


def _make_neighbour(
    document: DocumentT, distance: float, counts: TermCounts | None
) -> Neighbour[DocumentT]:
    return Neighbour(document, min(1.0, max(0.0, 1.0 - distance)), distance, counts)


class Documents(Generic[DocumentT]):
    """Reads the documents of a corpus by id, by vector and by date."""

    def __init__(
        self,
        database: Database,
        collection: str,
        fields: Sequence[str],
        read: Callable[[str, dict[str, Any]], DocumentT | None],
    ) -> None:
        """Store the database client. Nothing is read yet.

        Args:
            database: The database.
            collection: Their collection.
            fields: The fields to read.
            read: Builds a document from its id and fields, or returns None if it is deleted.
        """
        self._database = database
        self._collection = collection
        self._fields = fields
        self._read = read

    async def get_all(self, ids: Sequence[str]) -> list[DocumentT]:
        """Load these documents in this order, without missing ones. Costs one round trip."""
        return [item.document for item in await self.get_all_counted(ids, ())]

    async def get_all_counted(
        self, ids: Sequence[str], terms: Sequence[str]
    ) -> list[CountedDocument[DocumentT]]:
        """Load these documents in this order, without missing ones, with the counts of terms.

        Costs one round trip.
        """
        references = [self._database.document(self._collection, name) for name in ids]
        names = [*self._fields, *term_count_fields(terms)]
        snapshots = await self._database.get_all(references, names)
        fields = {snapshot.id: snapshot.to_dict() or {} for snapshot in snapshots}
        return [
            CountedDocument(document, read_term_counts(fields[name]))
            for name in ids
            if name in fields and (document := self._read(name, fields[name])) is not None
        ]

    async def find_nearest(
        self, vector: Vector, limit: int, facets: Sequence[str] = (), terms: Sequence[str] = ()
    ) -> list[Neighbour[DocumentT]]:
        """Search the documents whose vectors are closest, best first. Costs one round trip.

        Args:
            vector: A unit vector.
            limit: Maximum number of documents; Firestore returns at most 1,000.
            facets: The ids of at most 30 facets, one of which a document must have; none: all
                documents.
            terms: The terms to count.
        """
        collection = self._database.collection(self._collection)
        names = [*self._fields, *term_count_fields(terms)]
        query = nearest_query(collection, names, vector, limit, facets)
        snapshots = await self._database.find(query)
        fields = {snapshot.id: snapshot.to_dict() or {} for snapshot in snapshots}
        return [
            _make_neighbour(document, float(data[_DISTANCE]), read_term_counts(data))
            for name, data in fields.items()
            if (document := self._read(name, data)) is not None
        ]

    async def measure_similarities(
        self, vector: Vector, ids: Sequence[str], terms: Sequence[str] = ()
    ) -> list[Neighbour[DocumentT]]:
        """Compare these documents with a vector. Return the comparable ones, best first.

        The terms are counted.
        A document without a vector, or with one of another length, is not comparable. Costs one
        round trip, and more for documents of earlier releases. Reading compact vectors is cheaper
        than a vector search filtered by ids.
        """
        references = [self._database.document(self._collection, name) for name in ids]
        names = [*self._fields, *COMPACT_FIELDS, *term_count_fields(terms)]
        snapshots = await self._database.get_all(references, names)
        fields = {snapshot.id: snapshot.to_dict() or {} for snapshot in snapshots}
        vectors = await load_compact(fields, self._collection, self._database, len(vector))
        neighbours = [
            compare(document, vector, from_compact(compact), read_term_counts(fields[name]))
            for name, compact in vectors.items()
            if (document := self._read(name, fields[name])) is not None
        ]
        return sorted(neighbours, key=distance_key)

    async def load_newest(
        self,
        limit: int,
        facets: Sequence[str] = (),
        span: DateSpan = ALL_DATES,
        after: DateCursor | None = None,
    ) -> list[DocumentT]:
        """Load documents, newest first. Costs one round trip.

        Args:
            limit: Maximum number of documents.
            facets: The ids of at most 30 facets, one of which a document must have, as of the last
                indexing; none: all documents.
            span: The days of their dates.
            after: The cursor of the previous page's last document.
        """
        collection = self._database.collection(self._collection)
        query = newest_query(collection, limit, facets, span, after).select(self._fields)
        return self._read_documents(await self._database.find(query))

    def _read_documents(self, snapshots: Iterable[DocumentSnapshot[Any]]) -> list[DocumentT]:
        documents = (self._read(snapshot.id, snapshot.to_dict() or {}) for snapshot in snapshots)
        return [document for document in documents if document is not None]


def date_cursor(document: Searchable) -> DateCursor:
    """Return the cursor after a document in a listing by date."""
    return to_microseconds(document.dated_at) if document.dated_at else 0, document.id


def nearest_query(
    documents: AsyncCollectionReference,
    fields: Sequence[str],
    vector: Vector,
    limit: int,
    facets: Sequence[str] = (),
) -> AsyncVectorQuery:
    """Query the neighbours of a vector, without their vectors."""
    query = documents.select([*fields, _DISTANCE])
    if facets:
        query = query.where(filter=FieldFilter("facets", "array_contains_any", list(facets)))
    return query.find_nearest(
        "embedding",
        FirestoreVector(list(vector)),
        limit=limit,
        distance_measure=DistanceMeasure.COSINE,
        distance_result_field=_DISTANCE,
    )


def newest_query(
    documents: AsyncCollectionReference,
    limit: int,
    facets: Sequence[str],
    span: DateSpan,
    after: DateCursor | None,
) -> AsyncQuery:
    """Query documents by date, newest first."""
    query = dated_query(documents, span).order_by("dated_at", direction=_DOWN)
    query = query.order_by("__name__", direction=_DOWN)
    if facets:
        query = query.where(filter=FieldFilter("facets", "array_contains_any", list(facets)))
    if after:
        moment, name = from_microseconds(after[0]), documents.document(after[1])
        query = query.start_after({"dated_at": moment, "__name__": name})
    return query.limit(limit)


def dated_query(documents: AsyncCollectionReference, span: DateSpan) -> AsyncQuery:
    """Query the documents dated in these days."""
    return documents.where(filter=FieldFilter("dated_at", ">=", span.start)).where(
        filter=FieldFilter("dated_at", "<=", span.end)
    )


def vector_shapes(documents: AsyncCollectionReference) -> Iterator[AsyncVectorQuery]:
    """Yield every query by vector, to prove that each has its index."""
    yield nearest_query(documents, ["dated_at"], (1.0,), 1)
    yield nearest_query(documents, ["dated_at"], (1.0,), 1, ["tag:a", "tag:b"])


def date_shapes(documents: AsyncCollectionReference) -> Iterator[AsyncQuery]:
    """Yield every query by date, to prove that each has its index."""
    for facets in ([], ["tag:a", "tag:b"]):
        yield newest_query(documents, 1, facets, ALL_DATES, None)
        yield newest_query(documents, 1, facets, ALL_DATES, (0, "a"))
