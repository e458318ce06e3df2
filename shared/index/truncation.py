"""What a list that has grown too long keeps: a term's best entries, a facet's newest."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from shared.index.bm25 import CAP, best

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.index.posting_changes import TruncationPolicy
    from shared.index.postings import IndexCollections


def newest_entries(
    entries: Mapping[str, int], _average: float = 1.0, limit: int = CAP
) -> dict[str, int]:
    """Keep the latest entries; of those of one date, the ones of the highest ids."""
    return dict(heapq.nlargest(limit, entries.items(), key=lambda entry: (entry[1], entry[0])))


def truncation_policies(names: IndexCollections) -> Mapping[str, TruncationPolicy]:
    """What the lists of a corpus keep, by collection.

    The job that cuts lists and the one that makes them anew must agree.
    """
    return {names.lexicon: best, names.facets: newest_entries}
