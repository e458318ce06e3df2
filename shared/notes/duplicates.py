"""Finds a stored note that says the same as a new one."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from shared.knowledge.chunk_repository import Chunks
from shared.notes.note import NOTES
from shared.notes.repository import Notes
from shared.text.terms import MIN_COPY, resemblance, terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database
    from shared.knowledge.chunk import Chunk
    from shared.notes.repository import StoredNote

MAX_CANDIDATES: Final = 5
"""The first chunk is compared with at most this many of the nearest chunks of notes."""
_NUMBER: Final = re.compile(r"\d+")


async def find_duplicate(
    chunks: Sequence[Chunk], first_vector: Vector, database: Database
) -> StoredNote | None:
    """Return the stored note, if any, whose chunks say the same, each in its place.

    Notes about different passages say different things in the same words. Only the first chunk is
    searched for: vector search costs more than reading the few notes that begin with the same.

    Costs one round trip, and another if a note begins with the same.

    Args:
        chunks: The chunks of the new note.
        first_vector: The vector of the first of them.
        database: The database.
    """
    hits = await Chunks(database).nearest(first_vector, MAX_CANDIDATES, [NOTES.id])
    beginnings = [hit.document for hit in hits if _is_copy(chunks[0], hit.document)]
    stored = Notes(database)
    notes = await asyncio.gather(*(stored.get(chunk.source_id) for chunk in beginnings))
    return next((note for note in notes if note and _says_the_same(chunks, note)), None)


def _says_the_same(chunks: Sequence[Chunk], note: StoredNote) -> bool:
    by_position = {chunk.position: chunk for chunk in note.stored_chunks()}
    return all(
        chunk.position in by_position and _is_copy(chunk, by_position[chunk.position])
        for chunk in chunks
    )


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
