"""What a list of dates keeps when it has grown too long."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from shared.domain.postings import CAP

if TYPE_CHECKING:
    from collections.abc import Mapping


def newest(entries: Mapping[str, int], _average: float = 1.0, limit: int = CAP) -> dict[str, int]:
    """Keep the latest entries; of those of one date, the ones of the highest ids."""
    return dict(heapq.nlargest(limit, entries.items(), key=lambda entry: (entry[1], entry[0])))
