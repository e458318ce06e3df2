"""Finds a stored note that says the same as a new one."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from shared.knowledge.chunk_repository import Chunks
from shared.notes.note import NOTES
from shared.text.terms import MIN_COPY, resemblance, terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database
    from shared.knowledge.chunk import Chunk

MAX_CANDIDATES: Final = 5
"""A chunk is compared with at most this many of the nearest chunks of notes."""
_NUMBER: Final = re.compile(r"\d+")


async def find_duplicate(
    chunks: Sequence[Chunk], vectors: Sequence[Vector], database: Database
) -> str | None:
    """Return the id of the stored note, if any, each of whose chunks says the same.

    Notes about different passages say different things in the same words.

    Costs one round trip.
    """
    stored = Chunks(database)
    neighbours = await asyncio.gather(
        *(stored.nearest(vector, MAX_CANDIDATES, [NOTES.id]) for vector in vectors)
    )
    copies = [
        [hit.document.source_id for hit in hits if _is_copy(chunk, hit.document)]
        for chunk, hits in zip(chunks, neighbours, strict=True)
    ]
    return next((name for name in copies[0] if all(name in names for names in copies)), None)


def _is_copy(chunk: Chunk, other: Chunk) -> bool:
    if chunk.about_chunk_id != other.about_chunk_id or chunk.total != other.total:
        return False
    return is_near_duplicate(chunk.content, other.content)


def is_near_duplicate(text: str, other: str) -> bool:
    """Return whether two texts say the same: with the same numbers, in nearly the same words.

    It does not recognize a negation, since stop words are no terms.
    """
    if set(_NUMBER.findall(text)) != set(_NUMBER.findall(other)):
        return False
    return resemblance(frozenset(terms(text)), frozenset(terms(other))) >= MIN_COPY
