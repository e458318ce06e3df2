"""`lexicon/{term}` and `facets/{facet}`: the lists that search reads, one document each.

A list holds `df` (how many documents stand on it), `postings` (document id to entry), `held` (at
least as many as there are entries: what it held when it was last cut, and what was added since)
and, once it was cut, `since` (a facet's list misses nothing from that entry on). `meta/lexicon`
holds the totals. Each corpus has such lists; those of traces are `trace_lexicon`, `trace_facets`
and `meta/trace_lexicon`.

The knowledge base's have one writer, the index job, which deletes a list that nothing is left on.
Where several write, nobody can know that: such a list stays, with a `df` of 0, until the repair job
removes it, and to readers it is missing.
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
"""A list by its collection and its document id."""


@dataclass(frozen=True, slots=True)
class IndexCollections:
    """Where the lists of a corpus stand.

    Attributes:
        lexicon: The collection of its terms' lists.
        facets: The collection of its facets' lists.
        totals: The document of its totals.
    """

    lexicon: str
    facets: str
    totals: PostingsRef


KNOWLEDGE: Final = IndexCollections("lexicon", "facets", ("meta", "lexicon"))
TRACES: Final = IndexCollections("trace_lexicon", "trace_facets", ("meta", "trace_lexicon"))


@dataclass(frozen=True, slots=True)
class SearchPostings:
    """What was read for one search.

    Attributes:
        terms: The postings of the terms that any document holds.
        facets: The postings of the facets that any document bears.
        totals: Of the whole corpus.
    """

    terms: Mapping[str, Postings]
    facets: Mapping[Facet, Postings]
    totals: Totals


NO_POSTINGS: Final = SearchPostings({}, {}, Totals(0, 0))
"""What a search goes on with that could not read any in time."""


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value that exists, as people write it, and how many documents bear it."""

    facet: Facet
    name: str
    count: int


class InvertedIndex:
    """Reads the lists of a corpus."""

    def __init__(self, database: Database, names: IndexCollections) -> None:
        """Read those of these names from this database."""
        self._database = database
        self._names = names

    async def read(self, terms: Sequence[str], facets: Sequence[Facet]) -> SearchPostings:
        """The lists of these terms and facets, and the totals. One round trip."""
        by_id = {facet.id: facet for facet in facets}
        references = [
            *(self._database.document(self._names.lexicon, term) for term in dict.fromkeys(terms)),
            *(self._database.document(self._names.facets, name) for name in by_id),
            self._database.document(*self._names.totals),
        ]
        found = await self._database.get_all(references)
        held, borne = (_present(found, each) for each in (self._names.lexicon, self._names.facets))
        totals = next((each for each in found if _collection(each) == self._names.totals[0]), None)
        return SearchPostings(
            held,
            {by_id[name]: postings for name, postings in borne.items()},
            to_totals(totals.to_dict() if totals else None),
        )

    async def names(self, kind: Kind, limit: int) -> list[FacetValue]:
        """The values of a kind that most documents bear, most first. One round trip."""
        query = commonest_query(self._facets, kind).select(_NAME_FIELDS).limit(limit)
        return [_name(kind, snapshot) for snapshot in await self._database.find(query)]

    async def count(self, kind: Kind) -> int:
        """How many values of a kind there are. One round trip."""
        return await self._database.count(commonest_query(self._facets, kind))

    async def names_from(
        self, kind: Kind, prefix: str, limit: int, after: str = ""
    ) -> list[FacetValue]:
        """The values of a kind whose key begins with `prefix`, by key, those after `after` alone.

        One round trip.
        """
        query = prefix_query(self._facets, kind, prefix, limit, after)
        return [_name(kind, snapshot) for snapshot in await self._database.find(query)]

    @property
    def _facets(self) -> AsyncCollectionReference:
        return self._database.collection(self._names.facets)


_NAME_FIELDS: Final = ("key", "name", "df")


def commonest_query(facets: AsyncCollectionReference, kind: Kind) -> AsyncQuery:
    """The facets of a kind that any document bears, those of most documents first."""
    return (
        facets.where(filter=FieldFilter("kind", "==", kind.value))
        .where(filter=FieldFilter("df", ">", 0))
        .order_by("df", direction="DESCENDING")
    )


def prefix_query(
    facets: AsyncCollectionReference, kind: Kind, prefix: str, limit: int, after: str = ""
) -> AsyncQuery:
    """The facets of a kind whose keys begin alike, from the one after `after`, without postings.

    That of facets which no document bears any more there may be many is the server's matter.
    """
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
    """Every query this file can build, for the proof that each has its index."""
    for names in (KNOWLEDGE, TRACES):
        facets = client.collection(names.facets)
        yield commonest_query(facets, Kind.TAG)
        yield prefix_query(facets, Kind.TAG, "a", 1)
        yield prefix_query(facets, Kind.TAG, "a", 1, "ab")


def to_totals(data: dict[str, Any] | None) -> Totals:
    """The totals as their document has them; none where there is no document."""
    found = data or {}
    return Totals(found.get("documents", 0), found.get("length", 0))


def _present(found: Iterable[DocumentSnapshot[Any]], collection: str) -> dict[str, Postings]:
    """The lists of a collection that any document stands on, by id."""
    lists = {each.id: _postings(each) for each in found if _collection(each) == collection}
    return {name: postings for name, postings in lists.items() if postings.df > 0}


def _collection(snapshot: DocumentSnapshot[Any]) -> str:
    return str(snapshot.reference.parent.id)


def _postings(snapshot: DocumentSnapshot[Any]) -> Postings:
    """A list as far as it is whole: what somebody damaged must not fail a search."""
    data = snapshot.to_dict() or {}
    entries = data.get("postings", {})
    return Postings(data.get("df", len(entries)), entries, data.get("since", 0))


def _name(kind: Kind, snapshot: DocumentSnapshot[Any]) -> FacetValue:
    data = snapshot.to_dict() or {}
    return FacetValue(Facet(kind, data["key"]), data["name"], data["df"])
