"""`lexicon/{term}` and `facets/{facet}`: the postings that search reads, one document each.

A document has `df` (the document frequency), `postings` (document id to entry), `held` (an upper
bound of the number of entries: their number at the last truncation plus those added since) and,
once it was truncated, `since` (the date from which a facet's postings are complete). A month has
`days` (its documents by day, those that truncation dropped included). `meta/lexicon` contains the
totals. Each corpus has its own collections; those of traces are `trace_lexicon`,
`trace_facets` and `meta/trace_lexicon`.

Many writers change postings, so none of them can know that postings are empty. Empty postings stay,
with a `df` of 0, until the repair job deletes them, and readers treat them as missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_query import FieldFilter

from shared.index.bm25 import Postings, Totals
from shared.index.facets import Facet, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from google.cloud.firestore import (
        AsyncClient,
        AsyncCollectionReference,
        AsyncQuery,
        DocumentSnapshot,
    )

    from shared.firestore.database import Database

PostingsRef = tuple[str, str]
"""Postings by their collection and document id."""


@dataclass(frozen=True, slots=True)
class IndexCollections:
    """The collections of a corpus's index.

    Attributes:
        lexicon: The collection of the terms' postings.
        facets: The collection of the facets' postings.
        totals: The document of the totals.
    """

    lexicon: str
    facets: str
    totals: PostingsRef


LAYOUT: Final = 4
"""The version of what the index job stores. Raise it if that changes, such as a chunk's facets."""
KNOWLEDGE: Final = IndexCollections("lexicon", "facets", ("meta", "lexicon"))
TRACES: Final = IndexCollections("trace_lexicon", "trace_facets", ("meta", "trace_lexicon"))


@dataclass(frozen=True, slots=True)
class SearchPostings:
    """The postings of one search.

    Attributes:
        terms: The postings of those terms that any document has.
        facets: The postings of those facets that any document has.
        totals: The totals of the whole corpus.
    """

    terms: Mapping[str, Postings]
    facets: Mapping[Facet, Postings]
    totals: Totals


@dataclass(frozen=True, slots=True)
class FacetCounts:
    """The numbers of documents that have some facets.

    Attributes:
        documents: The number of indexed documents that have each facet.
        layout: The LAYOUT that the index was made with, or None if nothing is indexed.
    """

    documents: Mapping[Facet, int]
    layout: int | None


