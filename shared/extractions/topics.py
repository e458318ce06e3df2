"""Topics in Firestore: `topics/{key}`, each with its number of extractions of each type.

A topic is a label of an extraction, such as "testing". Every Firestore commit that changes
extractions updates the counts (`shared.extractions.groups`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.ids import safe_id
from shared.extractions.groups import TOPICS
from shared.extractions.model import ExtractionType
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.firestore.database import Database

    TopicCursor = tuple[int, str]
    """A topic's position in the list by count: its count and its document id."""

_FIELDS: Final = ("name", "counts", "total")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and the number of extractions about it."""

    name: str
    counts: Mapping[ExtractionType, int]
    total: int

    def count_of(self, extraction_type: ExtractionType | None) -> int:
        """Return the number of extractions of a type; of all types if it is None."""
        return self.counts[extraction_type] if extraction_type else self.total


class Topics:
    """Reads topics."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, name: str) -> Topic | None:
        """Load a topic by its canonical name. Return None if it has no extractions.

        Costs one Firestore round trip.
        """
        reference = Reference(TOPICS, safe_id(name))
        snapshot = await self._database.get(reference, _FIELDS)
        if not snapshot.exists:
            return None
        topic = _to_topic(snapshot)
        return topic if topic.total > 0 else None

    async def list_most_frequent(
        self,
        limit: int,
        extraction_type: ExtractionType | None = None,
        after: TopicCursor | None = None,
    ) -> list[Topic]:
        """Load the topics with the most extractions, in descending order.

        Costs one Firestore round trip.
        """
        query = most_frequent_query(limit, extraction_type, after)
        return [_to_topic(snapshot) for snapshot in await self._database.find(query)]

    async def list_with_prefix(self, prefix: str, limit: int) -> list[Topic]:
        """Load the topics whose names start with a prefix, ordered by name.

        Costs one Firestore round trip.
        """
        query = prefix_query(prefix, limit)
        topics = [_to_topic(snapshot) for snapshot in await self._database.find(query)]
        # A topic that lost its last extraction stays until the job `purge` deletes it.
        return [topic for topic in topics if topic.total > 0]


def make_topic_cursor(topic: Topic, extraction_type: ExtractionType | None) -> TopicCursor:
    """Return the cursor with which `list_most_frequent` continues after a topic."""
    return topic.count_of(extraction_type), safe_id(topic.name)


def most_frequent_query(
    limit: int,
    extraction_type: ExtractionType | None,
    after: TopicCursor | None,
) -> Query:
    """Build the query for topics by descending count.

    No composite index is needed, because `__name__` has the same direction as the count.
    """
    count_field = f"counts.{extraction_type.value}" if extraction_type else "total"
    query = (
        Query(TOPICS)
        .where(count_field, ">", 0)
        .order_by(count_field, descending=True)
        .order_by("__name__", descending=True)
    )
    if after:
        count, topic_id = after
        query = query.start_after({count_field: count, "__name__": Reference(TOPICS, topic_id)})
    return query.select(_FIELDS).limit(limit)


def prefix_query(prefix: str, limit: int) -> Query:
    """Build the query for topics whose names start with a prefix."""
    return (
        Query(TOPICS)
        .where("name", ">=", prefix)
        .where("name", "<", prefix + "\U0010ffff")  # the highest character
        .order_by("name")
        .select(_FIELDS)
        .limit(limit)
    )


def _to_topic(snapshot: Document) -> Topic:
    data = snapshot.fields
    counts = data.get("counts") or {}
    return Topic(
        name=data.get("name", ""),
        counts={
            extraction_type: counts.get(extraction_type.value, 0)
            for extraction_type in ExtractionType
        },
        total=data.get("total", 0),
    )
