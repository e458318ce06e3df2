"""The documents to rank: what words bring, and beside it what meaning brings.

When filters leave few documents, all of them are taken, so that no list that was cut can hide one.
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic

from shared.domain.searchable import DocumentT
from shared.search.meaning import DENSE_POOL
from shared.search.plan import FEW, Scope
from shared.search.time_limit import in_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector
    from shared.search.candidate import Candidate
    from shared.search.corpus import Found
    from shared.search.meaning import Meaning
    from shared.search.plan import Plan
    from shared.search.selection import Selection
    from shared.search.words import Words
    from shared.store.documents import Neighbour

LEXICAL_POOL: Final = 30
"""Documents that the search by words brings: what the server compares in one request."""
UNCHECKED_POOL: Final = 120
"""The same, beside the search by meaning, where the lists cannot tell which pass the filters."""
WIDE: Final = 150
"""Documents that one of several filters brings, of which those are taken that pass the others."""
DEPTH: Final = 200
"""How deep one can page into what words alone found."""
MOST: Final = 1_000
"""As many documents as are checked against the filters; Firestore's vector search gives no more."""
MOST_FOR_STRANGERS: Final = WIDE
"""The same for callers whom nobody knows: each document is a read on the owner's bill."""


@dataclass(frozen=True, slots=True)
class Known(Generic[DocumentT]):
    """What the first round trip told.

    Attributes:
        selection: Among which documents the question looks.
        plan: What the lists say of these.
        words: Its words.
        meaning: Its vector, if there is one.
        most: As many documents as are checked against the filters.
        seconds: How long comparing vectors may take; None: no limit.
    """

    selection: Selection
    plan: Plan
    words: Words
    meaning: Meaning[DocumentT]
    most: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Pool(Generic[DocumentT]):
    """The documents to rank.

    Attributes:
        candidates: Each with both scores where both were asked for.
        truncated: Whether documents that pass the filters may be missing.
        out_of_time: Whether the search by meaning took too long, and only words count.
    """

    candidates: list[Candidate[DocumentT]]
    truncated: bool
    out_of_time: bool = False


async def pool(known: Known[DocumentT], documents: Found[DocumentT]) -> Pool[DocumentT]:
    """Bring the documents. One round trip, two where filters and meaning disagree, or none."""
    if known.meaning.vector is None:
        return await _by_words(known, documents)
    return await _by_both(known, known.meaning.vector, documents)


async def _by_words(known: Known[DocumentT], documents: Found[DocumentT]) -> Pool[DocumentT]:
    """Words alone tell the order: documents are read only where the lists leave a doubt."""
    plan, words = known.plan, known.words
    if plan.scope is Scope.FEW and words.cut:
        read = await documents.get_all(plan.few)
        found = [words.read(each) for each in read if known.selection.admits(each)]
    elif plan.exact:
        found = [words.listed(name) for name in words.best(DEPTH)]
    else:
        read = await documents.get_all(words.best(known.most))
        found = [words.listed(each.id, each) for each in read if known.selection.admits(each)]
    holding = [each for each in found if each.bm25]
    best = heapq.nsmallest(DEPTH, holding, key=lambda each: (-each.bm25, each.id))
    return Pool(best, _words_missed(known, len(best)))


def _words_missed(known: Known[DocumentT], found: int) -> bool:
    """Whether documents that pass may be missing, and one could page on to them."""
    if known.plan.scope in (Scope.EVERYTHING, Scope.FEW) or found >= DEPTH:
        return False
    return known.words.cut or len(known.words.scores) > known.most


async def _by_both(
    known: Known[DocumentT], vector: Vector, documents: Found[DocumentT]
) -> Pool[DocumentT]:
    """What only words found is compared too, so that every document has both scores."""
    lexical = known.words.best(LEXICAL_POOL if known.plan.exact else UNCHECKED_POOL)
    compared = {*_ids(known.meaning.nearest), *known.plan.few}
    neighbours, compared_here = await asyncio.gather(
        in_time(_nearest(known, vector, documents), known.seconds),
        in_time(
            documents.similarities(vector, [name for name in lexical if name not in compared]),
            known.seconds,
        ),
    )
    nearest, others = neighbours or [], compared_here or []
    near = [each for each in nearest if known.selection.admits(each.document)]
    far = [each for each in others if known.selection.admits(each.document)]
    brought = set(_ids(near))
    candidates = [
        replace(known.words.read(each.document), similarity=each.similarity, near=name in brought)
        for name, each in {each.document.id: each for each in [*near[:FEW], *far]}.items()
    ]
    # What has no vector cannot be compared, but words find it all the same.
    seen = {*_ids(nearest), *_ids(others)}
    candidates += [known.words.listed(name) for name in lexical if name not in seen]
    truncated = len(nearest) >= known.most and len(near) < DENSE_POOL
    return Pool(candidates, truncated, out_of_time=neighbours is None)


async def _nearest(
    known: Known[DocumentT], vector: Vector, documents: Found[DocumentT]
) -> Sequence[Neighbour[DocumentT]]:
    """The search by meaning, wide enough that enough of what it brings passes the filters."""
    if known.plan.scope is Scope.EVERYTHING:
        return await _not_crowded_out(known, vector, documents)
    if known.plan.scope is Scope.FEW:
        return await documents.similarities(vector, known.plan.few)
    facets, size = known.plan.prefilter.facets, known.plan.prefilter.size or known.most
    if known.selection.single:
        found = await documents.nearest(vector, DENSE_POOL, facets)
        if len(found) < DENSE_POOL or all(map(known.selection.admits, _documents(found))):
            return found
    found = await documents.nearest(vector, min(WIDE, size), facets)
    passing = sum(known.selection.admits(each.document) for each in found)
    if passing >= DENSE_POOL or len(found) < WIDE or known.most <= WIDE:
        return found
    # What is nearest does not pass: one more round trip, for all that may. To read a document with
    # its vector takes longer than to have the server compare it, but fewer are read.
    if known.plan.scope is Scope.SURE and 2 * len(known.plan.dates or ()) < min(known.most, size):
        return await documents.similarities(vector, list(known.plan.dates or ()))
    return await documents.nearest(vector, min(known.most, size), facets)


async def _not_crowded_out(
    known: Known[DocumentT], vector: Vector, documents: Found[DocumentT]
) -> Sequence[Neighbour[DocumentT]]:
    """The nearest of all; more of them where some are not to be shown."""
    nearest = known.meaning.nearest
    if len(nearest) < DENSE_POOL or all(map(known.selection.admits, _documents(nearest))):
        return nearest
    found = await documents.nearest(vector, WIDE)
    passing = sum(map(known.selection.admits, _documents(found)))
    if passing >= DENSE_POOL or len(found) < WIDE or known.most <= WIDE:
        return found
    return await documents.nearest(vector, known.most)


def _documents(neighbours: Sequence[Neighbour[DocumentT]]) -> list[DocumentT]:
    return [each.document for each in neighbours]


def _ids(neighbours: Sequence[Neighbour[DocumentT]]) -> list[str]:
    return [each.document.id for each in neighbours]
