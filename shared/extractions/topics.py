"""`topics/{key}`: what extractions are about, and how many of each type are about it.

The counts are kept by those who write extractions (see `shared.extractions.extracted_chunks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_query import BaseQuery, FieldFilter

from shared.core.ids import safe_id
from shared.extractions.extracted_chunks import TOPICS
from shared.extractions.model import ExtractionType
from shared.extractions.topic_names import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database

    Place = tuple[int, str]
    """Where a topic stands among all, by count: its count, and its key."""

_FIELDS: Final = ("name", "counts", "total")
_DOWN: Final = BaseQuery.DESCENDING


class Topics:
    """Reads topics."""

    def __init__(self, database: Database) -> None:
        """Read them from this database."""
        self._database = database

    async def get(self, name: str) -> Topic | None:
        """The topic of this normal name, if anything is about it. One round trip."""
        reference = self._database.document(TOPICS, safe_id(name))
        topic = _topic(await self._database.get(reference, _FIELDS))
        return topic if topic.total > 0 else None

    async def most(
        self, limit: int, kind: ExtractionType | None = None, after: Place | None = None
    ) -> list[Topic]:
        """The topics of most extractions, most first. One round trip.

        Args:
            limit: How many.
            kind: The type whose extractions count; None: all.
            after: Where the last topic that was seen stands.
        """
        query = most_query(self._database.client, limit, kind, after)
        return [_topic(snapshot) for snapshot in await self._database.find(query)]

    async def beginning(self, prefix: str, limit: int) -> list[Topic]:
        """The topics whose name begins so, by name. One round trip."""
        query = beginning_query(self._database.client, prefix, limit)
        found = [_topic(snapshot) for snapshot in await self._database.find(query)]
        return [topic for topic in found if topic.total > 0]


def place(topic: Topic, kind: ExtractionType | None) -> Place:
    """Where a topic stands among all."""
    return topic.count(kind), safe_id(topic.name)


def most_query(
    client: AsyncClient, limit: int, kind: ExtractionType | None, after: Place | None
) -> AsyncQuery:
    """Topics by count. Both fields descend, which needs no index of their own."""
    collection = client.collection(TOPICS)
    counted = f"counts.{kind.value}" if kind else "total"
    query = (
        collection.where(filter=FieldFilter(counted, ">", 0))
        .order_by(counted, direction=_DOWN)
        .order_by("__name__", direction=_DOWN)
    )
    if after:
        query = query.start_after({counted: after[0], "__name__": collection.document(after[1])})
    return query.select(_FIELDS).limit(limit)


def beginning_query(client: AsyncClient, prefix: str, limit: int) -> AsyncQuery:
    """Topics whose name begins so."""
    return (
        client.collection(TOPICS)
        .where(filter=FieldFilter("name", ">=", prefix))
        .where(filter=FieldFilter("name", "<", prefix + "\U0010ffff"))
        .order_by("name")
        .select(_FIELDS)
        .limit(limit)
    )


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    for kind in (None, *ExtractionType):
        yield most_query(client, 1, kind, None)
        yield most_query(client, 1, kind, (1, "a"))
    yield beginning_query(client, "a", 1)


def _topic(snapshot: DocumentSnapshot[Any]) -> Topic:
    data = snapshot.to_dict() or {}
    counts = data.get("counts") or {}
    return Topic(
        name=data.get("name", ""),
        counts={kind: counts.get(kind.value, 0) for kind in ExtractionType},
        total=data.get("total", 0),
    )