NO_POSTINGS: Final = SearchPostings({}, {}, Totals(0, 0))
"""The postings of a search that could not read any in time."""


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A facet, its name as written, and how many documents have it."""

    facet: Facet
    name: str
    count: int


class InvertedIndex:
    """Reads the postings of a corpus."""

    def __init__(self, database: Database, names: IndexCollections) -> None:
        """Store the database client and the names of the collections."""
        self._database = database
        self._names = names

    async def read(self, terms: Sequence[str], facets: Sequence[Facet]) -> SearchPostings:
        """Load the postings of these terms and facets, and the totals. Costs one round trip."""
        by_id = {facet.id: facet for facet in facets}
        references = [
            *(self._database.document(self._names.lexicon, term) for term in dict.fromkeys(terms)),
            *(self._database.document(self._names.facets, name) for name in by_id),
            self._database.document(*self._names.totals),
        ]
        snapshots = await self._database.get_all(references)
        totals = next(
            (
                snapshot
                for snapshot in snapshots
                if _get_collection(snapshot) == self._names.totals[0]
            ),
            None,
        )
        return SearchPostings(
            _select_in_use(snapshots, self._names.lexicon),
            {
                by_id[name]: postings
                for name, postings in _select_in_use(snapshots, self._names.facets).items()
            },
            to_totals(totals.to_dict() if totals else None),
        )

    async def count_documents(self, facets: Sequence[Facet]) -> FacetCounts:
        """Load the number of documents that have each of these facets. Costs one round trip."""
        references = [self._database.document(self._names.facets, facet.id) for facet in facets]
        totals = self._database.document(*self._names.totals)
        snapshots = await self._database.get_all([*references, totals], ["df", "layout"])
        by_path = {snapshot.reference.path: snapshot.to_dict() or {} for snapshot in snapshots}
        counts = {
            facet: by_path.get(reference.path, {}).get("df", 0)
            for facet, reference in zip(facets, references, strict=True)
        }
        return FacetCounts(counts, by_path.get(totals.path, {}).get("layout"))

    async def list_commonest(self, kind: Kind, limit: int) -> list[FacetValue]:
        """Load the most common values of a kind, most common first. Costs one round trip."""
        query = commonest_query(self._facets, kind).select(_NAME_FIELDS).limit(limit)
        return [_to_name(kind, snapshot) for snapshot in await self._database.find(query)]

    async def count_values(self, kind: Kind) -> int:
        """Count the values of a kind. Costs one round trip."""
        return await self._database.count(commonest_query(self._facets, kind))

    async def list_by_prefix(
        self, kind: Kind, prefix: str, limit: int, after: str = ""
    ) -> list[FacetValue]:
        """Load the values of a kind whose key begins with `prefix` and follows `after`, by key.

        Costs one round trip.
        """
        query = prefix_query(self._facets, kind, prefix, limit, after)
        return [_to_name(kind, snapshot) for snapshot in await self._database.find(query)]

    @property
    def _facets(self) -> AsyncCollectionReference:
        return self._database.collection(self._names.facets)


_NAME_FIELDS: Final = ("key", "name", "df")


def commonest_query(facets: AsyncCollectionReference, kind: Kind) -> AsyncQuery:
    """Query the facets of a kind that any document has, the most common first."""
    return (
        facets.where(filter=FieldFilter("kind", "==", kind.value))
        .where(filter=FieldFilter("df", ">", 0))
        .order_by("df", direction="DESCENDING")
    )


def prefix_query(
    facets: AsyncCollectionReference, kind: Kind, prefix: str, limit: int, after: str = ""
) -> AsyncQuery:
    """Query the facets of a kind by the prefix of their keys, after `after`, without entries."""
    return (
        facets.where(filter=FieldFilter("kind", "==", kind.value))
        .where(filter=FieldFilter("key", *((">", after) if after else (">=", prefix))))
        .where(filter=FieldFilter("key", "<", prefix + "\U0010ffff"))
        .where(filter=FieldFilter("df", ">", 0))
        .order_by("key")
        .order_by("df")
        .select(_NAME_FIELDS)
        .limit(limit)
    )


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Yield every query of this module, to prove that each has its index."""
    for names in (KNOWLEDGE, TRACES):
        facets = client.collection(names.facets)
        yield commonest_query(facets, Kind.TAG)
        yield prefix_query(facets, Kind.TAG, "a", 1)
        yield prefix_query(facets, Kind.TAG, "a", 1, "ab")


def to_totals(data: dict[str, Any] | None) -> Totals:
    """Read the totals from their document. They are zero if it is missing."""
    fields = data or {}
    return Totals(fields.get("documents", 0), fields.get("length", 0))


def _select_in_use(
    snapshots: Iterable[DocumentSnapshot[Any]], collection: str
) -> dict[str, Postings]:
    """Return the postings of a collection that are not empty, by id."""
    by_id = {
        snapshot.id: _to_postings(snapshot)
        for snapshot in snapshots
        if _get_collection(snapshot) == collection
    }
    return {name: postings for name, postings in by_id.items() if postings.df > 0}


def _get_collection(snapshot: DocumentSnapshot[Any]) -> str:
    return str(snapshot.reference.parent.id)


def _to_postings(snapshot: DocumentSnapshot[Any]) -> Postings:
    """Read postings from a document. Missing fields in a damaged one must not fail a search."""
    data = snapshot.to_dict() or {}
    entries = data.get("postings", {})
    df = data.get("df", len(entries))
    return Postings(df, entries, data.get("since", 0), data.get("days", {}))


def _to_name(kind: Kind, snapshot: DocumentSnapshot[Any]) -> FacetValue:
    data = snapshot.to_dict() or {}
    return FacetValue(Facet(kind, data["key"]), data["name"], data["df"])
