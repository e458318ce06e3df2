"""Documents that can be searched: read by id, found by their vectors and listed by date.

Beside what a reader sees of it, such a document holds `embedding`, `facets` (the ids of its facets
and the one that is its own) and `dated_at`.
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from google.cloud.firestore import AsyncCollectionReference, AsyncQuery, DocumentSnapshot
    from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery

    from shared.ai.embedding import Vector
    from shared.core.dates import DateSpan
    from shared.firestore.database import Database

    DateCursor = tuple[int, str]
    """Where a document stands among all by date: microseconds since 1970, and its id."""

MAX_ANY: Final = 30
"""Values that Firestore compares with at once."""
_DISTANCE: Final = "distance"
_DOWN: Final = BaseQuery.DESCENDING


@dataclass(frozen=True, slots=True)
class Neighbour(Generic[DocumentT]):
    """A document found by its vector.

    Attributes:
        document: The document.
        similarity: The cosine, from 0 to 1: opposite directions count as unrelated.
        distance: 1 - cosine, from 0 to 2, by which neighbours are ordered.
    """

    document: DocumentT
    similarity: float
    distance: float


def compare(document: DocumentT, vector: Vector, other: Sequence[float]) -> Neighbour[DocumentT]:
    """A document whose vector is at hand, compared with another unit vector."""
    return _neighbour(document, 1.0 - sum(map(mul, vector, other)))


def distance_key(each: Neighbour[Any]) -> tuple[float, str]:
    """The order in which the server gives neighbours too."""
    return each.distance, each.document.id


def _neighbour(document: DocumentT, distance: float) -> Neighbour[DocumentT]:
    return Neighbour(document, min(1.0, max(0.0, 1.0 - distance)), distance)


class Documents(Generic[DocumentT]):
    """Reads the documents of a corpus, and finds them by vector and by date."""

    def __init__(
        self,
        database: Database,
        collection: str,
        fields: Sequence[str],
        read: Callable[[str, dict[str, Any]], DocumentT | None],
    ) -> None:
        """Read them from this database.

        Args:
            database: The database.
            collection: Where they stand.
            fields: What is read of them.
            read: Makes a document of its id and these fields; None of one that is deleted.
        """
        self._database = database
        self._collection = collection
        self._fields = fields
        self._read = read

    async def get_all(self, ids: Sequence[str]) -> list[DocumentT]:
        """The documents that exist among those named, in the order named. One round trip."""
        references = [self._database.document(self._collection, name) for name in ids]
        snapshots = await self._database.get_all(references, self._fields)
        found = {snapshot.id: snapshot for snapshot in snapshots}
        return self._documents(found[name] for name in ids if name in found)

    async def nearest(
        self, vector: Vector, limit: int, facets: Sequence[str] = ()
    ) -> list[Neighbour[DocumentT]]:
        """The documents whose vectors are closest to `vector`, best first. One round trip.

        Similarity is max(0, 1 - cosine distance): opposite directions count as unrelated.

        Args:
            vector: A unit vector.
            limit: How many at most; Firestore gives 1,000.
            facets: The ids of at most 30 facets, one of which a document must bear; none: any.
        """
        collection = self._database.collection(self._collection)
        query = nearest_query(collection, self._fields, vector, limit, facets)
        snapshots = await self._database.find(query)
        return [
            _neighbour(document, float(snapshot.get(_DISTANCE)))
            for snapshot in snapshots
            for document in self._documents([snapshot])
        ]

    async def similarities(self, vector: Vector, ids: Sequence[str]) -> list[Neighbour[DocumentT]]:
        """These documents, best first, compared here; not those without a vector. One round trip.

        Reading them with their vectors is cheaper than a vector search prefiltered by their ids.
        """
        references = [self._database.document(self._collection, name) for name in ids]
        snapshots = await self._database.get_all(references, [*self._fields, "embedding"])
        neighbours = (self._compared(snapshot, vector) for snapshot in snapshots)
        return sorted(filter(None, neighbours), key=distance_key)

    def _compared(
        self, snapshot: DocumentSnapshot[Any], vector: Vector
    ) -> Neighbour[DocumentT] | None:
        """The document compared with `vector`; None of one that is deleted or not embedded yet."""
        data = snapshot.to_dict() or {}
        embedding, document = data.get("embedding"), self._read(snapshot.id, data)
        if document is None or embedding is None:
            return None
        return compare(document, vector, embedding)

    async def newest(
        self,
        limit: int,
        facets: Sequence[str] = (),
        span: DateSpan = ALL_DATES,
        after: DateCursor | None = None,
    ) -> list[DocumentT]:
        """Documents, those of the latest date first. One round trip.

        Args:
            limit: How many.
            facets: The ids of at most 30 facets, one of which they bear, as far as they are
                indexed; none: any document.
            span: The days of their dates.
            after: Where the last document that was seen stands.
        """
        collection = self._database.collection(self._collection)
        query = newest_query(collection, limit, facets, span, after).select(self._fields)
        return self._documents(await self._database.find(query))

    def _documents(self, snapshots: Iterable[DocumentSnapshot[Any]]) -> list[DocumentT]:
        found = (self._read(each.id, each.to_dict() or {}) for each in snapshots)
        return [document for document in found if document is not None]


def date_cursor(document: Searchable) -> DateCursor:
    """Where a document that was listed by date stands."""
    return to_microseconds(document.dated_at) if document.dated_at else 0, document.id


def nearest_query(
    documents: AsyncCollectionReference,
    fields: Sequence[str],
    vector: Vector,
    limit: int,
    facets: Sequence[str] = (),
) -> AsyncVectorQuery:
    """Neighbours of a vector, without their vectors."""
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
    """Documents by date, downwards."""
    query = dated_query(documents, span).order_by("dated_at", direction=_DOWN)
    query = query.order_by("__name__", direction=_DOWN)
    if facets:
        query = query.where(filter=FieldFilter("facets", "array_contains_any", list(facets)))
    if after:
        moment, name = from_microseconds(after[0]), documents.document(after[1])
        query = query.start_after({"dated_at": moment, "__name__": name})
    return query.limit(limit)


def dated_query(documents: AsyncCollectionReference, span: DateSpan) -> AsyncQuery:
    """The documents whose date lies in these days."""
    return documents.where(filter=FieldFilter("dated_at", ">=", span.start)).where(
        filter=FieldFilter("dated_at", "<=", span.end)
    )


def vector_shapes(documents: AsyncCollectionReference) -> Iterator[AsyncVectorQuery]:
    """Every query by vector, for the proof that each has its index."""
    yield nearest_query(documents, ["dated_at"], (1.0,), 1)
    yield nearest_query(documents, ["dated_at"], (1.0,), 1, ["tag:a", "tag:b"])


def date_shapes(documents: AsyncCollectionReference) -> Iterator[AsyncQuery]:
    """Every query by date, for the proof that each has its index."""
    for facets in ([], ["tag:a", "tag:b"]):
        yield newest_query(documents, 1, facets, ALL_DATES, None)
        yield newest_query(documents, 1, facets, ALL_DATES, (0, "a"))
