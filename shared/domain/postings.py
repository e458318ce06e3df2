"""Postings: which documents hold a term, and the totals of the collection they stand in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

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
