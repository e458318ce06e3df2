"""Finds a stored note that nearly equals a new note.

A note is a short text that a user saves. It is stored as a source with chunks: passages that are
searched by their vectors.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from shared.knowledge.chunk_repository import Chunks
from shared.notes.note import NOTES
from shared.notes.repository import Notes
from shared.text.terms import MIN_COPY, compute_resemblance, terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector
    from shared.firestore.database import Database
    from shared.knowledge.chunk import Chunk
    from shared.notes.repository import StoredNote

MAX_CANDIDATES: Final = 5
"""The first chunk is compared with at most this many of the nearest chunks of notes. A copy is
among the very nearest."""
_NUMBER: Final = re.compile(r"\d+")


async def find_duplicate(
    chunks: Sequence[Chunk], first_vector: Vector, database: Database
) -> StoredNote | None:
    """Return a stored note whose chunks nearly equal those of a new note, or None.

    Each chunk is compared with the stored chunk at the same position. Notes about different
    passages are not duplicates, whatever their words. Only the first chunk is searched for, because
    vector search costs more than reading the few notes with a copy of that chunk.

    Costs one round trip, and another if a note contains a copy of the first chunk.

    Args:
        chunks: The chunks of the new note.
        first_vector: The vector of the first chunk.
        database: The database.
    """
    hits = await Chunks(database).find_nearest(first_vector, MAX_CANDIDATES, [NOTES.id])
    copies = [hit.document for hit in hits if _is_copy(chunks[0], hit.document)]
    repository = Notes(database)
    notes = await asyncio.gather(*(repository.get(chunk.source_id) for chunk in copies))
    return next((note for note in notes if note and _contains_copies(chunks, note)), None)


def _contains_copies(chunks: Sequence[Chunk], note: StoredNote) -> bool:
    """Return whether a note contains a copy of each chunk at the same position."""
    by_position = {chunk.position: chunk for chunk in note.list_chunks()}
    return all(
        chunk.position in by_position and _is_copy(chunk, by_position[chunk.position])
        for chunk in chunks
    )


def _is_copy(chunk: Chunk, other: Chunk) -> bool:
    """Return whether two chunks nearly equal each other, in notes about the same passage."""
    # Notes of different numbers of chunks are not duplicates.
    if chunk.about_chunk_id != other.about_chunk_id or chunk.total != other.total:
        return False
    return is_near_duplicate(chunk.content, other.content)


def is_near_duplicate(text: str, other: str) -> bool:
    """Return whether two texts have the same numbers and nearly the same words.

    A negation goes unnoticed, because stop words such as "not" are not terms.
    """
    if set(_NUMBER.findall(text)) != set(_NUMBER.findall(other)):
        return False
    return compute_resemblance(frozenset(terms(text)), frozenset(terms(other))) >= MIN_COPY
