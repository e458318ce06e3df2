"""Moderation: among traces of like relevance, the better one first.

    moderated = relevance * (1 + 0.10 (trust - doubt) + 0.05 validated - 0.05 age)
    relevance = 1 - (1 - score) * min(1, spread / 0.2)
    age = 1 - 2^(-years / 2)

Trust and doubt lie between 0 and 1 (`shared.traces.trust`), and at most one of them is large;
`validated` is 1 or 0; age, counted from the last amendment, goes from 0 towards 1, and is 1/2 after
two years. So the factor lies within 0.85 and 1.15: whatever the votes say, what is more than 1.36
times as relevant as another trace stands before it. A trace without votes is taken as it is.

The score of a search lies between 0 and 1 within what was found, however alike that is. Where all
similarities lie within a spread of less than 0.2, a difference of scores counts as much less as the
spread is narrower: of two traces that fit alike, votes can decide.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

from shared.traces.trust import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.traces.model import Trace


VOTES: Final = 0.10


VALIDATION: Final = 0.05


AGE: Final = 0.05


HALF_LIFE: Final = 2 * 365.25 * 86_400
"""Seconds after which a trace counts as half outdated: most of what it speaks of had a new major
version by then."""


LEAST: Final = 1 - VOTES - AGE


MOST: Final = 1 + VOTES + VALIDATION


SPREAD: Final = 0.2
"""Of similarities, below which what was found is alike."""


class Scored(Protocol):
    """What a search says of something that it found."""

    @property
    def id(self) -> str:
        """Which."""

    @property
    def score(self) -> float:
        """What it is ranked by."""

    @property
    def similarity(self) -> float | None:
        """Cosine similarity with the question, if they were compared."""


def moderated(
    found: Sequence[Scored], traces: Mapping[str, Trace], now: datetime
) -> dict[str, float]:
    """The scores by which traces are ordered.

    Args:
        found: All that a search found, each with its score.
        traces: Those of them that are to be ordered, by id.
        now: When.
    """
    known = [each.similarity for each in found if each.similarity is not None]
    spread = max(known) - min(known) if known else SPREAD
    scale = min(1.0, spread / SPREAD)
    return {
        each.id: (1 - (1 - each.score) * scale) * factor(traces[each.id], now)
        for each in found
        if each.id in traces
    }


def factor(trace: Trace, now: datetime) -> float:
    """By what the relevance of a trace is multiplied, from `LEAST` to `MOST`."""
    seconds = max((now - trace.updated_at).total_seconds(), 0.0)
    age = 1 - math.exp2(-seconds / HALF_LIFE)
    votes = trace.tally.trust - trace.tally.doubt
    validated = trace.status is Status.VALIDATED
    return 1 + VOTES * votes + VALIDATION * validated - AGE * age
