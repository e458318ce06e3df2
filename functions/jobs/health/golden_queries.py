"""Queries of which it is known which chunk answers them: known-item search.

Nobody writes queries for a knowledge base of their own. So some of its chunks are asked for by what
their knowledge cards say of them, which others wrote in other words; or else by one of their own
sentences. The chunks are a fair sample, and stay the same from night to night.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from shared.knowledge.golden_queries import GoldenQuery, SearchHealth
from shared.text.sentences import sentences
from shared.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context

WANTED: Final = 20
"""Queries of a set."""
MOST: Final = 25
"""Queries of a night, with those that somebody gave."""
MORE_TRIES: Final = 10
"""Points of the sample where every chunk may be taken already."""
LEAST_TERMS: Final = 3
"""Different terms that a query needs."""
LONGEST: Final = 300
"""Characters of a query."""


async def golden_queries(ctx: Context) -> list[GoldenQuery]:
    """Tonight's queries: those of last night whose chunks are there, and new ones in their place.

    One read a query, and five for each that is to be chosen.
    """
    health = SearchHealth(ctx.database)
    golden = await health.golden()
    known = [*golden.given, *golden.chosen]
    present = await health.present([each.chunk_id for each in known])
    given = [each for each in golden.given if each.chunk_id in present][:MOST]
    kept = [each for each in golden.chosen if each.chunk_id in present]
    wanted = min(WANTED, MOST - len(given))
    chosen = kept + await _chosen(wanted - len(kept), {each.chunk_id for each in kept}, health)
    if tuple(chosen) != golden.chosen:
        await health.choose(chosen)
    return [*given, *chosen[:wanted]]


async def _chosen(wanted: int, taken: set[str], health: SearchHealth) -> list[GoldenQuery]:
    """So many queries for chunks that no other is for, as far as a few more tries find them."""
    chosen: list[GoldenQuery] = []
    tries = 0
    while len(chosen) < wanted and tries < wanted + MORE_TRIES:
        around = await _around(tries, health)
        if not around:
            break
        if query := _best([each for each in around if each.chunk_id not in taken]):
            chosen.append(query)
            taken.add(query.chunk_id)
        tries += 1
    return chosen


async def _around(number: int, health: SearchHealth) -> list[Chunk]:
    """The chunks after a point that is the same each night; after the last chunk, the first."""
    point = hashlib.sha256(str(number).encode()).hexdigest()
    return await health.chunks_from(point) or await health.chunks_from("")


def _best(chunks: Sequence[Chunk]) -> GoldenQuery | None:
    """A query for one of the chunks: rather for one whose card says it in other words."""
    for ask in (in_other_words, in_its_own_words):
        for chunk in chunks:
            if query := ask(chunk):
                return GoldenQuery(query, chunk.chunk_id)
    return None


def in_other_words(chunk: Chunk) -> str | None:
    """What a chunk's card says of it and the chunk does not; None where there is no such thing."""
    card = chunk.knowledge_card
    if card is None:
        return None
    text = _folded(chunk.content)
    said = [each for each in (*card.takeaways, card.summary) if _folded(each) not in text]
    return _most_telling(said)


def in_its_own_words(chunk: Chunk) -> str | None:
    """The sentence of a chunk that holds most different terms."""
    return _most_telling(sentences(chunk.content))


def _most_telling(texts: Sequence[str]) -> str | None:
    cut = [" ".join(text.split())[:LONGEST] for text in texts]
    best = max(cut, key=lambda text: len(set(terms(text))), default="")
    return best if len(set(terms(best))) >= LEAST_TERMS else None


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
