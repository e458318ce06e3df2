"""The quality of a ranking.

Järvelin, Kekäläinen, "Cumulated Gain-Based Evaluation of IR Techniques", ACM TOIS 20(4), 2002.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def compute_ndcg(ranking: Sequence[str], relevant: Collection[str], depth: int = 10) -> float:
    """Return the normalized discounted cumulative gain, with binary gains.

    It is 1 if all relevant documents come first, and 0 if the first `depth` contain none.

    Args:
        ranking: The ids of documents, best first.
        relevant: The ids of the relevant documents, at least one.
        depth: The number of documents that count.
    """
    gains = (_discount(rank) for rank, name in enumerate(ranking[:depth], 1) if name in relevant)
    ideal_gains = map(_discount, range(1, min(len(relevant), depth) + 1))
    return sum(gains) / sum(ideal_gains)


def compute_recall(ranking: Sequence[str], relevant: Collection[str], depth: int) -> float:
    """Return the share of relevant documents among the first `depth`."""
    return len(set(relevant) & set(ranking[:depth])) / len(relevant)


def _discount(rank: int) -> float:
    return 1 / math.log2(rank + 1)
