"""Chooses the passages of a day: due for review, read lately, read long ago, and random.

The choice follows from the user, the day, and what was stored and answered before that day.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, time, timedelta
from enum import StrEnum
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Final

from shared.index.on_request import is_on_request
from shared.knowledge.chunk_repository import Chunks, to_chunk
from shared.knowledge.reviews import load_reviews, read_before_query, sample_query
from shared.text.folding import fold_text, hash_texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.firestore.documents import Document
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.reviews import Review
    from shared.runtime.context import Context

PASSAGE_COUNT: Final = 5
LENGTHS: Final = range(40, 1_500)
"""The lengths of passages that are chosen, in characters."""
RECENT_WINDOW: Final = timedelta(days=30)
OLD_AGE: Final = timedelta(days=365)
SAMPLE_SIZE: Final = 24
"""The number of chunks fetched at random. Those read long ago are among them."""
FETCH_LIMIT: Final = 8
"""The number of chunks fetched of those due, and of those read lately."""


class Why(StrEnum):
    """Why a passage was chosen."""

    DUE = "due again"
    LATELY = "read lately"
    LONG_AGO = "read long ago"
    CHANCE = "by chance"


async def choose_passages(ctx: Context) -> list[tuple[Chunk, Why, Review | None]]:
    """Choose the passages of a day, each with today's review if there is one.

    Costs one round trip, or two if passages are due.
    """
    user_id, today = str(ctx.caller.user_id), ctx.clock().astimezone(ctx.zone).date()
    seed = hash_texts("review", user_id, today.isoformat())
    start_of_day = datetime.combine(today, time(), ctx.zone)
    # Recent passages are those before a seeded random moment, so that each day has others.
    recent_cutoff = start_of_day - RECENT_WINDOW * (int(seed[-8:], 16) / 16**8)
    stored, above, below, lately = await asyncio.gather(
        load_reviews(ctx.database, user_id),
        ctx.database.find(sample_query(seed, SAMPLE_SIZE // 2, downwards=False)),
        ctx.database.find(sample_query(seed, SAMPLE_SIZE // 2, downwards=True)),
        ctx.database.find(read_before_query(recent_cutoff, FETCH_LIMIT)),
    )
    earlier = {chunk_id: review.before(today) for chunk_id, review in stored.by_chunk.items()}
    due_ids = [chunk_id for chunk_id, review in earlier.items() if review and review.due <= today]
    due_ids.sort(key=lambda chunk_id: hash_texts(seed, chunk_id))
    due = await Chunks(ctx.database).get_all(due_ids[:FETCH_LIMIT]) if due_ids else []

    def to_unreviewed_chunks(documents: Iterable[Document]) -> list[Chunk]:
        # Today's additions come last, so that they displace no earlier choice.
        in_order = sorted(documents, key=lambda item: item.fields["created_at"] >= start_of_day)
        return [to_chunk(item.id, item.fields) for item in in_order if not earlier.get(item.id)]

    by_chance = to_unreviewed_chunks([*above, *below])
    candidates = {
        Why.DUE: due,
        Why.LATELY: to_unreviewed_chunks(lately),
        Why.LONG_AGO: [
            chunk
            for chunk in by_chance
            if chunk.dated_at and chunk.dated_at < start_of_day - OLD_AGE
        ],
        Why.CHANCE: by_chance,
    }
    answered = {
        chunk_id: review for chunk_id, review in stored.by_chunk.items() if review.day >= today
    }
    return [(chunk, why, answered.get(chunk.chunk_id)) for chunk, why in _take_in_turn(candidates)]


def _take_in_turn(candidates: dict[Why, list[Chunk]]) -> list[tuple[Chunk, Why]]:
    """Take one of each kind in turn until there are enough, and no text twice."""
    kinds = (
        [(chunk, why) for chunk in chunks if _is_readable(chunk)]
        for why, chunks in candidates.items()
    )
    by_text: dict[str, tuple[Chunk, Why]] = {}
    for item in filter(None, chain.from_iterable(zip_longest(*kinds))):
        by_text.setdefault(fold_text(item[0].content), item)
    return list(by_text.values())[:PASSAGE_COUNT]


def _is_readable(chunk: Chunk) -> bool:
    return len(chunk.content) in LENGTHS and not is_on_request(chunk.category, chunk.tags)
