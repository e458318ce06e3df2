"""Topics that people made keep what they hold, and others come beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.clustering.keeping import kept_among
from shared.clustering.topics import Topic, centroid_of, find_topics, reach_of
from tests.support.vector_groups import GROUP, groups, strays

if TYPE_CHECKING:
    from tests.support.vector_groups import Matrix


def made(vectors: Matrix, rows: range) -> Topic:
    """A topic that somebody made of these."""
    members = np.array(rows, np.intp)
    return Topic(centroid_of(vectors[members]), reach_of(vectors[members]), members)


def rows_of(topics: list[Topic]) -> list[set[int]]:
    return [set(map(int, topic.members)) for topic in topics]


def test_where_nobody_made_a_topic_what_was_found_stays_as_it_is() -> None:
    vectors = np.concatenate([groups(4), strays(9)])
    found = find_topics(vectors)
    topics, kept = kept_among(found, [], vectors)
    assert (rows_of(found), []) == (rows_of(topics), kept)
    assert [each.reach for each in found] == [each.reach for each in topics]


def test_a_dozen_passages_beside_topics_that_people_made_are_one() -> None:
    vectors = groups(5)[: 4 * GROUP + 12]
    people = [made(vectors, range(n * GROUP, (n + 1) * GROUP)) for n in range(4)]
    topics, kept = kept_among(find_topics(vectors), people, vectors)
    [rows] = rows_of(topics)
    assert ({4}, True) == ({row // GROUP for row in rows}, len(rows) > GROUP / 2)
    assert rows_of(people) == rows_of(kept)


def test_two_topics_of_people_may_have_passages_in_common() -> None:
    vectors = groups(3)
    people = [made(vectors, range(GROUP)), made(vectors, range(GROUP - 3, GROUP + 3))]
    topics, kept = kept_among(find_topics(vectors), people, vectors)
    assert all(rows <= more for rows, more in zip(rows_of(people), rows_of(kept), strict=True))
    theirs = {row for rows in rows_of(kept) for row in rows}
    assert not theirs & {row for rows in rows_of(topics) for row in rows}


def test_what_is_near_a_topic_of_people_joins_it() -> None:
    vectors = groups(3, size=60)
    topics, [kept] = kept_among(find_topics(vectors), [made(vectors, range(20))], vectors)
    assert [{1}, {2}] == sorted({row // 60 for row in rows} for rows in rows_of(topics))
    assert 40 <= len(kept.members) < 60


@pytest.mark.parametrize("held", [3, 9])
def test_beside_a_topic_made_by_people_others_are_their_own(held: int) -> None:
    vectors = groups(3, size=60)
    few = replace(made(vectors, range(held)), reach=1.0)
    topics, [kept] = kept_among(find_topics(vectors), [few], vectors)
    assert {0, 1, 2} == {row // 60 for rows in rows_of(topics) for row in rows}
    assert set(range(held)) == set(map(int, kept.members))


@settings(max_examples=15)
@given(seed=st.integers(0, 2**16), held=st.integers(1, GROUP))
def test_taking_some_first_and_others_later_is_the_same(seed: int, held: int) -> None:
    vectors = np.concatenate([groups(4, seed), strays(20, seed + 1)])
    found, people = find_topics(vectors), [made(vectors, range(held))]
    topics, [kept] = kept_among(found, people, vectors)
    part = np.union1d(people[0].members, kept.members[: len(kept.members) // 2])
    again, [still] = kept_among(found, [replace(people[0], members=part)], vectors)
    assert (rows_of(topics), set(kept.members)) == (rows_of(again), set(still.members))
