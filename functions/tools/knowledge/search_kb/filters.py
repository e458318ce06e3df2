"""The filters that search_kb takes, and what they select."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints

from shared.core.dates import ALWAYS, Period, Span, span_of
from shared.core.errors import InvalidInput
from shared.index.facets import HAS_CARD, Facet, Kind, named_facet
from shared.runtime.schemas import Arguments, DocumentId
from shared.search.filter_plan import FacetFilter, Selection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class DateRange(Arguments):
    """Days, the first and the last included; one of them may be left out."""

    start: date | None = Field(default=None, description="The first day: YYYY-MM-DD.")
    end: date | None = Field(default=None, description="The last day: YYYY-MM-DD.")


class Filters(Arguments):
    """What passages must satisfy: all of it at once."""

    tags: list[Name] = Field(
        default=[], max_length=20, description="Tags, of which a passage must bear at least one."
    )
    author: Name | None = Field(default=None, description="The author, by full name.")
    source: Name | None = Field(
        default=None, description="The source: its exact title, or its source_id."
    )
    category: Name | None = Field(
        default=None, description="What the source is: books, articles, documents ..."
    )
    cluster_id: DocumentId | None = Field(
        default=None, description="The topic, as list_clusters names it."
    )
    date_range: DateRange | None = Field(
        default=None, description="When it was highlighted, or put in: days of UTC."
    )
    period: Period | None = Field(
        default=None,
        description="The same, as seen from today. last_month and last_year are those of the"
        " calendar, before the present ones.",
    )


def selection(filters: Filters | None, now: datetime, *, cards_only: bool = False) -> Selection:
    """What filters select; names are compared whatever their case.

    Raises:
        InvalidInput: The range ends before it starts.
    """
    groups = list(_groups(filters)) if filters else []
    if cards_only:
        groups.append(FacetFilter("search_cards_only", {"true": (HAS_CARD,)}))
    return Selection(tuple(groups), _span(filters, now) if filters else ALWAYS)


def _groups(filters: Filters) -> Iterator[FacetFilter]:
    if filters.tags:
        yield FacetFilter("tags", {tag: (named_facet(Kind.TAG, tag),) for tag in filters.tags})
    if filters.author:
        yield FacetFilter("author", {filters.author: (named_facet(Kind.AUTHOR, filters.author),)})
    if filters.source:
        facets = Facet(Kind.SOURCE, filters.source), named_facet(Kind.TITLE, filters.source)
        yield FacetFilter("source", {filters.source: facets})
    if filters.category:
        yield FacetFilter(
            "category", {filters.category: (named_facet(Kind.CATEGORY, filters.category),)}
        )
    if filters.cluster_id:
        yield FacetFilter(
            "cluster_id", {filters.cluster_id: (Facet(Kind.CLUSTER, filters.cluster_id),)}
        )


def _span(filters: Filters, now: datetime) -> Span:
    wanted = ALWAYS
    if filters.date_range:
        ends = filters.date_range
        wanted = Span(ends.start or date.min, ends.end or date.max)
        if wanted.empty:
            message = "filters.date_range ends before it starts. Swap start and end."
            raise InvalidInput(message, details={"filters.date_range": "ends before it starts"})
    return wanted & span_of(filters.period, now) if filters.period else wanted
