"""BM25, which scores how well a document matches the terms of a query, computed from postings.

    score = sum over the query's terms of idf(t) * tf / (tf + k1 * (1 - b + b * length / average))
    idf(t) = ln(1 + (documents - df + 0.5) / (df + 0.5))

This is Lucene's variant with exact lengths: Kamphuis, de Vries, Boytsov, Lin, "Which BM25 Do You
Mean?", ECIR 2020, row "Lucene (accurate)". Its idf is never negative. The constant factor k1 + 1 is
left out because it does not change the order. A term that occurs twice in the query counts twice.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from shared.index.on_request import read_level, unmark

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CAP: Final = 1_000
"""The maximum number of entries in truncated postings."""

_LENGTH_BITS: Final = 20
"""The number of bits of a packed entry that contain the document's length."""
_LENGTH_MASK: Final = (1 << _LENGTH_BITS) - 1


@dataclass(frozen=True, slots=True)
class Totals:
    """The size of a corpus.

    Attributes:
        length: The number of terms in all documents together, repeats included.
    """

    documents: int
    length: int

    @property
    def average(self) -> float:
        """The mean length of a document, or 1 for an empty corpus."""
        return self.length / self.documents if self.documents and self.length else 1.0


@dataclass(frozen=True, slots=True)
class Postings:
    """The documents that contain a term or have a facet.

    Attributes:
        df: The document frequency: the number of documents with the term or facet.
        entries: The entries by document id. A term's entry is the packed (tf, length), a facet's
            entry the document's date in microseconds since 1970. Postings with fewer than `df`
            entries are truncated, to the best entries of a term or the newest of a facet.
        since: The date from which a facet's postings are complete even if they are truncated.
        days: For a month, the number of documents by day, as YYYY-MM-DD. Documents that truncated
            postings lack are counted, too.
    """

    df: int
    entries: Mapping[str, int]
    since: int = 0
    days: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether no document is missing."""
        return self.df <= len(self.entries)


def pack(tf: int, length: int) -> int:
    """Pack a term's frequency in a document and the document's length into one integer.

    Raises:
        ValueError: The arguments do not satisfy `1 <= tf` and `1 <= length < 2**20`.
    """
    if not (tf >= 1 and 1 <= length <= _LENGTH_MASK):
        raise ValueError(f"need 1 <= tf and 1 <= length <= {_LENGTH_MASK}; got {tf}, {length}")
    return tf << _LENGTH_BITS | length


def unpack(entry: int) -> tuple[int, int]:
    """Unpack (tf, length) from an entry made by `pack`."""
    return entry >> _LENGTH_BITS, entry & _LENGTH_MASK


K1: Final = 1.2
"""BM25's k1, which sets how soon further repeats of a term in a document stop counting."""

B: Final = 0.75
"""BM25's b, which sets how much a document's length counts, from 0 (not at all) to 1 (fully)."""


def idf(df: int, documents: int) -> float:
    """Return the inverse document frequency, which is higher for rarer terms.

    The two counts may be read at different moments, so `df` may exceed `documents`.
    """
    rest = max(documents - df, 0)
    return math.log1p((rest + 0.5) / (df + 0.5))


def impact(tf: int, length: int, average: float) -> float:
    """Return the share of a term's idf that a document gets, from 0 to below 1."""
    return tf / (tf + K1 * (1 - B + B * length / average))


def select_best(entries: Mapping[str, int], average: float, limit: int = CAP) -> dict[str, int]:
    """Return the entries with the highest impact. Among equal impacts, the lowest ids are kept.

    Entries of documents found only on request come last.
    """

    def sort_key(item: tuple[str, int]) -> tuple[int, float, str]:
        document_id, entry = item
        return read_level(entry), -impact(*unpack(unmark(entry)), average), document_id

    return dict(heapq.nsmallest(limit, entries.items(), key=sort_key))


def score(
    query: Iterable[str], postings: Mapping[str, Postings], totals: Totals
) -> dict[str, float]:
    """Score every document in the postings of a query's terms.

    Args:
        query: The query's terms, repeats included.
        postings: The terms' postings, without those of terms that occur in no document.

    Returns:
        The scores by document id, unordered. If a term's postings are truncated, the term does not
        count for documents that they lack. `score_document` counts it.
    """
    average = totals.average
    scores: dict[str, float] = {}
    for term, weight in _weight_terms(query, postings, totals).items():
        for document, entry in postings[term].entries.items():
            gain = weight * impact(*unpack(entry), average)
            scores[document] = scores.get(document, 0.0) + gain
    return scores


def score_document(
    query: Iterable[str],
    counts: Mapping[str, int],
    length: int,
    postings: Mapping[str, Postings],
    totals: Totals,
) -> float:
    """Score one document by its own terms, even if truncated postings lack it.

    Args:
        query: The query's terms, repeats included.
        counts: How often each term occurs in the document.
        length: The number of terms in the document, repeats included.
        postings: The postings of the query's terms, for their document frequencies.
    """
    weights = _weight_terms(query, postings, totals)
    return sum(
        weight * impact(counts[term], length, totals.average)
        for term, weight in weights.items()
        if term in counts
    )


def _weight_terms(
    query: Iterable[str], postings: Mapping[str, Postings], totals: Totals
) -> dict[str, float]:
    """Return the weight of each term that occurs in a document: its idf times its repeats."""
    return {
        term: repeats * idf(postings[term].df, totals.documents)
        for term, repeats in Counter(query).items()
        if term in postings
    }
