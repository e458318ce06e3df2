"""A selection admits the passages that pass its filters and lie in its span of days."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from shared.core.dates import DateSpan
from shared.index.bm25 import Postings, Totals
from shared.index.facets import HAS_CARD, Facet, Kind, make_named_facet
from shared.index.postings import SearchPostings
from shared.knowledge.chunk import Chunk
from shared.search.filter_plan import FacetFilter, Selection, find_unknown_values

NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)
SEA, FOOD = make_named_facet(Kind.TAG, "sea"), make_named_facet(Kind.TAG, "food")
ANN = make_named_facet(Kind.AUTHOR, "Ann Bo")


def make_chunk(**fields: Any) -> Chunk:
    """Return a passage about the sea, by Ann Bo."""
    defaults: dict[str, Any] = {
        "chunk_id": "s-1", "source_id": "s", "start": 0, "end": 1, "position": 1, "total": 1,
        "title": "On Anchors", "author": "Ann Bo", "origin": "file", "category": "books",
        "tags": ("Sea",), "content": "x", "readwise_url": None, "source_url": None,
        "highlight_url": None, "highlighted_at": None, "dated_at": NOON,
    }  # fmt: skip
    return Chunk(**(defaults | fields))


def make_filter(*facets: Facet) -> FacetFilter:
    return FacetFilter("tags", {facet.id: (facet,) for facet in facets})


def make_postings(*facets: Facet) -> SearchPostings:
    """Return postings that only these facets have, each of one passage."""
    return SearchPostings({}, {facet: Postings(1, {"s-1": 0}) for facet in facets}, Totals(1, 1))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], True),
        ([make_filter(SEA)], True),
        ([make_filter(FOOD, SEA)], True),
        ([make_filter(FOOD)], False),
        ([make_filter(SEA), make_filter(ANN)], True),
        ([make_filter(SEA), make_filter(FOOD)], False),
        ([make_filter(Facet(Kind.SOURCE, "s"), make_named_facet(Kind.TITLE, "s"))], True),
        ([make_filter(make_named_facet(Kind.TITLE, "On  ANCHORS"))], True),
        ([make_filter(HAS_CARD)], False),
    ],
)
def test_a_passage_must_have_a_facet_of_every_filter(
    filters: list[FacetFilter], *, expected: bool
) -> None:
    assert Selection(tuple(filters)).admits(make_chunk()) == expected


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(2024, 2, 29, tzinfo=UTC), True),
        (datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC), True),
        (datetime(2024, 3, 1, tzinfo=UTC), False),
        (datetime(2024, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC), False),
        (datetime(2024, 3, 1, 0, 30, tzinfo=timezone(timedelta(hours=1))), True),
        (None, False),
    ],
)
def test_a_passages_date_must_lie_in_the_span(moment: datetime | None, *, expected: bool) -> None:
    selection = Selection(span=DateSpan(NOON.date(), NOON.date()))
    assert selection.admits(make_chunk(dated_at=moment)) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("2024-02-29", "2024-02-29", ["2024-02"]),
        ("2023-12-31", "2024-02-01", ["2023-12", "2024-01", "2024-02"]),
        ("2024-03-01", "2024-02-01", []),
        ("2024-02-03", "2024-02-01", []),
        ("2023-01-01", "2024-01-02", []),
        ("0001-01-01", "2024-01-01", []),
        ("2024-01-01", "9999-12-31", []),
    ],
)
def test_only_a_short_span_has_months(first: str, last: str, expected: list[str]) -> None:
    selection = Selection(span=DateSpan(date.fromisoformat(first), date.fromisoformat(last)))
    assert selection.months == [Facet(Kind.MONTH, name) for name in expected]


def test_a_year_has_13_months_at_most() -> None:
    starts = [date(2023, 12, 31) + timedelta(days=number) for number in range(400)]
    spans = [DateSpan(start, start + timedelta(days=365)) for start in starts]
    assert {len(Selection(span=span).months) for span in spans} == {12, 13}


def test_an_empty_selection_admits_everything() -> None:
    assert Selection((make_filter(SEA),)).admits(make_chunk(dated_at=None))
    assert Selection().is_unrestricted
    assert not Selection((make_filter(SEA),)).is_unrestricted
    assert not Selection(span=DateSpan(last=date(2024, 1, 1))).is_unrestricted


def test_values_that_no_passage_has_are_unknown() -> None:
    tag_filter, author_filter = make_filter(SEA, FOOD), FacetFilter("author", {"Ann Bo": (ANN,)})
    pairs = list(find_unknown_values(Selection((tag_filter, author_filter)), make_postings(SEA)))
    assert pairs == [(tag_filter, "tag:food"), (author_filter, "Ann Bo")]
