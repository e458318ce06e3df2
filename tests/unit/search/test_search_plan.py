"""A filter plan says which documents pass a search's filters, from complete or truncated postings.

The postings of a facet list the documents that have it, with their dates. Truncated postings
lack the oldest documents: they are complete only from the date `since` on. A plan is exact if the
postings alone show which documents pass. Its scope says how many documents may pass, and its
prefilter is the set of facets by which the database filters.
"""

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.dates import ALL_DATES, DateSpan, to_microseconds
from shared.index.bm25 import Postings
from shared.index.facets import Facet, Kind, make_month_facet
from shared.search.filter_plan import (
    SMALL_SCOPE_SIZE,
    FacetFilter,
    FilterScope,
    Prefilter,
    Selection,
    choose_prefilter,
    plan_filters,
)

FIRST_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
TAG_FACETS: Final = tuple(Facet(Kind.TAG, name) for name in "abcd")
DAY_COUNT: Final = 80
"""Passages are dated within this many days, which touch three months."""
ONE_DAY: Final = DateSpan(FIRST_DAY.date(), FIRST_DAY.date())
EMPTY_SPAN: Final = DateSpan(FIRST_DAY.date(), FIRST_DAY.date() - timedelta(days=1))
with_300_examples = settings(max_examples=300)

PASSAGE_LISTS = st.lists(
    st.tuples(st.integers(0, DAY_COUNT * 24), st.frozensets(st.sampled_from(TAG_FACETS[:3]))),
    max_size=25,
)
"""The date of each passage, in hours after the first day, and its tags. None has the tag d."""
FACET_GROUPS = st.lists(
    st.lists(st.sampled_from(TAG_FACETS), min_size=1, max_size=3, unique=True), max_size=3
)
SPANS = st.just(ALL_DATES) | st.builds(
    lambda start, days: DateSpan(
        FIRST_DAY.date() + timedelta(days=start), FIRST_DAY.date() + timedelta(days=start + days)
    ),
    st.integers(0, DAY_COUNT),
    st.integers(0, DAY_COUNT),
)


def make_selection(*groups: list[Facet], span: DateSpan = ALL_DATES) -> Selection:
    """Return a selection with a filter for each group of facets."""
    return Selection(
        tuple(FacetFilter("tags", {facet.key: (facet,) for facet in facets}) for facets in groups),
        span,
    )


def truncate(dates: dict[str, int], cap: int) -> Postings:
    """Return postings that keep only the newest entries, at most `cap`."""
    names = sorted(dates, key=lambda name: (dates[name], name), reverse=True)
    entries = {name: dates[name] for name in names[:cap]}
    since = max((dates[name] for name in names[cap:]), default=-1) + 1
    return Postings(len(dates), entries, since=since)


class DatedPassage(NamedTuple):
    """The date of a passage, in microseconds, and its facets."""

    date: int
    facets: set[Facet]


def make_passages(drawn: list[tuple[int, frozenset[Facet]]]) -> dict[str, DatedPassage]:
    """Return passages by id, from their hours after the first day and their tags."""
    moments = [FIRST_DAY + timedelta(hours=hour) for hour, _ in drawn]
    return {
        f"p{number}": DatedPassage(to_microseconds(moment), {*tags, make_month_facet(moment)})
        for number, (moment, (_, tags)) in enumerate(zip(moments, drawn, strict=True))
    }


def build_postings(passages: dict[str, DatedPassage], cap: int) -> dict[Facet, Postings]:
    """Return the postings of all facets, each truncated to the `cap` newest entries."""
    dates_by_facet: dict[Facet, dict[str, int]] = defaultdict(dict)
    for passage_id, passage in passages.items():
        for facet in passage.facets:
            dates_by_facet[facet][passage_id] = passage.date
    return {facet: truncate(dates, cap) for facet, dates in dates_by_facet.items()}


@with_300_examples
@given(PASSAGE_LISTS, FACET_GROUPS, SPANS, st.integers(0, 12))
def test_a_plan_never_loses_a_passing_document(
    drawn: list[tuple[int, frozenset[Facet]]], groups: list[list[Facet]], span: DateSpan, cap: int
) -> None:
    passages = make_passages(drawn)
    passing = {
        passage_id: passage
        for passage_id, passage in passages.items()
        if passage.date in span.microseconds
        and all(passage.facets.intersection(group) for group in groups)
    }

    postings = build_postings(passages, cap)
    filter_plan = plan_filters(make_selection(*groups, span=span), postings)

    if filter_plan.dates is not None:
        passing_dates = {passage_id: passage.date for passage_id, passage in passing.items()}
        assert passing_dates.items() <= filter_plan.dates.items()
        assert not filter_plan.is_exact or filter_plan.dates == passing_dates
    if cap >= len(passages) and (groups or span != ALL_DATES):
        assert filter_plan.is_exact
    if prefilter_facets := set(filter_plan.prefilter.facets):
        for passage in passing.values():
            assert prefilter_facets & {facet.id for facet in passage.facets}


