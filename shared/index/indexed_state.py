"""`indexed` of a document: what the lists know of it, so that an edit is a difference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from shared.index.bm25 import pack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shared.index.postings import IndexNames, ListName


@dataclass(frozen=True, slots=True)
class Indexed:
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

    def entries(self, names: IndexNames) -> Iterator[tuple[ListName, int]]:
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


NOTHING: Final = Indexed()


def read_mark(data: Mapping[str, Any]) -> Indexed:
    """What the lists know of a document, by its fields."""
    return Indexed(**data["indexed"]) if "indexed" in data else NOTHING
