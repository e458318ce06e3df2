"""`lexicon/{term}` and `facets/{facet}`: the postings of one term or facet.

| field | meaning |
|---|---|
| `df` | the document frequency |
| `postings` | the entries by document id |
| `held` | an upper bound of the number of entries: those last kept, plus those added since |
| `since` | the date from which a facet's truncated postings are complete |
| `days` | for a month, the number of documents by day, those that truncation dropped included |

`meta/lexicon` contains the totals. Each corpus has its own collections; those of traces are
`trace_lexicon`, `trace_facets` and `meta/trace_lexicon`.

Writers do not read postings, so no writer notices when it removes the last entry. Empty postings
stay, with a `df` of 0, until the repair job deletes them. Readers treat them as missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.index import on_request
from shared.index.bm25 import Postings, Totals
from shared.index.facets import Facet, Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from shared.firestore.database import Database

PostingsRef = tuple[str, str]
"""The collection and the document id of postings."""


@dataclass(frozen=True, slots=True)
class IndexCollections:
    """The collections of a corpus's index."""

    lexicon: str
    facets: str
    totals: PostingsRef


LAYOUT: Final = 5
"""The version of the stored index. Raise it if the index job stores anything differently, such as
another facet of chunks."""
KNOWLEDGE: Final = IndexCollections("lexicon", "facets", ("meta", "lexicon"))
TRACES: Final = IndexCollections("trace_lexicon", "trace_facets", ("meta", "trace_lexicon"))


@dataclass(frozen=True, slots=True)
class SearchPostings:
    """The postings that one search reads.

    Attributes:
        terms: The terms' postings, without those of terms that occur in no document.
        facets: The facets' postings, without those of facets that no document has.
        totals: The totals of the whole corpus.
        hidden_count: The number of conversations with one of the terms that were dropped, because
            they are found only on request.
    """

    terms: Mapping[str, Postings]
    facets: Mapping[Facet, Postings]
    totals: Totals
    hidden_count: int = 0


@dataclass(frozen=True, slots=True)
class FacetCounts:
    """How many documents have each of some facets.

    Attributes:
        layout: The LAYOUT with which the index was made, or None if nothing is indexed.
    """

    documents: Mapping[Facet, int]
    layout: int | None


