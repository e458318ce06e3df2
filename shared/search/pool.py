"""The passages to rank: what words bring, and beside it what meaning brings.

When filters leave few passages, all of them are taken, so that no list that was cut can hide one.
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from shared.search.meaning import DENSE_POOL
from shared.search.plan import FEW, Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector
    from shared.search.candidate import Candidate
    from shared.search.meaning import Meaning
    from shared.search.plan import Plan
    from shared.search.selection import Selection
    from shared.search.words import Words
    from shared.store.chunks import Chunks, Neighbour

LEXICAL_POOL: Final = 30
"""Passages that the search by words brings: what the server compares in one request."""
UNCHECKED_POOL: Final = 120
"""The same, beside the search by meaning, where the lists cannot tell which pass the filters."""
WIDE: Final = 150
"""Passages that one of several filters brings, of which those are taken that pass the others."""
DEPTH: Final = 200
"""How deep one can page into what words alone found."""
MOST: Final = 1_000
"""As many passages as are checked against the filters; Firestore's vector search gives no more."""
MOST_FOR_STRANGERS: Final = WIDE
"""The same for callers whom nobody knows: each passage is a read on the owner's bill."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the first round trip told.

    Attributes:
        selection: Among which passages the question looks.
        plan: What the lists say of these.
        words: Its words.
        meaning: Its vector, if there is one.
        most: As many passages as are checked against the filters.
    """

    selection: Selection
    plan: Plan
    words: Words
    meaning: Meaning
    most: int


@dataclass(frozen=True, slots=True)
class Pool:
    """The passages to rank.

    Attributes:
        candidates: Each with both scores where both were asked for.
        truncated: Whether passages that pass the filters may be missing.
    """

    candidates: list[Candidate]
    truncated: bool


async def pool(known: Known, store: Chunks) -> Pool:
    """Bring the passages. One round trip, two where filters and meaning disagree, or none."""
    if known.meaning.vector is None:
        return await _by_words(known, store)
    return await _by_both(known, known.meaning.vector, store)


async def _by_words(known: Known, store: Chunks) -> Pool:
    """Words alone tell the order: passages are read only where the lists leave a doubt."""
    plan, words = known.plan, known.words
    if plan.scope is Scope.FEW and words.cut:
        chunks = await store.get_all(plan.few)
        found = [words.read(chunk) for chunk in chunks if known.selection.admits(chunk)]
    elif plan.exact:
        found = [words.listed(name) for name in words.best(DEPTH)]
    else:
        chunks = await store.get_all(words.best(known.most))
        found = [
            words.listed(chunk.chunk_id, chunk) for chunk in chunks if known.selection.admits(chunk)
        ]
    holding = [each for each in found if each.bm25]
    best = heapq.nsmallest(DEPTH, holding, key=lambda each: (-each.bm25, each.chunk_id))
    return Pool(best, _words_missed(known, len(best)))


def _words_missed(known: Known, found: int) -> bool:
    """Whether passages that pass may be missing, and one could page on to them."""
    if known.plan.scope in (Scope.EVERYTHING, Scope.FEW) or found >= DEPTH:
        return False
    return known.words.cut or len(known.words.scores) > known.most


async def _by_both(known: Known, vector: Vector, store: Chunks) -> Pool:
    """What only words found is compared too, so that every passage has both scores."""
    lexical = known.words.best(LEXICAL_POOL if known.plan.exact else UNCHECKED_POOL)
    compared = {*_ids(known.meaning.nearest), *known.plan.few}
    nearest, others = await asyncio.gather(
        _nearest(known, vector, store),
        store.similarities(vector, [name for name in lexical if name not in compared]),
    )
    near = [each for each in nearest if known.selection.admits(each.chunk)]
    far = [each for each in others if known.selection.admits(each.chunk)]
    brought = set(_ids(near))
    candidates = [
        replace(known.words.read(each.chunk), similarity=each.similarity, near=name in brought)
        for name, each in {each.chunk.chunk_id: each for each in [*near[:FEW], *far]}.items()
    ]
    # What has no vector cannot be compared, but words find it all the same.
    seen = {*_ids(nearest), *_ids(others)}
    candidates += [known.words.listed(name) for name in lexical if name not in seen]
    return Pool(candidates, truncated=len(nearest) >= known.most and len(near) < DENSE_POOL)


async def _nearest(known: Known, vector: Vector, store: Chunks) -> Sequence[Neighbour]:
    """The search by meaning, wide enough that enough of what it brings passes the filters."""
    if known.plan.scope is Scope.EVERYTHING:
        return known.meaning.nearest
    if known.plan.scope is Scope.FEW:
        return await store.similarities(vector, known.plan.few)
    facets, size = known.plan.prefilter.facets, known.plan.prefilter.size or known.most
    if known.selection.single:
        return await store.nearest(vector, DENSE_POOL, facets)
    found = await store.nearest(vector, min(WIDE, size), facets)
    passing = sum(known.selection.admits(each.chunk) for each in found)
    if passing >= DENSE_POOL or len(found) < WIDE or known.most <= WIDE:
        return found
    # What is nearest does not pass: one more round trip, for all that may.
    if known.plan.scope is Scope.SURE and len(known.plan.dates or ()) < min(known.most, size):
        return await store.similarities(vector, list(known.plan.dates or ()))
    return await store.nearest(vector, min(known.most, size), facets)


def _ids(neighbours: Sequence[Neighbour]) -> list[str]:
    return [each.chunk.chunk_id for each in neighbours]
