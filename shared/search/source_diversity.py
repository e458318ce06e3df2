"""Let no single source fill a page of hits.

Diversity: no source crowds out the others while they have as much to say.

A ranking falls into two tiers: hits whose score is at least half of the best one, then the rest.
Within a tier the sources take turns of two: first the best two hits of every source, in the order
of the ranking, then every source's third and fourth, and so on. So a third hit of a source gives
way to others that are worth it, and to nothing else.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from shared.index.searchable import DocumentT
    from shared.search.legs import Candidate

TURN: Final = 2
"""Hits of one source before the others have their turn."""

WORTH: Final = 0.5
"""What share of the best score makes a hit worth giving way to."""

Ranked = tuple[str, float]
"""An id and its score."""


def diversify(ranked: Sequence[Ranked], sources: Mapping[str, str]) -> list[Ranked]:
    """Let the sources of a ranking take turns.

    Args:
        ranked: Ids and scores, best first; scores are 0 or more.
        sources: Id to the id of its source.
    """
    line = WORTH * ranked[0][1] if ranked else 0.0
    worthy = [hit for hit in ranked if hit[1] >= line]
    rest = [hit for hit in ranked if hit[1] < line]
    return [*_in_turns(worthy, sources), *_in_turns(rest, sources)]


def _in_turns(hits: Iterable[Ranked], sources: Mapping[str, str]) -> list[Ranked]:
    taken: Counter[str] = Counter()
    turns: list[tuple[int, Ranked]] = []
    for hit in hits:
        source = sources[hit[0]]
        turns.append((taken[source] // TURN, hit))
        taken[source] += 1
    return [hit for _, hit in sorted(turns, key=lambda turn: turn[0])]


def in_turns(
    hits: Sequence[Candidate[DocumentT]], source_of: Callable[[str], str]
) -> list[Candidate[DocumentT]]:
    """Let sources take turns: none crowds out the others.

    Args:
        hits: Best first.
        source_of: Tells the source of a document by its id.
    """
    by_id = {hit.id: hit for hit in hits}
    sources = {name: source_of(name) for name in by_id}
    return [by_id[name] for name, _ in diversify([(hit.id, hit.score) for hit in hits], sources)]
