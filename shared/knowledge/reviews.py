"""The passages that a user has reviewed: `users/{user_id}/reviews/passages`.

One document holds all of them, so a page reads one. Intervals double, as with the boxes of the
Leitner system (S. Leitner, So lernt man lernen, 1972): a passage in box n comes back 7 · 2^(n-1)
days after the answer, so after 7, 14, 28 and at most 448 days.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from shared.firestore.codec import Codec, added_field
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.writes import Write, put_if_unchanged
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.chunk_repository import READ_FIELDS, UNDATED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from shared.firestore.database import Database

FIRST_INTERVAL: Final = timedelta(days=7)
MAX_BOX: Final = 7
MAX_REVIEWS: Final = 2_500
"""Only so many of the latest reviews are kept. At five a day, any older one is due again."""


class Answer(StrEnum):
    """What a user says of a passage."""

    KEEP = "keep"
    NOT_SOON = "not_soon"


_BOXES: Final = {Answer.KEEP: 1, Answer.NOT_SOON: 4}
"""By how many boxes an answer moves a passage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """The last review of a passage.

    Attributes:
        box: The box that the passage is in now, from 1.
        day: The day of the answer, in TIME_ZONE.
        former_box: The box before that day, if the passage had one.
        former_day: The day of the answer before, if there was one.
        answer: The answer, unless an earlier version stored the review.
    """

    box: int
    day: date
    former_box: int | None = None
    former_day: date | None = None
    answer: Answer | None = added_field()  # noqa: RUF009 - `added_field` calls `field`

    @property
    def due(self) -> date:
        """The day from which the passage comes back."""
        return self.day + FIRST_INTERVAL * (1 << (self.box - 1))

    def before(self, today: date) -> Review | None:
        """Return the last review before today, if there was one."""
        if self.day < today:
            return self
        if self.former_box is None or self.former_day is None:
            return None
        return Review(box=self.former_box, day=self.former_day)


def answer_review(review: Review | None, answer: Answer, today: date) -> Review:
    """Return the review after an answer, which replaces another one of the same day."""
    former = review and review.before(today)
    box = min((former.box if former else 0) + _BOXES[answer], MAX_BOX)
    return Review(
        box=box,
        day=today,
        former_box=former.box if former else None,
        former_day=former.day if former else None,
        answer=answer,
    )


_CODEC: Final = Codec(
    Review,
    readers={"day": date.fromisoformat, "former_day": date.fromisoformat, "answer": Answer},
)


@dataclass(frozen=True, slots=True)
class StoredReviews:
    """A user's reviews by chunk id, and the document that they were read from."""

    by_chunk: Mapping[str, Review]
    document: Document


async def load_reviews(database: Database, user_id: str) -> StoredReviews:
    """Load a user's reviews. Costs one round trip, and one read."""
    document = await database.get(Reference(f"users/{user_id}/reviews", "passages"))
    stored = document.fields.get("reviews", {})
    return StoredReviews({name: _CODEC.load(data) for name, data in stored.items()}, document)


def build_review_write(stored: StoredReviews, chunk_id: str, review: Review) -> Write:
    """Build the write that stores a review. It fails if others were stored meanwhile."""
    reviews = {**stored.by_chunk, chunk_id: review}
    latest = sorted(reviews, key=lambda name: reviews[name].day)[-MAX_REVIEWS:]
    fields = {name: _CODEC.write(reviews[name]) for name in latest}
    return put_if_unchanged(stored.document, {"reviews": fields})


def sample_query(start: str, limit: int, *, downwards: bool) -> Query:
    """Build the query for the chunks whose content hashes follow a hash, or precede it.

    Hashes are spread evenly, so for any hash these are chunks by chance.
    """
    return (
        Query(CHUNKS)
        .where("content_hash", "<" if downwards else ">=", start)
        .order_by("content_hash", descending=downwards)
        .select([*READ_FIELDS, "created_at"])
        .limit(limit)
    )


def read_before_query(moment: datetime, limit: int) -> Query:
    """Build the query for the chunks dated last before a moment, newest first."""
    return (
        Query(CHUNKS)
        .where("dated_at", "<", moment)
        .where("dated_at", ">", UNDATED)
        .order_by("dated_at", descending=True)
        .select([*READ_FIELDS, "created_at"])
        .limit(limit)
    )
