"""Which filters go to the server, and which are applied to the postings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from shared.core.dates import ALWAYS, Span
from shared.index.facets import Facet, Kind
from shared.index.vector_index import MAX_ANY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shared.index.bm25 import Postings
    from shared.index.postings import SearchPostings
    from shared.index.searchable import Searchable

    Dates = dict[str, int]
    """Document id to its date, in microseconds since 1970."""

MAX_DAYS: Final = 366
"""Days of a span for which the lists of its months are read, 13 at most. Longer spans are checked
on the documents themselves."""


@dataclass(frozen=True, slots=True)
class FacetFilter:
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

    groups: tuple[FacetFilter, ...] = ()
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


def unknown_values(
    selection: Selection, lists: SearchPostings
) -> Iterator[tuple[FacetFilter, str]]:
    """The filters of which no document bears a value, each with that value."""
    for group in selection.groups:
        for value, facets in group.choices.items():
            if not any(facet in lists.facets for facet in facets):
                yield group, value


FEW: Final = 120
"""As many documents as filters may leave for all of them to be ranked."""


class FilterScope(Enum):
    """Among which documents a search looks."""

    EVERYTHING = auto()
    """All: there is no filter."""
    FEW = auto()
    """A known set that holds all that pass: so small that each is looked at, maybe empty."""
    SURE = auto()
    """A larger set, which the lists tell exactly."""
    UNCHECKED = auto()
    """What passes is only seen on the documents themselves."""


@dataclass(frozen=True, slots=True)
class FilterPlan:
    """What is known of the documents that pass.

    Attributes:
        scope: Among which to look.
        dates: Every document that passes is among these, each with its date; None: no such set is
            known.
        exact: Whether the lists alone tell what passes, as far as they know.
        prefilter: What the server may be asked for.
    """

    scope: FilterScope
    dates: Dates | None
    exact: bool
    prefilter: Prefilter

    @property
    def ids(self) -> list[str]:
        """The documents of `dates`; none where no such set is known."""
        return list(self.dates or ())

    @property
    def few(self) -> list[str]:
        """The ids of FEW; none in any other scope."""
        return self.ids if self.scope is FilterScope.FEW else []


@dataclass(frozen=True, slots=True)
class Prefilter:
    """Facets of which every document that passes bears one.

    Attributes:
        facets: Their ids, at most 30; none: the server cannot be asked.
        size: How many documents they leave, at most.
    """

    facets: tuple[str, ...] = ()
    size: int = 0


def plan_filters(selection: Selection, lists: Mapping[Facet, Postings]) -> FilterPlan:
    """Combine the lists of a selection's facets.

    A list that was cut still misses nothing from its `since` on: under a span that begins later it
    is as good as a complete one.
    """
    if selection.everything:
        return FilterPlan(FilterScope.EVERYTHING, None, exact=True, prefilter=Prefilter())
    if selection.span.empty:
        return FilterPlan(FilterScope.FEW, {}, exact=True, prefilter=Prefilter())
    groups = [group.facets for group in selection.groups]
    if selection.months:
        groups.append(selection.months)
    known = [_dates(group, lists, selection) for group in groups]
    complete = [dates for dates in known if dates is not None]
    dates = _intersection(complete) if complete else None
    exact = dates is not None and (not dates or len(complete) == len(known))
    return FilterPlan(_scope(dates, exact=exact), dates, exact, prefilter(groups, lists))


def prefilter(groups: Sequence[Sequence[Facet]], lists: Mapping[Facet, Postings]) -> Prefilter:
    """Of groups of facets, the one that leaves the fewest documents."""
    known = [[facet for facet in group if facet in lists] for group in groups]
    possible = [
        Prefilter(tuple(facet.id for facet in group), sum(lists[facet].df for facet in group))
        for group in known
        if 0 < len(group) <= MAX_ANY
    ]
    return min(possible, key=lambda each: each.size, default=Prefilter())


def _scope(dates: Dates | None, *, exact: bool) -> FilterScope:
    if dates is not None and len(dates) <= FEW:
        return FilterScope.FEW
    return FilterScope.SURE if exact else FilterScope.UNCHECKED


def _dates(
    facets: Sequence[Facet], lists: Mapping[Facet, Postings], selection: Selection
) -> Dates | None:
    """The documents that bear one of the facets, within the span; None if some may be missing."""
    moments = selection.span.microseconds
    found = [lists[facet] for facet in facets if facet in lists]
    if any(not each.complete and each.since > moments.start for each in found):
        return None
    return {name: date for each in found for name, date in each.entries.items() if date in moments}


def _intersection(known: Sequence[Dates]) -> Dates:
    first, *others = sorted(known, key=len)
    return {name: date for name, date in first.items() if all(name in each for each in others)}
