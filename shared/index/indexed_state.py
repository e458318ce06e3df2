"""`indexed` of a document: what the lists know of it, so that an edit is a difference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from shared.index.bm25 import pack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shared.index.postings import IndexCollections, PostingsRef


@dataclass(frozen=True, slots=True)
class IndexedState:
    """What the lists know of a document.

    Attributes:
        terms: How often it holds each term.
        facets: The ids of its facets, each with the name that people know it by.
        dated_at: Its date, in microseconds since 1970.
    """

    terms: Mapping[str, int] = field(default_factory=dict)
    facets: Mapping[str, str] = field(default_factory=dict)
    dated_at: int = 0

    @property
    def length(self) -> int:
        """How many terms it holds, repeats included."""
        return sum(self.terms.values())

    def entries(self, names: IndexCollections) -> Iterator[tuple[PostingsRef, int]]:
        """The lists it stands on, and what each says of it."""
        length = self.length
        for term, tf in self.terms.items():
            yield (names.lexicon, term), pack(tf, length)
        for facet in self.facets:
            yield (names.facets, facet), self.dated_at

    def document(self) -> dict[str, Any]:
        """How it is stored."""
        return {
            "terms": dict(self.terms),
            "facets": dict(self.facets),
            "dated_at": self.dated_at,
        }


NOT_INDEXED: Final = IndexedState()


def read_indexed_state(data: Mapping[str, Any]) -> IndexedState:
    """What the lists know of a document, by its fields."""
    return IndexedState(**data["indexed"]) if "indexed" in data else NOT_INDEXED
