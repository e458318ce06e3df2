"""Plans a filtered search from the postings of the filters, before any document is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from shared.core.dates import ALL_DATES, DateSpan
from shared.index import on_request
from shared.index.facets import POSTINGS_ONLY, Facet, Kind
from shared.index.vector_index import MAX_ARRAY_CONTAINS_ANY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shared.index.bm25 import Postings
    from shared.index.postings import SearchPostings
    from shared.index.searchable import Searchable

    Dates = dict[str, int]
    """Each document's date by id, in microseconds since 1970."""

SMALL_SCOPE_SIZE: Final = 120
"""The maximum number of documents that are all ranked, rather than searched for candidates."""
MAX_DAYS: Final = 366
"""The longest span of dates, in days, that is filtered by the postings of its months (13 at most).
For a longer span, each document's own date is checked."""


@dataclass(frozen=True, slots=True)
class FacetFilter:
    """A filter that documents pass if they have any of its facets.

    Attributes:
        field: The filter's name in a tool's arguments.
        choices: The facets that each value may mean, by the value as the caller wrote it.
        excludes: Whether documents pass if they have none of its facets instead.
    """

    field: str
    choices: Mapping[str, tuple[Facet, ...]]
    excludes: bool = False

    @property
    def facets(self) -> list[Facet]:
        """All facets that the values may mean."""
        return [facet for facets in self.choices.values() for facet in facets]


@dataclass(frozen=True, slots=True)
class Selection:
    """The filters of a search. A document must pass all of them and be dated within the span.

    Attributes:
        only: If not None, only these documents may pass. Their dates, all within the span, by id.
    """

    filters: tuple[FacetFilter, ...] = ()
    span: DateSpan = ALL_DATES
    only: Dates | None = None

    @property
    def is_unrestricted(self) -> bool:
        """Whether every document passes."""
        return not self.filters and self.span == ALL_DATES and self.only is None

    @property
    def is_single_filter(self) -> bool:
        """Whether there is exactly one filter and nothing else, so that the server can apply it."""
        return len(self.filters) == 1 and self.span == ALL_DATES and self.only is None

    @property
    def required(self) -> list[list[Facet]]:
        """For each filter that excludes nothing, the facets of which a document must have one."""
        return [filter_.facets for filter_ in self.filters if not filter_.excludes]

    @property
    def excluded(self) -> list[Facet]:
        """The facets that a document must not have."""
        return [facet for filter_ in self.filters if filter_.excludes for facet in filter_.facets]

    @property
    def months(self) -> list[Facet]:
        """The months that overlap the span. There are none if it is longer than MAX_DAYS."""
        is_short = 0 <= (self.span.last - self.span.first).days < MAX_DAYS
        return [Facet(Kind.MONTH, month) for month in self.span.months] if is_short else []

    @property
    def facets(self) -> list[Facet]:
        """The facets whose postings show which documents pass."""
        return [*(facet for filter_ in self.filters for facet in filter_.facets), *self.months]

    def admits(self, document: Searchable) -> bool:
        """Return whether a document passes the filters, judged by its own fields."""
        date = document.dated_at
        if self.span != ALL_DATES and (date is None or date not in self.span):
            return False
        if self.only is not None and document.id not in self.only:
            return False
        facets = document.facets  # Building them takes 0.01 ms.
        level = on_request.find_level(facets)
        if level and level > on_request.find_asked_level(self.facets):
            return False
        return all(
            any(facet in facets for facet in filter_.facets) != filter_.excludes
            for filter_ in self.filters
        )


def find_unknown_values(
    selection: Selection, postings: SearchPostings
) -> Iterator[tuple[FacetFilter, str]]:
    """Yield each filter value that no document has, with its filter."""
    for filter_ in selection.filters:
        for value, facets in filter_.choices.items():
            if not any(facet in postings.facets for facet in facets):
                yield filter_, value


class FilterScope(Enum):
    """What the postings reveal about the documents that pass the filters."""

    EVERYTHING = auto()
    """Every document passes, because there is no filter."""
    SMALL = auto()
    """A known set of at most SMALL_SCOPE_SIZE documents includes all that pass. The set may be
    empty, and it may include documents that do not pass."""
    LARGE = auto()
    """The documents that pass are a known, larger set."""
    UNKNOWN = auto()
    """Only the documents themselves show whether they pass."""


