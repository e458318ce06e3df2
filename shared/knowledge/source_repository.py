"""`sources/{source_id}`: books, articles, documents."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore import DELETE_FIELD
from google.cloud.firestore_v1.base_query import BaseQuery, FieldFilter

from shared.core.dates import from_microseconds, to_microseconds
from shared.firestore.codec import Codec
from shared.index.facets import Facet, Kind, named_facet
from shared.knowledge.source import SOURCE_FIELDS, SourceFields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database

    SourceCursor = tuple[int | str, str]
    """Where a source stands in an order: what it is ordered by, and its id."""

COLLECTION: Final = "sources"
_KEY_LENGTH: Final = 300
"""Characters of a title that sources are sorted by: a cursor holds them, too."""
_UP, _DOWN = BaseQuery.ASCENDING, BaseQuery.DESCENDING


class Order(StrEnum):
    """How sources are listed."""

    RECENT = "recent"
    TITLE = "title"


_ORDERS: Final = {Order.RECENT: ("updated_at", _DOWN), Order.TITLE: ("title_key", _UP)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource(SourceFields):
    """A source as it stands in the database, without its text.

    Attributes:
        facets: The ids of its author, its category and the tags of it and its highlights.
        title_key: The title as it is compared.
        updated_at: When it last changed.
    """

    chunk_count: int
    updated_at: datetime
    facets: frozenset[str] = frozenset()
    title_key: str = ""

    @property
    def updated(self) -> str:
        """The day of `updated_at`, for people: `2026-01-31`, in UTC."""
        return f"{self.updated_at:%Y-%m-%d}"

    def place(self, order: Order) -> SourceCursor:
        """Where it stands in an order."""
        match order:
            case Order.RECENT:
                return to_microseconds(self.updated_at), self.source_id
            case Order.TITLE:
                return self.title_key, self.source_id


_CODEC: Final = Codec(
    StoredSource,
    "source_id",
    stored_as={"origin": "source", "category": "type", "source_url": "url"},
)


def source_fields(source: SourceFields) -> dict[str, Any]:
    """What is known of a source, as it is stored."""
    return _CODEC.write(source, SOURCE_FIELDS)


def removed_fields(source: SourceFields) -> dict[str, Any]:
    """Part of an update: the deletion of optional fields that the source does not have."""
    return dict.fromkeys(_CODEC.absent_names(source, SOURCE_FIELDS), DELETE_FIELD)


class Sources:
    """Reads sources; ingest writes them."""

    def __init__(self, database: Database) -> None:
        """Read them from this database."""
        self._database = database

    async def get(self, source_id: str) -> StoredSource | None:
        """The source of this id, or None. One round trip."""
        return next(iter(await self.get_all([source_id])), None)

    async def get_all(self, source_ids: Sequence[str]) -> list[StoredSource]:
        """The sources that exist among those named, in the order named, in one round trip."""
        references = [self._database.document(COLLECTION, name) for name in source_ids]
        snapshots = await self._database.get_all(references, _CODEC.stored_names)
        found = {snapshot.id: _source(snapshot) for snapshot in snapshots}
        return [found[name] for name in source_ids if name in found]

    async def page(
        self,
        order: Order,
        limit: int,
        facet: Facet | None = None,
        after: SourceCursor | None = None,
    ) -> list[StoredSource]:
        """A page of sources. One round trip.

        Args:
            order: Which first: the last changed, or by title.
            limit: How many.
            facet: An author, a category or a tag that they bear.
            after: Where the last source that was seen stands.
        """
        query = list_query(self._database.client, order, limit, facet, after)
        return [_source(snapshot) for snapshot in await self._database.find(query)]

    async def titled(self, beginning: str, limit: int) -> list[StoredSource]:
        """The sources whose title begins so, as titles are compared, by title. One round trip."""
        query = titled_query(self._database.client, title_key(beginning), limit)
        return [_source(snapshot) for snapshot in await self._database.find(query)]

    async def count(self) -> int:
        """How many sources there are. One round trip."""
        return await self._database.count(sources_query(self._database.client))


def title_key(title: str) -> str:
    """A title, or its beginning, as sources are sorted by it."""
    return named_facet(Kind.TITLE, title).key[:_KEY_LENGTH]


def list_query(
    client: AsyncClient, order: Order, limit: int, facet: Facet | None, after: SourceCursor | None
) -> AsyncQuery:
    """A page of sources; `__name__` follows the direction of its order."""
    collection = client.collection(COLLECTION)
    field, direction = _ORDERS[order]
    query = collection.order_by(field, direction=direction)
    query = query.order_by("__name__", direction=direction)
    if facet:
        query = query.where(filter=FieldFilter("facets", "array_contains", facet.id))
    if after:
        value = from_microseconds(int(after[0])) if order is Order.RECENT else after[0]
        query = query.start_after({field: value, "__name__": collection.document(after[1])})
    return query.select(_CODEC.stored_names).limit(limit)


def titled_query(client: AsyncClient, prefix: str, limit: int) -> AsyncQuery:
    """The sources whose folded titles begin alike."""
    return (
        client.collection(COLLECTION)
        .where(filter=FieldFilter("title_key", ">=", prefix))
        .where(filter=FieldFilter("title_key", "<", prefix + "\U0010ffff"))
        .order_by("title_key")
        .select(_CODEC.stored_names)
        .limit(limit)
    )


def sources_query(client: AsyncClient) -> AsyncQuery:
    """Every source, to be counted."""
    return client.collection(COLLECTION).order_by("__name__")


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    for order, value in ((Order.RECENT, 0), (Order.TITLE, "a")):
        for facet in (None, Facet(Kind.TAG, "a")):
            yield list_query(client, order, 1, facet, None)
            yield list_query(client, order, 1, facet, (value, "a"))
    yield titled_query(client, "a", 1)
    yield sources_query(client)


def _source(snapshot: DocumentSnapshot[Any]) -> StoredSource:
    return _CODEC.read(snapshot.id, snapshot.to_dict() or {})
