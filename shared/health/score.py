"""How well search finds passages of which it is known that they answer a query.

    recall@10 = share of the queries whose passage is among the first ten
    MRR@10 = mean of 1 / rank of that passage, 0 where it is not among the first ten

MRR: E. M. Voorhees, "The TREC-8 Question Answering Track Report", TREC-8 (1999), 77.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

TOP: Final = 10
WEEK: Final = 7
"""Nights with which one is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What was measured in one night.

    Attributes:
        date: The day, in UTC: YYYY-MM-DD.
        ranks: Each query, by its name, with the rank of its passage; 0 if that was not found.
        model: The embedding model.
        milliseconds: What a search took in the middle.
    """

    date: str
    ranks: Mapping[str, int]
    model: str
    milliseconds: float

    @property
    def recall(self) -> float:
        """Recall@10."""
        return self.recall_of(self.ranks)

    @property
    def mrr(self) -> float:
        """MRR@10."""
        return sum(1 / rank for rank in self.ranks.values() if rank) / len(self.ranks)

    def recall_of(self, names: Collection[str]) -> float:
        """Recall@10 over some of its queries."""
        return sum(self.ranks[name] > 0 for name in names) / len(names)

    def gained(self, former: Night) -> float | None:
        """How much recall@10 rose since another night, over the queries of both; None: over none.

        Queries come and go with their passages: a score of others tells nothing.
        """
        both = self.ranks.keys() & former.ranks.keys()
        return self.recall_of(both) - former.recall_of(both) if both else None


def gained_since_a_week(night: Night, before: Sequence[Night]) -> float | None:
    """How much recall@10 rose against the week before, in the median of its nights.

    Args:
        night: Which.
        before: The nights before it, the latest last.
    """
    gains = [night.gained(former) for former in before[-WEEK:]]
    known = [gain for gain in gains if gain is not None]
    return median(known) if known else None
