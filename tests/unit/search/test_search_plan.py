"""Filter plans from whole and truncated postings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.dates import ALL_DATES, DateSpan, to_microseconds
from shared.index.bm25 import Postings
from shared.index.facets import Facet, Kind, month_facet
from shared.search.filter_plan import (
    FEW,
    FacetFilter,
    FilterScope,
    Prefilter,
    Selection,
    plan_filters,
    smallest_prefilter,
)

FIRST: Final = datetime(2024, 1, 1, tzinfo=UTC)
TAGS: Final = tuple(Facet(Kind.TAG, name) for name in "abcd")
DAYS: Final = 80
DAY: Final = DateSpan(FIRST.date(), FIRST.date())
NO_DAY: Final = DateSpan(FIRST.date(), FIRST.date() - timedelta(days=1))
sampled = settings(max_examples=300)

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


def selected(*groups: list[Facet], span: DateSpan = ALL_DATES) -> Selection:
    """Filters of these facets."""
    return Selection(
        tuple(FacetFilter("tags", {item.key: (item,) for item in g}) for g in groups), span
    )


def cut(dates: dict[str, int], cap: int) -> Postings:
    """Postings truncated to their newest entries."""
    newest = sorted(dates.items(), key=lambda item: (item[1], item[0]), reverse=True)[:cap]
    lost = [date for name, date in dates.items() if name not in dict(newest)]
    return Postings(len(dates), dict(newest), max(lost, default=-1) + 1)


@sampled
@given(PASSAGES, GROUPS, SPANS, st.integers(0, 12))
def test_plan_dates_contain_all_passing_documents(
    passages: list[tuple[int, frozenset[Facet]]],
    groups: list[list[Facet]],
    span: DateSpan,
    cap: int,
) -> None:
    moments = [FIRST + timedelta(hours=hour) for hour, _ in passages]
    borne = {
        f"p{number}": {*facets, month_facet(moments[number])}
        for number, (_, facets) in enumerate(passages)
    }
    dates = {f"p{number}": to_microseconds(moment) for number, moment in enumerate(moments)}
    every = {facet for facets in borne.values() for facet in facets}
    lists = {
        facet: cut({name: dates[name] for name in borne if facet in borne[name]}, cap)
        for facet in every
    }
    passing = {
        name: date
        for name, date in dates.items()
        if date in span.microseconds and all(borne[name] & set(group) for group in groups)
    }
    filter_plan = plan_filters(selected(*groups, span=span), lists)
    if filter_plan.dates is not None:
        assert passing.items() <= filter_plan.dates.items()
        assert not filter_plan.exact or passing == filter_plan.dates
    if cap >= len(passages) and (groups or span != ALL_DATES):
        assert filter_plan.exact
    assert not filter_plan.prefilter.facets or all(
        {facet.id for facet in borne[name]} & set(filter_plan.prefilter.facets) for name in passing
    )


def test_plan_scope() -> None:
    a, b, *_ = TAGS
    few, more = (
        Postings(size, {f"p{number}": 0 for number in range(size)}) for size in (FEW, FEW + 1)
    )
    cut = Postings(FEW + 1, few.entries, since=1)
    planned = {
        "no filter": plan_filters(Selection(), {}),
        "a short list": plan_filters(selected([a]), {a: few}),
        "a short list, and one that was cut": plan_filters(selected([a], [b]), {a: few, b: cut}),
        "a long list": plan_filters(selected([a]), {a: more}),
        "a long list, and one that was cut": plan_filters(selected([a], [b]), {a: more, b: cut}),
        "a list that was cut": plan_filters(selected([a]), {a: cut}),
        "a long stretch of time": plan_filters(selected(span=DateSpan(last=FIRST.date())), {}),
    }
    assert {name: (plan.scope, plan.exact) for name, plan in planned.items()} == {
        "no filter": (FilterScope.EVERYTHING, True),
        "a short list": (FilterScope.FEW, True),
        "a short list, and one that was cut": (FilterScope.FEW, False),
        "a long list": (FilterScope.MANY, True),
        "a long list, and one that was cut": (FilterScope.UNCHECKED, False),
        "a list that was cut": (FilterScope.UNCHECKED, False),
        "a long stretch of time": (FilterScope.UNCHECKED, False),
    }
    assert {
        len(item.small_scope_ids) for item in planned.values() if item.scope is FilterScope.FEW
    } == {FEW}
    assert {
        len(entry.small_scope_ids)
        for entry in planned.values()
        if entry.scope is not FilterScope.FEW
    } == {0}


def test_without_filters_a_plan_has_no_dates() -> None:
    filter_plan = plan_filters(Selection(), {})
    assert filter_plan.dates is None
    assert filter_plan.prefilter == Prefilter()


@pytest.mark.parametrize(
    ("selection", "existing", "nothing"),
    [
        (Selection(), [], False),
        (selected(list(TAGS[:2])), [TAGS[0]], False),
        (selected([TAGS[0]], [TAGS[1]]), [TAGS[0]], True),
        (selected(span=DAY), [], True),
        (selected(span=DAY), [month_facet(FIRST)], False),
        (selected(span=NO_DAY), [month_facet(FIRST)], True),
        (selected([TAGS[0]], span=NO_DAY), [TAGS[0]], True),
        (selected(span=DateSpan(last=FIRST.date())), [], False),
    ],
)
def test_nothing_passes_unknown_values(
    selection: Selection,
    existing: list[Facet],
    nothing: bool,  # noqa: FBT001 - an outcome
) -> None:
    filter_plan = plan_filters(
        selection, {facet: Postings(1, {"p": to_microseconds(FIRST)}) for facet in existing}
    )
    assert (filter_plan.dates == {}) == nothing
    assert not nothing or ((FilterScope.FEW, True) == (filter_plan.scope, filter_plan.exact))


def test_nothing_passes_an_unknown_value_and_truncated_postings() -> None:
    a, b, *_ = TAGS
    filter_plan = plan_filters(selected([a], [b]), {a: Postings(9, {"p": 5}, since=3)})
    assert filter_plan.dates == {}
    assert filter_plan.scope == FilterScope.FEW
    assert filter_plan.exact


def test_truncated_postings_are_complete_from_since_on() -> None:
    moment = to_microseconds(FIRST + timedelta(days=5))
    lists = {TAGS[0]: Postings(9, {"p": moment}, since=to_microseconds(FIRST + timedelta(days=3)))}
    late, early = (FIRST.date() + timedelta(days=number) for number in (3, 2))
    assert (plan_filters(selected([TAGS[0]], span=DateSpan(first=late)), lists).dates) == {
        "p": moment
    }
    assert plan_filters(selected([TAGS[0]], span=DateSpan(first=early)), lists).dates is None


def test_the_prefilter_leaves_the_fewest_documents() -> None:
    a, b, c, _ = TAGS
    lists = {a: Postings(7, {}), b: Postings(3, {}), c: Postings(3, {})}
    assert smallest_prefilter([[a], [b, c, TAGS[3]]], lists) == Prefilter(("tag:b", "tag:c"), 6)


def test_the_prefilter_has_at_most_30_facets() -> None:
    many = [Facet(Kind.TAG, str(number)) for number in range(31)]
    lists = {facet: Postings(1, {}) for facet in many} | {TAGS[0]: Postings(999, {})}
    assert smallest_prefilter([many, [TAGS[0]]], lists).facets == ("tag:a",)
    assert len(smallest_prefilter([many[:30], [TAGS[0]]], lists).facets) == 30
