"""Computes the trust in a trace from its votes, and the weight of each vote.

    W(part, total) = (p + z²/2n - z √(p(1-p)/n + z²/4n²)) / (1 + z²/n),  p = part/total, n = total

is the lower bound of the Wilson score interval for `part` successes in `total` trials:
E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22
(1927), 209. It is small while there are few votes, however good they are.

    weight of a voter = 0.5 + 0.4 W(upvotes, votes)
    trust = W(weight up, weight)
    doubt = W(weight down, weight)
    alarm = W(a, a + weight up)

The weight of a voter follows from the votes on the voter's own traces. `weight up` and `weight
down` are the total weights of the votes for and against the trace, `weight` is their sum, and `a`
is the total weight of the downvotes for `spam` or `security_concern`.

A vote of weight w counts as w votes. A newcomer's vote counts as half a vote, and every vote as
less than one, so that a single vote neither validates nor flags a trace. If nobody votes against a
trace, four newcomers, or two voters with good records, give it the trust of 0.3 at which it is
validated. If nobody votes for a trace, two voters can raise the alarm of 0.2 at which it is
flagged, and eight newcomers the doubt of 0.5 that also flags it. Trust and status depend only on
the votes and change with them. No vote against a trace improves its status.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self

Z: Final = 1.96
"""This z-score gives the Wilson interval a confidence of 95 %."""
WEIGHT_UNIT: Final = 100
"""Weights are stored in whole hundredths of a vote, so that sums are exact."""
NEWCOMER_WEIGHT: Final = 50
"""A voter without a record has this weight, in hundredths of a vote."""
MAX_RECORD_BONUS: Final = 40
"""A perfect record adds this to a voter's weight, in hundredths of a vote."""
VALIDATION_TRUST: Final = 0.3
"""A trace with at least this trust is validated. The module's docstring says how many votes this
and the next two thresholds take."""
FLAGGING_ALARM: Final = 0.2
"""A trace with at least this alarm is flagged."""
FLAGGING_DOUBT: Final = 0.5
"""A trace with at least this doubt is flagged."""


class TraceStatus(StrEnum):
    """The status of a trace, which follows from the votes or from its contributor's withdrawal."""

    PENDING = "pending"
    """There are few votes, or the voters disagree."""
    VALIDATED = "validated"
    """Enough voters are for the trace."""
    FLAGGED = "flagged"
    """Enough voters warn against the trace. Searches leave it out by default."""
    WITHDRAWN = "withdrawn"
    """The contributor withdrew the trace. Nobody else can read it."""


class VoteType(StrEnum):
    """The direction of a vote: for or against a trace."""

    UP = "up"
    DOWN = "down"


class FeedbackTag(StrEnum):
    """The reason for a vote against a trace."""

    OUTDATED = "outdated"
    WRONG = "wrong"
    SECURITY_CONCERN = "security_concern"
    SPAM = "spam"


ALARM_TAGS: Final = frozenset({FeedbackTag.SECURITY_CONCERN, FeedbackTag.SPAM})
"""Votes for these reasons ask to hide a trace, not only to rank it lower."""


def compute_wilson_bound(part: float, total: float) -> float:
    """Compute the lower bound of the Wilson score interval, or 0 if `total` is 0.

    Raises:
        ValueError: `part` is negative or larger than `total`.
    """
    if not 0 <= part <= total:
        raise ValueError(f"the part must be between 0 and the total, not {part} of {total}")
    if not total:
        return 0.0
    p = part / total
    z2_by_n = Z * Z / total
    spread = math.sqrt(z2_by_n * (p * (1 - p) + z2_by_n / 4))
    return max(0.0, (p + z2_by_n / 2 - spread) / (1 + z2_by_n))


@dataclass(frozen=True, slots=True)
class ContributorRecord:
    """The votes on all traces of one contributor."""

    up: int = 0
    down: int = 0

    @property
    def weight(self) -> int:
        """The weight of the contributor's own votes: 50 to 90 hundredths of a vote."""
        # A sum that is read while another vote is being written may briefly be below zero.
        up = max(self.up, 0)
        down = max(self.down, 0)
        return NEWCOMER_WEIGHT + round(MAX_RECORD_BONUS * compute_wilson_bound(up, up + down))


@dataclass(frozen=True, slots=True)
class Vote:
    """One user's vote on a trace.

    Attributes:
        tag: The reason for a vote against the trace, or None for a vote for it.
        weight: The weight in hundredths of a vote, which was fixed when the user voted.
    """

    type: VoteType
    tag: FeedbackTag | None
    weight: int

    @property
    def raises_alarm(self) -> bool:
        """Whether the vote asks to hide the trace."""
        return self.tag in ALARM_TAGS


@dataclass(frozen=True, slots=True)
class VoteTally:
    """The sums of the votes on a trace.

    Attributes:
        up: The total weight of the upvotes, in hundredths of a vote.
        down: The total weight of the downvotes.
        alarm: The total weight of the downvotes that ask to hide the trace.
    """

    upvotes: int = 0
    downvotes: int = 0
    up: int = 0
    down: int = 0
    alarm: int = 0

    def plus(self, vote: Vote) -> Self:
        """Return the sums with another vote."""
        return self._add(vote, 1)

    def minus(self, vote: Vote) -> Self:
        """Return the sums without a vote that they contain."""
        return self._add(vote, -1)

    @property
    def is_possible(self) -> bool:
        """Whether no sum is negative. A sum may be negative if it is read while a vote changes."""
        return min(self.upvotes, self.downvotes, self.up, self.down, self.alarm) >= 0

    @property
    def downvotes_only(self) -> Self:
        """The sums of the votes against the trace alone."""
        return replace(self, upvotes=0, up=0)

    @property
    def trust(self) -> float:
        """The confidence that voters are for the trace, from 0 to 1. Without votes it is 0."""
        return self._compute_share(self.up)

    @property
    def doubt(self) -> float:
        """The confidence that voters are against the trace, from 0 to 1. Without votes it is 0."""
        return self._compute_share(self.down)

    @property
    def status(self) -> TraceStatus:
        """The status that follows from the votes."""
        alarm = compute_wilson_bound(self.alarm / WEIGHT_UNIT, (self.alarm + self.up) / WEIGHT_UNIT)
        if alarm >= FLAGGING_ALARM or self.doubt >= FLAGGING_DOUBT:
            return TraceStatus.FLAGGED
        if self.trust >= VALIDATION_TRUST:
            return TraceStatus.VALIDATED
        return TraceStatus.PENDING

    def _compute_share(self, weight: int) -> float:
        """Return the lower bound of a weight's share of the weight of all votes."""
        return compute_wilson_bound(weight / WEIGHT_UNIT, (self.up + self.down) / WEIGHT_UNIT)

    def _add(self, vote: Vote, count: int) -> Self:
        weight = count * vote.weight
        if vote.type is VoteType.UP:
            return replace(self, upvotes=self.upvotes + count, up=self.up + weight)
        return replace(
            self,
            downvotes=self.downvotes + count,
            down=self.down + weight,
            alarm=self.alarm + weight * vote.raises_alarm,
        )