@dataclass(frozen=True, slots=True)
class FilterPlan:
    """How to find the documents that pass the filters.

    Attributes:
        scope: What the postings reveal about the documents that pass.
        dates: The dates of a set of documents that includes all that pass, by document id. None
            if no such set is known.
        is_exact: Whether the postings alone show which documents pass.
        max_passing: The maximum number of documents that pass, or None if unknown.
        excluded_ids: The ids of the documents that the postings show as excluded.
    """

    scope: FilterScope
    dates: Dates | None
    is_exact: bool
    prefilter: Prefilter
    max_passing: int | None = None
    excluded_ids: frozenset[str] = frozenset()

    @property
    def ids(self) -> list[str]:
        """The document ids of `dates`. There are none if `dates` is None."""
        return list(self.dates or ())

    @property
    def small_scope_ids(self) -> list[str]:
        """The document ids of `dates` if the scope is SMALL. Otherwise, there are none."""
        return self.ids if self.scope is FilterScope.SMALL else []


@dataclass(frozen=True, slots=True)
class Prefilter:
    """A filter for the server: every document that passes has at least one of its facets.

    Attributes:
        facets: The facets' ids, at most 30. Empty if the server cannot filter.
        size: The maximum number of documents that have any of the facets.
    """

    facets: tuple[str, ...] = ()
    size: int = 0


def plan_filters(selection: Selection, postings: Mapping[Facet, Postings]) -> FilterPlan:
    """Plan a search from the postings of the selection's facets.

    Truncated postings are complete from `Postings.since` on. They still give an exact plan for a
    span that begins after that date.
    """
    if selection.is_unrestricted:
        return FilterPlan(FilterScope.EVERYTHING, None, is_exact=True, prefilter=Prefilter())
    if selection.span.is_empty:
        return FilterPlan(FilterScope.SMALL, {}, is_exact=True, prefilter=Prefilter())
    filters = selection.required
    if selection.months:
        filters.append(selection.months)
    dates_by_filter = [_collect_dates(facets, postings, selection) for facets in filters]
    if selection.only is not None:
        dates_by_filter.append(selection.only)
    complete_dates = [dates for dates in dates_by_filter if dates is not None]
    dates = _intersect(complete_dates) if complete_dates else None
    excluded = [postings[facet] for facet in selection.excluded if facet in postings]
    excluded_ids = frozenset(name for of_facet in excluded for name in of_facet.entries)
    if dates:
        dates = {name: date for name, date in dates.items() if name not in excluded_ids}
    # If a selection only excludes documents, all others pass.
    excludes_alone = not dates_by_filter and selection.span == ALL_DATES
    # An empty intersection is exact even if other postings are truncated.
    is_exact = dates == {} or (
        len(complete_dates) == len(dates_by_filter)
        and (dates is not None or excludes_alone)
        and all(of_facet.is_complete for of_facet in excluded)
    )
    if dates is not None and len(dates) <= SMALL_SCOPE_SIZE:
        scope = FilterScope.SMALL
    else:
        scope = FilterScope.LARGE if is_exact and dates else FilterScope.UNKNOWN
    sizes = [_bound_size(facets, postings) for facets in filters]
    if dates is not None:
        sizes.append(len(dates))
    prefilter = choose_prefilter(filters, postings)
    return FilterPlan(scope, dates, is_exact, prefilter, min(sizes, default=None), excluded_ids)


def choose_prefilter(
    filters: Sequence[Sequence[Facet]], postings: Mapping[Facet, Postings]
) -> Prefilter:
    """Choose the filter that leaves the fewest documents and that the server can apply.

    Args:
        postings: The facets' postings, without those that no document has.
    """
    used_facets = [[facet for facet in facets if facet in postings] for facets in filters]
    prefilters = [
        Prefilter(tuple(facet.id for facet in facets), _bound_size(facets, postings))
        for facets in used_facets
        if not any(facet.kind in POSTINGS_ONLY for facet in facets)
        if 0 < len(facets) <= MAX_ARRAY_CONTAINS_ANY
    ]
    return min(prefilters, key=lambda prefilter: prefilter.size, default=Prefilter())


def _bound_size(facets: Sequence[Facet], postings: Mapping[Facet, Postings]) -> int:
    """Return an upper bound of the number of documents with any of these facets.

    A document with several of the facets is counted several times.
    """
    return sum(postings[facet].df for facet in facets if facet in postings)


def _collect_dates(
    facets: Sequence[Facet], postings: Mapping[Facet, Postings], selection: Selection
) -> Dates | None:
    """Return the dates of all documents in the span that have any of the facets.

    None if truncated postings may lack some of these documents.
    """
    span = selection.span.microseconds
    postings_of_facets = [postings[facet] for facet in facets if facet in postings]
    if any(
        not facet_postings.is_complete and facet_postings.since > span.start
        for facet_postings in postings_of_facets
    ):
        return None
    return {
        document_id: date
        for facet_postings in postings_of_facets
        for document_id, date in facet_postings.entries.items()
        if date in span
    }


def _intersect(date_maps: Sequence[Dates]) -> Dates:
    smallest, *larger_maps = sorted(date_maps, key=len)
    return {
        document_id: date
        for document_id, date in smallest.items()
        if all(document_id in dates for dates in larger_maps)
    }
