"""BM25 over postings, and postings as Firestore stores them.

BM25: how well the terms of a query fit a document.

    score = sum over the query's terms of idf(t) * tf / (tf + k1 * (1 - b + b * length / average))
    idf(t) = ln(1 + (documents - df + 0.5) / (df + 0.5))

This is Lucene's variant with exact lengths: Kamphuis, de Vries, Boytsov, Lin, "Which BM25 Do You
Mean?", ECIR 2020, row "Lucene (accurate)". Its idf is never negative, and the constant factor
k1 + 1 is left out, as it changes no order. A term counts as often as the query repeats it.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CAP: Final = 1_000
"""Entries that a list holds at most, but for what was added since it was last cut."""

_LENGTH_BITS: Final = 20
_LENGTH_MASK: Final = (1 << _LENGTH_BITS) - 1


@dataclass(frozen=True, slots=True)
class Totals:
    """The collection a document is scored in.

    Attributes:
        documents: How many documents it holds.
        length: How many terms they hold together.
    """

    documents: int
    length: int

    @property
    def average(self) -> float:
        """The mean length of a document; 1 where there is nothing to average."""
        return self.length / self.documents if self.documents and self.length else 1.0


@dataclass(frozen=True, slots=True)
class Postings:
    """The documents that hold a term, or bear a facet.

    Attributes:
        df: How many there are.
        entries: Document id to what the list says of it: for a term packed (tf, length), for a
            facet the document's date in microseconds since 1970. Where `df` exceeds them, the list
            was cut: a term's to its best entries, a facet's to its newest.
        since: From which entry on a facet's list misses nothing, even if it was cut.
    """

    df: int
    entries: Mapping[str, int]
    since: int = 0

    @property
    def complete(self) -> bool:
        """Whether no document is missing."""
        return self.df <= len(self.entries)


def pack(tf: int, length: int) -> int:
    """Put a term's frequency and its document's length into one integer.

    Raises:
        ValueError: Not `1 <= tf <= length < 2**20`.
    """
    if not 1 <= tf <= length <= _LENGTH_MASK:
        raise ValueError(f"need 1 <= tf <= length <= {_LENGTH_MASK}; got {tf}, {length}")
    return tf << _LENGTH_BITS | length


def unpack(entry: int) -> tuple[int, int]:
    """Take (tf, length) out of the integer again."""
    return entry >> _LENGTH_BITS, entry & _LENGTH_MASK


K1: Final = 1.2
"""How fast repeats of a term in one document stop counting."""

B: Final = 0.75
"""How much a document's length counts: 0 not at all, 1 fully."""


def idf(df: int, documents: int) -> float:
    """How much a term says: the more, the fewer of the documents hold it.

    Counts that were read at different moments may disagree: no more documents hold a term than
    there are.
    """
    rest = max(documents - df, 0)
    return math.log1p((rest + 0.5) / (df + 0.5))


def impact(tf: int, length: int, average: float) -> float:
    """What a document makes of a term's idf: 0 where the term is missing, always below 1."""
    return tf / (tf + K1 * (1 - B + B * length / average))


def best(entries: Mapping[str, int], average: float, limit: int = CAP) -> dict[str, int]:
    """Keep the entries of highest impact; of equal ones, those of the lowest ids."""

    def order(item: tuple[str, int]) -> tuple[float, str]:
        return -impact(*unpack(item[1]), average), item[0]

    return dict(heapq.nsmallest(limit, entries.items(), key=order))


def score(
    query: Iterable[str], postings: Mapping[str, Postings], totals: Totals
) -> dict[str, float]:
    """Score every document that a list of the query's terms holds.

    Args:
        query: The query's terms, repeats included.
        postings: The lists of those terms that any document holds.
        totals: The collection.

    Returns:
        Document id to score, unordered. Where a list is cut, its term is missing from the score of
        the documents that were left out; `score_document` adds it.
    """
    average = totals.average
    scores: dict[str, float] = {}
    for term, weight in _weights(query, postings, totals).items():
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
    """Score one document by its own terms, in or out of the lists.

    Args:
        query: The query's terms, repeats included.
        counts: How often the document holds each term.
        length: How many terms it holds, repeats included.
        postings: The lists of the query's terms, for their document frequencies.
        totals: The collection.
    """
    weights = _weights(query, postings, totals)
    return sum(
        weight * impact(counts[term], length, totals.average)
        for term, weight in weights.items()
        if term in counts
    )


def _weights(
    query: Iterable[str], postings: Mapping[str, Postings], totals: Totals
) -> dict[str, float]:
    return {
        term: repeats * idf(postings[term].df, totals.documents)
        for term, repeats in Counter(query).items()
        if term in postings
    }