def test_the_scope_depends_on_size_and_truncation() -> None:
    a, b = TAG_FACETS[:2]
    ids = [f"p{number}" for number in range(SMALL_SCOPE_SIZE + 1)]
    short = Postings(SMALL_SCOPE_SIZE, dict.fromkeys(ids[:-1], 0))
    long = Postings(SMALL_SCOPE_SIZE + 1, dict.fromkeys(ids, 0))
    truncated = Postings(SMALL_SCOPE_SIZE + 1, short.entries, since=1)
    open_span = DateSpan(last=FIRST_DAY.date())  # without a first day
    excluding = Selection((FacetFilter("tags", {"a": (a,)}, excludes=True),))
    cases = [
        (Selection(), {}, FilterScope.EVERYTHING, True),
        (make_selection([a]), {a: short}, FilterScope.SMALL, True),
        (make_selection([a], [b]), {a: short, b: truncated}, FilterScope.SMALL, False),
        (make_selection([a]), {a: long}, FilterScope.LARGE, True),
        (make_selection([a], [b]), {a: long, b: truncated}, FilterScope.UNKNOWN, False),
        (make_selection([a]), {a: truncated}, FilterScope.UNKNOWN, False),
        (make_selection(span=open_span), {}, FilterScope.UNKNOWN, False),
        (excluding, {a: long}, FilterScope.UNKNOWN, True),
        (excluding, {a: truncated}, FilterScope.UNKNOWN, False),
        (replace(excluding, span=open_span), {a: long}, FilterScope.UNKNOWN, False),
    ]
    for selection, postings, scope, is_exact in cases:
        filter_plan = plan_filters(selection, postings)
        assert (filter_plan.scope, filter_plan.is_exact) == (scope, is_exact)
        expected_count = SMALL_SCOPE_SIZE if scope is FilterScope.SMALL else 0
        assert len(filter_plan.small_scope_ids) == expected_count
    assert plan_filters(Selection(), {}).dates is None
    assert plan_filters(Selection(), {}).prefilter == Prefilter()


A, B, C, UNKNOWN = TAG_FACETS
MONTH = make_month_facet(FIRST_DAY)


@pytest.mark.parametrize(
    ("selection", "existing_facets", "is_empty"),
    [
        (Selection(), [], False),
        (make_selection([A, B]), [A], False),
        (make_selection([A], [B]), [A], True),
        (make_selection(span=ONE_DAY), [], True),
        (make_selection(span=ONE_DAY), [MONTH], False),
        (make_selection(span=EMPTY_SPAN), [MONTH], True),
        (make_selection([A], span=EMPTY_SPAN), [A], True),
        (make_selection(span=DateSpan(last=FIRST_DAY.date())), [], False),
    ],
)
@pytest.mark.parametrize("since", [0, to_microseconds(FIRST_DAY)], ids=["complete", "truncated"])
def test_a_plan_is_empty_when_no_document_can_pass(
    selection: Selection, existing_facets: list[Facet], since: int, *, is_empty: bool
) -> None:
    entries = {"p": to_microseconds(FIRST_DAY)}
    postings = {facet: Postings(9, entries, since=since) for facet in existing_facets}
    filter_plan = plan_filters(selection, postings)
    if is_empty:
        plan = (filter_plan.dates, filter_plan.scope, filter_plan.is_exact)
        assert plan == ({}, FilterScope.SMALL, True)
    else:
        assert filter_plan.dates != {}


def test_truncated_postings_suffice_for_dates_that_they_cover() -> None:
    moment = to_microseconds(FIRST_DAY + timedelta(days=5))
    since = FIRST_DAY + timedelta(days=3)
    postings = {TAG_FACETS[0]: Postings(9, {"p": moment}, since=to_microseconds(since))}
    for days_before, dates in ((0, {"p": moment}), (1, None)):
        span = DateSpan(first=since.date() - timedelta(days=days_before))
        assert plan_filters(make_selection([A], span=span), postings).dates == dates


def test_the_prefilter_leaves_the_fewest_documents() -> None:
    # Only the number of documents counts here, so the postings have no entries.
    postings = {A: Postings(7, {}), B: Postings(3, {}), C: Postings(3, {})}
    expected = Prefilter(facets=("tag:b", "tag:c"), size=3 + 3)
    assert choose_prefilter([[A], [B, C, UNKNOWN]], postings) == expected


@pytest.mark.parametrize(("count", "chosen"), [(30, 30), (31, 1)])
def test_the_prefilter_has_at_most_30_facets(count: int, chosen: int) -> None:
    rare_facets = [Facet(Kind.TAG, str(number)) for number in range(count)]
    postings = {A: Postings(999, {}), **{facet: Postings(1, {}) for facet in rare_facets}}
    assert len(choose_prefilter([rare_facets, [A]], postings).facets) == chosen
