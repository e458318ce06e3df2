"""Trust: what the votes of others say of a trace, and how much a vote counts.

    W(part, total) = (p + z²/2n - z √(p(1-p)/n + z²/4n²)) / (1 + z²/n),  p = part/total, n = total

is the lower end of Wilson's interval for a share that was seen `part` times in `total`: E. B.
Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22 (1927), 209.
It is small while there are few votes, however good they are.

    weight of a voter = 0.5 + 0.4 W(votes up, votes), of the votes on what they contributed
    trust = W(weights up, weights)        doubt = W(weights down, weights)
    alarm = W(a, a + weights up),  a the weights of votes down for `spam` or `security_concern`

A vote of weight w counts as w votes: a newcomer's as half of one, nobody's as a whole one. So no
single vote validates a trace or flags it. It is validated from a trust of 0.3 on: by four
newcomers, or two voters of good record, if nobody votes against it. It is flagged from an alarm of
0.2 on, by two voters, or from a doubt of 0.5 on, by eight newcomers, if nobody votes for it. All
are functions of the votes alone, and end when the votes turn; no vote against a trace makes it look
better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self

Z: Final = 1.96
"""Of the interval: it holds the true share in 95 of 100 cases."""
WHOLE: Final = 100
"""Weights are whole hundredths of a vote, so that sums are exact."""
NEWCOMER: Final = 50
GAINED: Final = 40
"""What a perfect record adds to a newcomer's weight."""
VALIDATED_FROM: Final = 0.3
FLAGGED_FROM: Final = 0.2
"""Of alarm."""
DOUBTED_FROM: Final = 0.5
"""Of doubt, from which on a trace is flagged too."""


class Status(StrEnum):
    """What a trace is taken for."""

    PENDING = "pending"
    VALIDATED = "validated"
    FLAGGED = "flagged"
    WITHDRAWN = "withdrawn"


class VoteType(StrEnum):
    """For or against."""

    UP = "up"
    DOWN = "down"


class FeedbackTag(StrEnum):
    """Why somebody votes against a trace."""

    OUTDATED = "outdated"
    WRONG = "wrong"
    SECURITY_CONCERN = "security_concern"
    SPAM = "spam"


ALARMS: Final = frozenset({FeedbackTag.SECURITY_CONCERN, FeedbackTag.SPAM})
"""Reasons to hide a trace, not only to rank it lower."""


def wilson(part: float, total: float) -> float:
    """The lower end of Wilson's interval for a share; 0 where nothing was seen.

    Raises:
        ValueError: Not `0 <= part <= total`.
    """
    if not 0 <= part <= total:
        raise ValueError(f"a part lies between 0 and its total; got {part} of {total}")
    if not total:
        return 0.0
    share, z2n = part / total, Z * Z / total
    spread = math.sqrt(z2n * (share * (1 - share) + z2n / 4))
    return max(0.0, (share + z2n / 2 - spread) / (1 + z2n))


@dataclass(frozen=True, slots=True)
class Record:
    """How what somebody contributed has fared.

    Attributes:
        up: Votes for it, in heads.
        down: Votes against it.
    """

    up: int = 0
    down: int = 0

    @property
    def weight(self) -> int:
        """What a vote of theirs counts, in hundredths of a vote: 50 to 90."""
        # Sums that were read while somebody else's vote came in may be below zero for a moment.
        up, down = max(self.up, 0), max(self.down, 0)
        return NEWCOMER + round(GAINED * wilson(up, up + down))


@dataclass(frozen=True, slots=True)
class Ballot:
    """What somebody voted.

    Attributes:
        vote: For or against.
        tag: Why, if against.
        weight: What it counts, in hundredths of a vote, as of when it was given.
    """

    vote: VoteType
    tag: FeedbackTag | None
    weight: int

    @property
    def alarms(self) -> bool:
        """Whether it asks to hide the trace."""
        return self.tag in ALARMS


@dataclass(frozen=True, slots=True)
class Tally:
    """The votes on a trace, added up.

    Attributes:
        upvotes: Votes for it, in heads.
        downvotes: Votes against it.
        up: Their weights, in hundredths of a vote.
        down: The same of those against it.
        alarm: The same of those against it that ask to hide it.
    """

    upvotes: int = 0
    downvotes: int = 0
    up: int = 0
    down: int = 0
    alarm: int = 0

    def plus(self, ballot: Ballot) -> Self:
        """With one more vote."""
        return self._moved(ballot, 1)

    def minus(self, ballot: Ballot) -> Self:
        """Without a vote that it holds."""
        return self._moved(ballot, -1)

    @property
    def is_possible(self) -> bool:
        """Whether any votes add up to this; not what was read while they changed."""
        return min(self.upvotes, self.downvotes, self.up, self.down, self.alarm) >= 0

    @property
    def against(self) -> Self:
        """The votes against it alone."""
        return replace(self, upvotes=0, up=0)

    @property
    def trust(self) -> float:
        """How sure it is that voters are for it, 0 to 1; 0 while there are no votes."""
        return self._share(self.up)

    @property
    def doubt(self) -> float:
        """How sure it is that voters are against it, 0 to 1."""
        return self._share(self.down)

    @property
    def status(self) -> Status:
        """What follows from the votes."""
        alarm = wilson(self.alarm / WHOLE, (self.alarm + self.up) / WHOLE)
        if alarm >= FLAGGED_FROM or self.doubt >= DOUBTED_FROM:
            return Status.FLAGGED
        return Status.VALIDATED if self.trust >= VALIDATED_FROM else Status.PENDING

    def _share(self, part: int) -> float:
        return wilson(part / WHOLE, (self.up + self.down) / WHOLE)

    def _moved(self, ballot: Ballot, heads: int) -> Self:
        weight = heads * ballot.weight
        if ballot.vote is VoteType.UP:
            return replace(self, upvotes=self.upvotes + heads, up=self.up + weight)
        return replace(
            self,
            downvotes=self.downvotes + heads,
            down=self.down + weight,
            alarm=self.alarm + weight * ballot.alarms,
        )
