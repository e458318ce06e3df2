"""Moderates search scores by votes: of two about equally relevant traces, the better ranks first.

    moderated = relevance * (1 + 0.10 (trust - doubt) + 0.05 validated - 0.05 age)
    relevance = 1 - (1 - score) * min(1, spread / 0.2)
    age = 1 - 2^(-years / 2)

Trust and doubt are between 0 and 1 (`shared.traces.trust`), and at most one of them is large.
`validated` is 1 or 0. Age is counted from the last amendment. It grows from 0 towards 1, and is 1/2
after two years. So the factor is between 0.85 and 1.15, and a trace that is 1.36 times as relevant
as another always ranks before it, whatever the votes. A new trace without votes has a factor of 1.

Search scales scores to the range from 0 to 1, even if all hits are about equally similar to the
query. If the similarities of all hits spread over less than 0.2, differences in score count
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
"""Trust and doubt change the factor by at most this much. Like the two constants below, it was
chosen so that votes decide only between traces of similar relevance."""
VALIDATION_BONUS: Final = 0.05
"""The factor of a validated trace is higher by this much."""
MAX_AGE_PENALTY: Final = 0.05
"""Age lowers the factor by at most this much."""
HALF_LIFE_SECONDS: Final = 2 * 365.25 * 86_400
"""At this age, two years, the penalty is half its maximum. Most software has a new major version by
then."""
MIN_FACTOR: Final = 1 - VOTES_WEIGHT - MAX_AGE_PENALTY
"""The lower limit of the factor, for an old trace that all voters are against."""
MAX_FACTOR: Final = 1 + VOTES_WEIGHT + VALIDATION_BONUS
"""The upper limit of the factor, for a new trace that all voters are for."""
FULL_SPREAD: Final = 0.2
"""Scores count in full if the spread of similarities is at least this large."""


class ScoredHit(Protocol):
    """A search hit with its score."""

    @property
    def id(self) -> str:
        """The id of the document."""

    @property
    def score(self) -> float:
        """The score by which search ranks the hit."""

    @property
    def similarity(self) -> float | None:
        """The cosine similarity with the query, or None if vectors were not compared."""


def moderate_scores(
    hits: Sequence[ScoredHit], traces: Mapping[str, Trace], now: datetime
) -> dict[str, float]:
    """Return the moderated scores of traces by id.

    Args:
        hits: All hits of a search. The spread of their similarities scales the scores.
        traces: The traces to score, by id. Hits whose trace is missing get no score.
    """
    similarities = [hit.similarity for hit in hits if hit.similarity is not None]
    spread = max(similarities) - min(similarities) if similarities else FULL_SPREAD
    scale = min(1.0, spread / FULL_SPREAD)
    return {
        hit.id: (1 - (1 - hit.score) * scale) * compute_factor(traces[hit.id], now)
        for hit in hits
        if hit.id in traces
    }


def compute_factor(trace: Trace, now: datetime) -> float:
    """Return the factor for the relevance of a trace, from `MIN_FACTOR` to `MAX_FACTOR`."""
    seconds = max((now - trace.updated_at).total_seconds(), 0.0)
    age = 1 - math.exp2(-seconds / HALF_LIFE_SECONDS)
    votes = trace.tally.trust - trace.tally.doubt
    is_validated = trace.status is TraceStatus.VALIDATED
    return 1 + VOTES_WEIGHT * votes + VALIDATION_BONUS * is_validated - MAX_AGE_PENALTY * age
