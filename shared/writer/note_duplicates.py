"""Finds a stored note with the text of a new note, and notes that nearly say the same.

Only the same text is a duplicate (`shared.text.folding`): of nearly the same texts, one may correct
the other. A note is stored as a source with chunks: passages that are searched by their vectors.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.ai.vector_halves import MULTILINGUAL, TWO_HALVES, weigh
from shared.knowledge.chunk_repository import Chunks
from shared.text.folding import fold_text
from shared.text.terms import compute_resemblance, terms
from shared.writer.note import NOTES
from shared.writer.note_repository import Notes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.firestore.claims import Claim
    from shared.firestore.database import Database
    from shared.index.vector_index import Neighbour
    from shared.knowledge.chunk import Chunk
    from shared.writer.chunk_changes import ChunkVectors
    from shared.writer.note_repository import StoredNote

MAX_CANDIDATES: Final = 5
"""The first chunk is compared with at most this many of the nearest chunks of notes."""
_MEASURED_SIMILARITIES: Final = {TWO_HALVES: 0.7}
"""The minimum similarity of near notes, by the multilingual half of a model that has two. Of 20
passages and their translations, 16 have it, while different passages have at most 0.28
(`benchmarks.halves`)."""
_DEFAULT_SIMILARITY: Final = 0.9
"""The same for a model that was not measured."""
MIN_RESEMBLANCE: Final = 0.5
"""A note that shares at least this much of its terms with another is near to it."""


@dataclass(frozen=True, slots=True)
class NearNote:
    """A note that says nearly the same as another.

    Attributes:
        similarity: The cosine of both notes' first chunks, from 0 to 1.
    """

    source_id: str
    title: str
    similarity: float


@dataclass(frozen=True, slots=True)
class ComparedNotes:
    """The stored chunks nearest to the first chunk of a note.

    Attributes:
        near: The notes that say nearly the same, the nearest first.
        same: The ids of notes that begin with the same chunk.
    """

    near: Sequence[NearNote] = ()
    same: Sequence[str] = ()


async def find_neighbours(
    chunks: Sequence[Chunk], vectors: ChunkVectors, database: Database
) -> ComparedNotes:
    """Compare the first chunk of a new note with the nearest chunks of stored notes.

    Costs one round trip, or none if the chunk has no vector.
    """
    first = chunks[0]
    vector = vectors.by_chunk.get(first.chunk_id)
    if vector is None:
        return ComparedNotes()
    min_similarity = _MEASURED_SIMILARITIES.get(vectors.model, _DEFAULT_SIMILARITY)
    compared = weigh(vector, vectors.model, MULTILINGUAL)
    hits = await Chunks(database).find_nearest(compared, MAX_CANDIDATES, [NOTES.id])
    return await asyncio.to_thread(_compare, first, hits, min_similarity)


async def find_same_note(
    claim: Claim, candidate_ids: Iterable[str], database: Database
) -> StoredNote | None:
    """Return the note whose text a claim stands for, or None.

    A candidate counts only if it has that text now: ingest may have changed or removed a holder.
    Costs one round trip, or none without a candidate.

    Args:
        claim: The claim to the text. Its holder is a candidate.
        candidate_ids: The ids of further notes.
    """
    ids = dict.fromkeys([*([claim.holder] if claim.holder else []), *candidate_ids])
    notes = await asyncio.gather(*map(Notes(database).get, ids))
    return next(
        (note for note in notes if note and note.note.content.claim_id == claim.claim_id), None
    )


def _compare(
    first: Chunk, hits: Sequence[Neighbour[Chunk]], min_similarity: float
) -> ComparedNotes:
    folded_text, words = fold_text(first.content), frozenset(terms(first.content))
    near: dict[str, NearNote] = {}
    same = []
    for hit in hits:
        chunk = hit.document
        if fold_text(chunk.content) == folded_text:
            same.append(chunk.source_id)
        resemblance = compute_resemblance(words, frozenset(terms(chunk.content)))
        if resemblance >= MIN_RESEMBLANCE or hit.similarity >= min_similarity:
            note = NearNote(chunk.source_id, chunk.title, round(hit.similarity, 2))
            near.setdefault(chunk.source_id, note)
    return ComparedNotes(list(near.values()), same)