NO_POSTINGS: Final = SearchPostings({}, {}, Totals(0, 0))
"""The postings of a search that could not read any in time."""


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A facet with its name as written and the number of documents that have it."""

    facet: Facet
    name: str
    count: int


class InvertedIndex:
    """Reads the postings of a corpus."""

    def __init__(self, database: Database, names: IndexCollections) -> None:
        self._database = database
        self._names = names

    async def read(self, terms: Sequence[str], facets: Sequence[Facet]) -> SearchPostings:
        """Load the postings of these terms and facets, and the totals. Costs one round trip.

        They include documents found only on request if a facet asks for these.
        """
        asked_level = on_request.find_asked_level(facets)
        facets_by_id = {facet.id: facet for facet in facets}
        references = [
            *(Reference(self._names.lexicon, term) for term in dict.fromkeys(terms)),
            *(Reference(self._names.facets, facet_id) for facet_id in facets_by_id),
            Reference(*self._names.totals),
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
        terms_in_use, hidden = _select_in_use(snapshots, self._names.lexicon, asked_level)
        facets_in_use, _ = _select_in_use(snapshots, self._names.facets, asked_level)
        return SearchPostings(
            terms_in_use,
            {facets_by_id[facet_id]: postings for facet_id, postings in facets_in_use.items()},
            to_totals(totals.fields if totals else None),
            len(hidden),
        )

    async def count_documents(self, facets: Sequence[Facet]) -> FacetCounts:
        """Count the documents that have each of these facets. Costs one round trip."""
        references = [Reference(self._names.facets, facet.id) for facet in facets]
        totals = Reference(*self._names.totals)
        snapshots = await self._database.get_all([*references, totals], ["df", "layout"])
        by_path = {snapshot.reference.path: snapshot.fields for snapshot in snapshots}
        counts = {
            facet: by_path.get(reference.path, {}).get("df", 0)
            for facet, reference in zip(facets, references, strict=True)
        }
        return FacetCounts(counts, by_path.get(totals.path, {}).get("layout"))

    async def list_commonest(self, kind: Kind, limit: int) -> list[FacetValue]:
        """Load the facets of a kind, most common first. Costs one round trip."""
        query = commonest_query(self._facets, kind).select(_NAME_FIELDS).limit(limit)
        return [_to_facet_value(kind, snapshot) for snapshot in await self._database.find(query)]

    async def count_values(self, kind: Kind) -> int:
        """Count the facets of a kind. Costs one round trip."""
        return await self._database.count(commonest_query(self._facets, kind))

    async def list_by_prefix(
        self, kind: Kind, prefix: str, limit: int, after: str = ""
    ) -> list[FacetValue]:
        """Load the facets of a kind whose key begins with `prefix`, sorted by key.

        Costs one round trip.

        Args:
            prefix: The beginning of the keys.
            after: The last key of the previous page, or empty for the first page.
        """
        query = prefix_query(self._facets, kind, prefix, limit, after)
        return [_to_facet_value(kind, snapshot) for snapshot in await self._database.find(query)]

    async def list_terms(self, prefix: str, limit: int) -> list[str]:
        """Load the terms with a prefix that documents have, sorted. Costs one round trip."""
        query = terms_query(Query(self._names.lexicon), prefix, limit)
        snapshots = await self._database.find(query)
        return [snapshot.id for snapshot in snapshots if snapshot.fields.get("df", 0) > 0]

    @property
    def _facets(self) -> Query:
        return Query(self._names.facets)


_NAME_FIELDS: Final = ("key", "name", "df")


def commonest_query(facets: Query, kind: Kind) -> Query:
    """Build the query for the facets of a kind that are in use, most common first."""
    return (
        facets.where("kind", "==", kind.value).where("df", ">", 0).order_by("df", descending=True)
    )


def prefix_query(facets: Query, kind: Kind, prefix: str, limit: int, after: str = "") -> Query:
    """Build the query for the facets of a kind with a prefix, whose keys sort after `after`."""
    return (
        facets.where("kind", "==", kind.value)
        .where("key", *((">", after) if after else (">=", prefix)))
        .where("key", "<", prefix + "\U0010ffff")
        .where("df", ">", 0)
        .order_by("key")
        .order_by("df")
        .select(_NAME_FIELDS)
        .limit(limit)
    )


def terms_query(lexicon: Query, prefix: str, limit: int) -> Query:
    """Build the query for the postings of terms with a prefix."""
    return (
        lexicon.where("__name__", ">=", Reference(lexicon.collection, prefix))
        .where("__name__", "<", Reference(lexicon.collection, prefix + "\U0010ffff"))
        .order_by("__name__")
        .select(["df"])
        .limit(limit)
    )


def to_totals(data: dict[str, Any] | None) -> Totals:
    """Read the totals from the fields of their document, or zeros if it does not exist."""
    fields = data or {}
    return Totals(fields.get("documents", 0), fields.get("length", 0))


def _select_in_use(
    snapshots: Iterable[Document], collection: str, asked_level: int
) -> tuple[dict[str, Postings], set[str]]:
    """Return a collection's postings that are not empty, by document id.

    Args:
        asked_level: The highest level of documents to include (`shared.index.on_request`).

    Returns:
        The postings, and the ids of the conversations that were dropped from them.
    """
    in_use: dict[str, Postings] = {}
    hidden: set[str] = set()
    for snapshot in snapshots:
        if _get_collection(snapshot) == collection:
            postings, dropped = _select_entries(_to_postings(snapshot), asked_level)
            hidden.update(dropped)
            if postings.df > 0:
                in_use[snapshot.id] = postings
    return in_use, hidden


def _select_entries(postings: Postings, asked_level: int) -> tuple[Postings, Collection[str]]:
    """Drop the entries of higher levels, and return the ids of the dropped conversations."""
    if not postings.entries or not on_request.read_level(min(postings.entries.values())):
        return postings, ()
    levels = {name: on_request.read_level(entry) for name, entry in postings.entries.items()}
    entries = {
        name: on_request.unmark(entry)
        for name, entry in postings.entries.items()
        if levels[name] <= asked_level
    }
    since = on_request.unmark(postings.since) if asked_level else postings.since
    df = postings.df - len(levels) + len(entries)
    dropped = levels.keys() - entries.keys()
    hidden = {name for name in dropped if levels[name] == on_request.CONVERSATION_LEVEL}
    return replace(postings, entries=entries, since=since, df=df), hidden


def _get_collection(snapshot: Document) -> str:
    return str(snapshot.reference.collection_id)


def _to_postings(snapshot: Document) -> Postings:
    """Read postings from a document. A search must not fail because a document lacks fields."""
    fields = snapshot.fields
    entries = fields.get("postings", {})
    df = fields.get("df", len(entries))
    return Postings(df, entries, fields.get("since", 0), fields.get("days", {}))


def _to_facet_value(kind: Kind, snapshot: Document) -> FacetValue:
    fields = snapshot.fields
    return FacetValue(Facet(kind, fields["key"]), fields["name"], fields["df"])
