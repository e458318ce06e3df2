"""What a search is restricted to: facets, and a stretch of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.dates import ALWAYS, Span
from shared.index.facets import Facet, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shared.index.postings import Lists
    from shared.index.searchable import Searchable

MAX_DAYS: Final = 366
"""Days of a span for which the lists of its months are read, 13 at most. Longer spans are checked
on the documents themselves."""


@dataclass(frozen=True, slots=True)
class Group:
    """One filter: a document must bear one of these facets.

    Attributes:
        field: What callers call the filter.
        choices: Each value as the caller wrote it, with the facets that it may mean.
    """

    field: str
    choices: Mapping[str, tuple[Facet, ...]]

    @property
    def facets(self) -> list[Facet]:
        """All facets that it may mean."""
        return [facet for facets in self.choices.values() for facet in facets]


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters that a document must all pass, and the days its date must lie in."""

    groups: tuple[Group, ...] = ()
    span: Span = ALWAYS

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.groups and self.span == ALWAYS

    @property
    def single(self) -> bool:
        """Whether it is one filter and nothing else: the server can apply it alone."""
        return len(self.groups) == 1 and self.span == ALWAYS

    @property
    def months(self) -> list[Facet]:
        """The months that the span touches, if they are few."""
        short = 0 <= (self.span.last - self.span.first).days < MAX_DAYS
        return [Facet(Kind.MONTH, month) for month in self.span.months] if short else []

    @property
    def facets(self) -> list[Facet]:
        """The facets whose lists tell what passes."""
        return [*(facet for group in self.groups for facet in group.facets), *self.months]

    def admits(self, document: Searchable) -> bool:
        """Whether a document passes, by what it says itself."""
        date = document.dated_at
        if self.span != ALWAYS and (date is None or date not in self.span):
            return False
        borne = document.facets
        return all(any(facet in borne for facet in group.facets) for group in self.groups)


def unknown(selection: Selection, lists: Lists) -> Iterator[tuple[Group, str]]:
    """The filters of which no document bears a value, each with that value."""
    for group in selection.groups:
        for value, facets in group.choices.items():
            if not any(facet in lists.facets for facet in facets):
                yield group, value
