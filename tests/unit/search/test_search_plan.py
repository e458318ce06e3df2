"""Filter plans from complete and truncated postings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

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

FIRST: Final = datetime(2024, 1, 1, tzinfo=UTC)
TAGS: Final = tuple(Facet(Kind.TAG, name) for name in "abcd")
DAYS: Final = 80
DAY: Final = DateSpan(FIRST.date(), FIRST.date())
NO_DAY: Final = DateSpan(FIRST.date(), FIRST.date() - timedelta(days=1))
with_300_examples = settings(max_examples=300)

PASSAGES = st.lists(
    st.tuples(st.integers(0, DAYS * 24), st.frozensets(st.sampled_from(TAGS[:3]))), max_size=25
)
GROUPS = st.lists(st.lists(st.sampled_from(TAGS), min_size=1, max_size=3, unique=True), max_size=3)
SPANS = st.just(ALL_DATES) | st.builds(
    lambda start, days: DateSpan(
        FIRST.date() + timedelta(days=start), FIRST.date() + timedelta(days=start + days)
    ),
    st.integers(0, DAYS),
    st.integers(0, DAYS),
)


def make_selection(*groups: list[Facet], span: DateSpan = ALL_DATES) -> Selection:
    """Return a selection with a filter for each group of facets."""
    return Selection(
        tuple(FacetFilter("tags", {facet.key: (facet,) for facet in facets}) for facets in groups),
        span,
    )


def truncate(dates: dict[str, int], cap: int) -> Postings:
    """Return postings that keep only the newest entries, at most `cap`."""
    newest = sorted(dates.items(), key=lambda item: (item[1], item[0]), reverse=True)[:cap]
    dropped_dates = [date for name, date in dates.items() if name not in dict(newest)]
    return Postings(len(dates), dict(newest), since=max(dropped_dates, default=-1) + 1)


@with_300_examples
@given(PASSAGES, GROUPS, SPANS, st.integers(0, 12))
def test_plan_dates_contain_all_passing_documents(
    passages: list[tuple[int, frozenset[Facet]]],
    groups: list[list[Facet]],
    span: DateSpan,
    cap: int,
) -> None:
    moments = [FIRST + timedelta(hours=hour) for hour, _ in passages]
    facets_by_id = {
        f"p{number}": {*facets, make_month_facet(moments[number])}
        for number, (_, facets) in enumerate(passages)
    }
    dates = {f"p{number}": to_microseconds(moment) for number, moment in enumerate(moments)}
    postings = {
        facet: truncate(
            {name: dates[name] for name, facets in facets_by_id.items() if facet in facets}, cap
        )
        for facet in set[Facet]().union(*facets_by_id.values())
    }
    passing_dates = {
        name: date
        for name, date in dates.items()
        if date in span.microseconds and all(facets_by_id[name] & set(group) for group in groups)
    }
    filter_plan = plan_filters(make_selection(*groups, span=span), postings)
    if filter_plan.dates is not None:
        assert passing_dates.items() <= filter_plan.dates.items()
        assert not filter_plan.is_exact or filter_plan.dates == passing_dates
    if cap >= len(passages) and (groups or span != ALL_DATES):
        assert filter_plan.is_exact
    assert not filter_plan.prefilter.facets or all(
        {facet.id for facet in facets_by_id[name]} & set(filter_plan.prefilter.facets)
        for name in passing_dates
    )


def test_the_scope_follows_from_size_and_truncation() -> None:
    a, b, *_ = TAGS
    short, long = (
        Postings(size, {f"p{number}": 0 for number in range(size)})
        for size in (SMALL_SCOPE_SIZE, SMALL_SCOPE_SIZE + 1)
    )
    truncated = Postings(SMALL_SCOPE_SIZE + 1, short.entries, since=1)
    long_span = DateSpan(last=FIRST.date())
    plans = {
        "no filter": plan_filters(Selection(), {}),
        "short": plan_filters(make_selection([a]), {a: short}),
        "short and truncated": plan_filters(make_selection([a], [b]), {a: short, b: truncated}),
        "long": plan_filters(make_selection([a]), {a: long}),
        "long and truncated": plan_filters(make_selection([a], [b]), {a: long, b: truncated}),
        "truncated": plan_filters(make_selection([a]), {a: truncated}),
        "a long span of time": plan_filters(make_selection(span=long_span), {}),
    }
    assert {name: (plan.scope, plan.is_exact) for name, plan in plans.items()} == {
        "no filter": (FilterScope.EVERYTHING, True),
        "short": (FilterScope.SMALL, True),
        "short and truncated": (FilterScope.SMALL, False),
        "long": (FilterScope.LARGE, True),
        "long and truncated": (FilterScope.UNKNOWN, False),
        "truncated": (FilterScope.UNKNOWN, False),
        "a long span of time": (FilterScope.UNKNOWN, False),
    }
    for plan in plans.values():
        expected_count = SMALL_SCOPE_SIZE if plan.scope is FilterScope.SMALL else 0
        assert len(plan.small_scope_ids) == expected_count


def test_without_filters_a_plan_has_no_dates() -> None:
    filter_plan = plan_filters(Selection(), {})
    assert filter_plan.dates is None
    assert filter_plan.prefilter == Prefilter()


@pytest.mark.parametrize(
    ("selection", "existing_facets", "is_empty"),
    [
        (Selection(), [], False),
        (make_selection(list(TAGS[:2])), [TAGS[0]], False),
        (make_selection([TAGS[0]], [TAGS[1]]), [TAGS[0]], True),
        (make_selection(span=DAY), [], True),
        (make_selection(span=DAY), [make_month_facet(FIRST)], False),
        (make_selection(span=NO_DAY), [make_month_facet(FIRST)], True),
        (make_selection([TAGS[0]], span=NO_DAY), [TAGS[0]], True),
        (make_selection(span=DateSpan(last=FIRST.date())), [], False),
    ],
)
def test_nothing_passes_unknown_values(
    selection: Selection,
    existing_facets: list[Facet],
    is_empty: bool,  # noqa: FBT001 - an outcome
) -> None:
    postings = {facet: Postings(1, {"p": to_microseconds(FIRST)}) for facet in existing_facets}
    filter_plan = plan_filters(selection, postings)
    assert (filter_plan.dates == {}) == is_empty
    assert not is_empty or ((filter_plan.scope, filter_plan.is_exact) == (FilterScope.SMALL, True))


def test_nothing_passes_an_unknown_value_and_truncated_postings() -> None:
    a, b, *_ = TAGS
    filter_plan = plan_filters(make_selection([a], [b]), {a: Postings(9, {"p": 5}, since=3)})
    assert filter_plan.dates == {}
    assert filter_plan.scope == FilterScope.SMALL
    assert filter_plan.is_exact


def test_truncated_postings_are_complete_from_since_on() -> None:
    moment = to_microseconds(FIRST + timedelta(days=5))
    postings = {
        TAGS[0]: Postings(9, {"p": moment}, since=to_microseconds(FIRST + timedelta(days=3)))
    }
    day_of_since, day_before = (FIRST.date() + timedelta(days=number) for number in (3, 2))
    selection = make_selection([TAGS[0]], span=DateSpan(first=day_of_since))
    assert plan_filters(selection, postings).dates == {"p": moment}
    selection = make_selection([TAGS[0]], span=DateSpan(first=day_before))
    assert plan_filters(selection, postings).dates is None


def test_the_prefilter_leaves_the_fewest_documents() -> None:
    a, b, c, _ = TAGS
    postings = {a: Postings(7, {}), b: Postings(3, {}), c: Postings(3, {})}
    assert choose_prefilter([[a], [b, c, TAGS[3]]], postings) == Prefilter(("tag:b", "tag:c"), 6)


def test_the_prefilter_has_at_most_30_facets() -> None:
    rare_facets = [Facet(Kind.TAG, str(number)) for number in range(31)]
    common_facet = TAGS[0]
    postings = {facet: Postings(1, {}) for facet in rare_facets}
    postings[common_facet] = Postings(999, {})
    assert choose_prefilter([rare_facets, [common_facet]], postings).facets == ("tag:a",)
    assert len(choose_prefilter([rare_facets[:30], [common_facet]], postings).facets) == 30
