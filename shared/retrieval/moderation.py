"""Moderation: among traces of like relevance, the better one first.

    moderated = relevance * (1 + 0.10 (trust - doubt) + 0.05 validated - 0.05 age)
    age = 1 - 2^(-years / 2)

Trust and doubt lie between 0 and 1 (`shared.domain.trust`), and at most one of them is large;
`validated` is 1 or 0; age, counted from the last amendment, goes from 0 towards 1, and is 1/2 after
two years. So the factor lies within 0.85 and 1.15: whatever the votes say, what is more than 1.36
times as relevant as another trace stands before it. A trace without votes is taken as it is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from shared.domain.trust import Status

if TYPE_CHECKING:
    from datetime import datetime

    from shared.domain.trace import Trace

VOTES: Final = 0.10
VALIDATION: Final = 0.05
AGE: Final = 0.05
HALF_LIFE: Final = 2 * 365.25 * 86_400
"""Seconds after which a trace counts as half outdated: most of what it speaks of had a new major
version by then."""
LEAST: Final = 1 - VOTES - AGE
MOST: Final = 1 + VOTES + VALIDATION


def factor(trace: Trace, now: datetime) -> float:
    """By what the relevance of a trace is multiplied, from `LEAST` to `MOST`."""
    seconds = max((now - trace.updated_at).total_seconds(), 0.0)
    age = 1 - math.exp2(-seconds / HALF_LIFE)
    votes = trace.tally.trust - trace.tally.doubt
    validated = trace.status is Status.VALIDATED
    return 1 + VOTES * votes + VALIDATION * validated - AGE * age
