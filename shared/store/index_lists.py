"""`lexicon/{term}` and `facets/{facet}`: the lists that search reads, one document each.

A list holds `df` (how many chunks), `postings` (chunk id to entry), `held` (at least as many as
there are entries: what it held when it was last cut, and what was added since) and, once it was
cut, `since` (a facet's list misses nothing from that entry on). `meta/lexicon` holds the totals.
Only the index job writes here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_query import FieldFilter

from shared.domain.facet import Facet, Kind
from shared.domain.postings import Postings, Totals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.store.database import Database

LEXICON: Final = "lexicon"
FACETS: Final = "facets"
TOTALS: Final = ("meta", "lexicon")


@dataclass(frozen=True, slots=True)
class Lists:
    """What was read for one search.

    Attributes:
        terms: The postings of the terms that any chunk holds.
        facets: The postings of the facets that any chunk bears.
        totals: Of the whole base.
    """

    terms: Mapping[str, Postings]
    facets: Mapping[Facet, Postings]
    totals: Totals


@dataclass(frozen=True, slots=True)
class FacetName:
    """A value that exists, as people write it, and how many chunks bear it."""

    facet: Facet
    name: str
    count: int


class IndexLists:
    """Reads the lists."""

    def __init__(self, database: Database) -> None:
        """Read them from this database."""
        self._database = database

    async def read(self, terms: Sequence[str], facets: Sequence[Facet]) -> Lists:
        """The lists of these terms and facets, and the totals. One round trip."""
        by_id = {facet.id: facet for facet in facets}
        references = [
            *(self._database.document(LEXICON, term) for term in dict.fromkeys(terms)),
            *(self._database.document(FACETS, name) for name in by_id),
            self._database.document(*TOTALS),
        ]
        found = await self._database.get_all(references)
        kinds = {name: [each for each in found if _collection(each) == name] for name in _KINDS}
        totals = to_totals(next((each.to_dict() for each in kinds[TOTALS[0]]), None))
        return Lists(
            {each.id: _postings(each) for each in kinds[LEXICON]},
            {by_id[each.id]: _postings(each) for each in kinds[FACETS]},
            totals,
        )

    async def names(self, kind: Kind, limit: int) -> list[FacetName]:
        """The values of a kind that most chunks bear, most first. One round trip."""
        found = await self._database.find(commonest_query(self._database.client, kind, limit))
        return [_name(kind, snapshot) for snapshot in found]

    async def names_from(self, kind: Kind, prefix: str, limit: int) -> list[FacetName]:
        """The values of a kind whose key begins with `prefix`, by key. One round trip."""
        query = prefix_query(self._database.client, kind, prefix, limit)
        return [_name(kind, snapshot) for snapshot in await self._database.find(query)]


_KINDS: Final = (LEXICON, FACETS, TOTALS[0])
_NAME_FIELDS: Final = ("key", "name", "df")


def commonest_query(client: AsyncClient, kind: Kind, limit: int) -> AsyncQuery:
    """The facets of a kind, those of most chunks first, without their postings."""
    return (
        client.collection(FACETS)
        .where(filter=FieldFilter("kind", "==", kind.value))
        .order_by("df", direction="DESCENDING")
        .select(_NAME_FIELDS)
        .limit(limit)
    )


def prefix_query(client: AsyncClient, kind: Kind, prefix: str, limit: int) -> AsyncQuery:
    """The facets of a kind whose keys begin alike, without their postings."""
    return (
        client.collection(FACETS)
        .where(filter=FieldFilter("kind", "==", kind.value))
        .where(filter=FieldFilter("key", ">=", prefix))
        .where(filter=FieldFilter("key", "<", prefix + "\U0010ffff"))
        .order_by("key")
        .select(_NAME_FIELDS)
        .limit(limit)
    )


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    yield commonest_query(client, Kind.TAG, 1)
    yield prefix_query(client, Kind.TAG, "a", 1)


def _collection(snapshot: DocumentSnapshot[Any]) -> str:
    return str(snapshot.reference.parent.id)


def _postings(snapshot: DocumentSnapshot[Any]) -> Postings:
    """A list as far as it is whole: what somebody damaged must not fail a search."""
    data = snapshot.to_dict() or {}
    entries = data.get("postings", {})
    return Postings(data.get("df", len(entries)), entries, data.get("since", 0))


def to_totals(data: dict[str, Any] | None) -> Totals:
    """The totals as their document has them; none where there is no document."""
    found = data or {}
    return Totals(found.get("documents", 0), found.get("length", 0))


def _name(kind: Kind, snapshot: DocumentSnapshot[Any]) -> FacetName:
    data = snapshot.to_dict() or {}
    return FacetName(Facet(kind, data["key"]), data["name"], data["df"])
