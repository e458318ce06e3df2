"""What a list that has grown too long keeps: a term's best entries, a facet's newest."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from shared.domain.postings import CAP
from shared.retrieval.bm25 import best
from shared.store.index_lists import FACETS, LEXICON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.store.indexing import Keep


def newest(entries: Mapping[str, int], _average: float = 1.0, limit: int = CAP) -> dict[str, int]:
    """Keep the latest entries; of those of one date, the ones of the highest ids."""
    return dict(heapq.nlargest(limit, entries.items(), key=lambda entry: (entry[1], entry[0])))


KEEP: Final[Mapping[str, Keep]] = {LEXICON: best, FACETS: newest}
"""By collection; the job that cuts lists and the one that makes them anew must agree."""
