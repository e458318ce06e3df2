"""Moderation: of traces that are about equally relevant, the better one ranks first.

    moderated = relevance * (1 + 0.10 (trust - doubt) + 0.05 validated - 0.05 age)
    relevance = 1 - (1 - score) * min(1, spread / 0.2)
    age = 1 - 2^(-years / 2)

Trust and doubt lie between 0 and 1 (`shared.traces.trust`), and at most one of them is large.
`validated` is 1 or 0. Age is counted from the last amendment and grows from 0 towards 1; it is 1/2
after two years. So the factor lies between 0.85 and 1.15: a trace that is 1.36 times as relevant as
another always ranks before it, whatever the votes. A new trace without votes has a factor of 1.

A search score lies between 0 and 1 relative to the other hits, however similar these are. Where the
similarities of all hits lie within a spread of less than 0.2, a difference in score counts
proportionally less, so that votes can decide between two traces that fit equally well.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

from shared.traces.trust import TraceStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.traces.model import Trace

VOTES_WEIGHT: Final = 0.10
"""How much trust and doubt change the factor at most."""
VALIDATION_BONUS: Final = 0.05
"""What being validated adds to the factor."""
MAX_AGE_PENALTY: Final = 0.05
"""How much age lowers the factor at most."""
HALF_LIFE_SECONDS: Final = 2 * 365.25 * 86_400
"""The age, in seconds, of half the penalty: most software has a new major version by then."""
MIN_FACTOR: Final = 1 - VOTES_WEIGHT - MAX_AGE_PENALTY
MAX_FACTOR: Final = 1 + VOTES_WEIGHT + VALIDATION_BONUS
FULL_SPREAD: Final = 0.2
"""The spread of similarities from which on scores count in full."""


class ScoredHit(Protocol):
    """A search hit with its score."""

    @property
    def id(self) -> str:
        """The id of the document."""

    @property
    def score(self) -> float:
        """The score that search ranks by."""

    @property
    def similarity(self) -> float | None:
        """The cosine similarity with the query, if vectors were compared."""


def moderate_scores(
    hits: Sequence[ScoredHit], traces: Mapping[str, Trace], now: datetime
) -> dict[str, float]:
    """Return the scores by which traces are ordered.

    Args:
        hits: All hits of a search. The spread of their similarities scales the scores.
        traces: The traces to score, by id; hits without one get no score.
        now: The time at which age is measured.
    """
    similarities = [hit.similarity for hit in hits if hit.similarity is not None]
    spread = max(similarities) - min(similarities) if similarities else FULL_SPREAD
    scale = min(1.0, spread / FULL_SPREAD)
    return {
        hit.id: (1 - (1 - hit.score) * scale) * moderation_factor(traces[hit.id], now)
        for hit in hits
        if hit.id in traces
    }


def moderation_factor(trace: Trace, now: datetime) -> float:
    """Return the factor for the relevance of a trace, from `MIN_FACTOR` to `MAX_FACTOR`."""
    seconds = max((now - trace.updated_at).total_seconds(), 0.0)
    age = 1 - math.exp2(-seconds / HALF_LIFE_SECONDS)
    votes = trace.tally.trust - trace.tally.doubt
    validated = trace.status is TraceStatus.VALIDATED
    return 1 + VOTES_WEIGHT * votes + VALIDATION_BONUS * validated - MAX_AGE_PENALTY * age
