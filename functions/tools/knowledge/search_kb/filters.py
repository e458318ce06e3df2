"""The filters that search_kb takes."""

from __future__ import annotations

from datetime import UTC, date
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints

from shared.core.dates import DateSpan, load_time_zone, parse_days, resolve_period
from shared.core.errors import InvalidInput
from shared.core.ids import parse_source_id
from shared.index.facets import HAS_CARD, Facet, Kind, make_named_facet
from shared.runtime.schemas import PERIODS, Arguments, DayText, DocumentId, PeriodName, ZoneName
from shared.search.filter_plan import FacetFilter, Selection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, tzinfo

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class DateRange(Arguments):
    """A range of days, both included; either end may be left out."""

    start: DayText | None = Field(default=None, description="YYYY-MM-DD.")
    end: DayText | None = Field(default=None, description="YYYY-MM-DD.")


class Filters(Arguments):
    """Filters, all of which a passage must pass. A hyphen before a value excludes it."""

    tags: list[Name] = Field(default=[], max_length=20, description="At least one of these.")
    tags_all: list[Name] = Field(default=[], max_length=20, description="All of these.")
    author: Name | None = Field(default=None, description="Full name.")
    source: Name | None = Field(default=None, description="Title, source_id or chunk_id.")
    category: Name | None = Field(default=None, description="books ...; conversation only if named")
    language: Name | None = Field(default=None, description="en, de ...")
    folder: Name | None = Field(default=None, description="Its path.")
    cluster_id: DocumentId | None = Field(default=None, description="From list_clusters.")
    date_range: DateRange | None = Field(default=None, description="Days of the passage.")
    period: PeriodName | None = Field(
        default=None,
        description=PERIODS,
    )
    time_zone: ZoneName | None = Field(default=None, description="Europe/Berlin ...")


def to_selection(
    filters: Filters | None, now: datetime, *, zone: tzinfo = UTC, cards_only: bool
) -> Selection:
    """Convert filters to a selection. Names match in any case.

    Args:
        zone: The time zone of days, unless the filters name one.

    Raises:
        InvalidInput: The date range ends before it starts.
    """
    facet_filters = list(_build_facet_filters(filters)) if filters else []
    if cards_only:
        facet_filters.append(FacetFilter("search_cards_only", {"true": (HAS_CARD,)}))
    span = _resolve_span(filters, now, zone) if filters else DateSpan(zone=zone)
    return Selection(tuple(facet_filters), span)


def _build_facet_filters(filters: Filters) -> Iterator[FacetFilter]:
    yield from _build_filters("tags", Kind.TAG, filters.tags)
    for tag in filters.tags_all:
        yield from _build_filters("tags_all", Kind.TAG, [tag])
    for kind in (Kind.AUTHOR, Kind.CATEGORY, Kind.LANGUAGE, Kind.FOLDER):
        if value := getattr(filters, kind):
            yield from _build_filters(kind, kind, [value])
    if filters.source:
        yield from _build_filters("source", Kind.TITLE, [filters.source])
    if cluster_id := filters.cluster_id:
        yield FacetFilter("cluster_id", {cluster_id: (Facet(Kind.CLUSTER, cluster_id),)})


def _build_filters(field: str, kind: Kind, values: Sequence[str]) -> Iterator[FacetFilter]:
    """Yield a filter for the values to find, and one for those to exclude: `-draft`."""
    for excludes in (False, True):
        names = [value.removeprefix("-") for value in values if value.startswith("-") == excludes]
        if names:
            choices = {name: _make_facets(kind, name) for name in names}
            yield FacetFilter(field, choices, excludes)


def _make_facets(kind: Kind, name: str) -> tuple[Facet, ...]:
    is_id = (Facet(Kind.SOURCE, parse_source_id(name)),) if kind is Kind.TITLE else ()
    return (*is_id, make_named_facet(kind, name))


def _resolve_span(filters: Filters, now: datetime, zone: tzinfo) -> DateSpan:
    if filters.time_zone:
        zone = load_time_zone(filters.time_zone)
    span = DateSpan(zone=zone)
    if days := filters.date_range:
        span = DateSpan(
            parse_days(days.start, zone).first if days.start else date.min,
            parse_days(days.end, zone).last if days.end else date.max,
            zone,
        )
        if span.is_empty:
            message = "filters.date_range ends before it starts. Swap start and end."
            raise InvalidInput(message, details={"filters.date_range": "ends before it starts"})
    return span & resolve_period(filters.period, now, zone) if filters.period else span
