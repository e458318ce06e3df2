"""Clusters of vectors: dense groups are found in any order, and noise stays noise."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.clustering.clusters import (
    MIN_PASSAGES,
    compute_centroid,
    compute_min_similarity,
    find_clusters,
    find_nearest_clusters,
)
from shared.clustering.matching import ClusterMatch, match_clusters
from shared.clustering.merging import merge_regions
from shared.clustering.neighbours import find_nearest_neighbours
from tests.support.vector_groups import DIMENSION, GROUP_SIZE, make_groups, make_outliers

if TYPE_CHECKING:
    from shared.clustering.clusters import VectorCluster

SEEDS = st.integers(0, 2**16)


def list_members(clusters: list[VectorCluster]) -> list[set[int]]:
    """Return the rows of each cluster, in the order of their first."""
    return sorted((set(map(int, cluster.members)) for cluster in clusters), key=min)


def list_member_sets(clusters: list[VectorCluster]) -> list[set[int]]:
    """Return the groups that each cluster has passages of; some of a group may lie too far out."""
    assert all(len(cluster) > GROUP_SIZE / 2 for cluster in list_members(clusters))
    return [{row // GROUP_SIZE for row in cluster} for cluster in list_members(clusters)]


@pytest.mark.parametrize("count", [2, 3, 5, 8, 20, 40])
def test_each_group_is_a_cluster(count: int) -> None:
    assert list_member_sets(find_clusters(make_groups(count))) == [{n} for n in range(count)]


def test_strays_belong_to_no_cluster() -> None:
    vectors = np.concatenate([make_groups(6), make_outliers(5)])
    assert list_member_sets(find_clusters(vectors)) == [{n} for n in range(6)]


@settings(max_examples=15)
@given(SEEDS)
def test_the_order_of_the_vectors_makes_no_difference(seed: int) -> None:
    vectors = np.concatenate([make_groups(5, seed), make_outliers(20, seed + 1)])
    order = np.random.default_rng(seed).permutation(len(vectors))
    shuffled_members = [
        {int(order[row]) for row in cluster}
        for cluster in list_members(find_clusters(vectors[order]))
    ]
    assert list_members(find_clusters(vectors)) == sorted(shuffled_members, key=min)


@settings(max_examples=15)
@given(SEEDS)
def test_clusters_are_disjoint_and_leave_noise(seed: int) -> None:
    vectors = np.concatenate([make_groups(4, seed), make_outliers(60, seed + 1)])
    rows = [int(row) for cluster in find_clusters(vectors) for row in cluster.members]
    assert len(set(rows)) == len(rows)
    assert set(rows) <= set(range(len(vectors)))


def test_copies_belong_to_the_same_cluster() -> None:
    vectors = make_groups(5)
    once = list_members(find_clusters(vectors))
    twice = list_members(find_clusters(np.concatenate([vectors, vectors])))
    assert [cluster | {row + len(vectors) for row in cluster} for cluster in once] == twice


def test_members_are_ordered_by_centrality() -> None:
    vectors = make_groups(5)
    for cluster in find_clusters(vectors):
        similarities = vectors[cluster.members] @ cluster.centroid
        assert all(
            similarity >= next_similarity for similarity, next_similarity in pairwise(similarities)
        )


def test_too_few_distinct_vectors_make_no_cluster() -> None:
    vectors = make_groups(2)[: MIN_PASSAGES - 1]
    assert find_clusters(vectors) == []
    assert find_clusters(np.concatenate([vectors] * 3)) == []
    assert find_clusters(np.empty((0, DIMENSION), np.float32)) == []


def test_large_sets_are_clustered_with_few_eigenvectors() -> None:
    assert list_member_sets(find_clusters(make_groups(50))) == [{n} for n in range(50)]


def test_new_vector_joins_only_a_near_cluster() -> None:
    vectors = make_groups(5)
    clusters = find_clusters(vectors)
    centroids = np.array([cluster.centroid for cluster in clusters])
    min_similarities = np.array([cluster.min_similarity for cluster in clusters])
    rows = find_nearest_clusters(
        np.concatenate([centroids, make_outliers(3)]), centroids, min_similarities
    )
    assert rows.tolist() == [0, 1, 2, 3, 4, -1, -1, -1]


def test_without_clusters_nothing_joins_one() -> None:
    no_centroids = np.empty((0, DIMENSION), np.float32)
    assert find_nearest_clusters(make_outliers(2), no_centroids, np.empty(0)).tolist() == [-1, -1]


def test_three_quarters_of_a_core_are_near_enough_to_it() -> None:
    [core] = [make_groups(1, size=200)]
    is_near = core @ compute_centroid(core) >= compute_min_similarity(core)
    assert 0.7 <= is_near.mean() <= 0.9


def test_single_vector_attracts_no_members() -> None:
    assert compute_min_similarity(make_outliers(1)) == 1.0


def test_similar_regions_are_merged() -> None:
    vectors = make_groups(3, size=20)
    split = np.repeat([0, 1, 2, 3], [10, 10, 20, 20])
    assert merge_regions(split, vectors).tolist() == [0] * 20 + [1] * 20 + [2] * 20


def test_merging_leaves_noise_alone() -> None:
    labels = np.array([-1] * 5 + [0] * 15)
    assert merge_regions(labels, make_groups(1, size=20)).tolist() == labels.tolist()
    assert merge_regions(np.full(20, -1), make_groups(1, size=20)).tolist() == [-1] * 20


def test_neighbours_are_the_most_similar_others_in_order() -> None:
    vectors = make_outliers(50)
    similarities = vectors @ vectors.T
    np.fill_diagonal(similarities, -2)
    neighbours = find_nearest_neighbours(vectors, 4)
    assert neighbours.rows.tolist() == np.argsort(-similarities, axis=1)[:, :4].tolist()


def test_cluster_is_matched_by_common_members() -> None:
    former = {"a": ["1", "2", "3"], "b": ["4", "5"], "c": ["6"]}
    clusters = [{"4", "5", "7"}, {"1", "2", "3"}, {"8", "9"}]
    assert match_clusters(clusters, former) == [
        ClusterMatch("b", 2 / 3),
        ClusterMatch("a", 1.0),
        None,
    ]


def test_more_similar_cluster_keeps_the_id() -> None:
    former = {"a": list("123456")}
    assert match_clusters([set("12"), set("3456")], former) == [None, ClusterMatch("a", 4 / 6)]


def test_cluster_with_few_common_members_is_new() -> None:
    assert match_clusters([set("1234567")], {"a": ["1"]}) == [None]


def test_empty_clusterings_do_not_match() -> None:
    assert match_clusters([], {}) == []
    assert match_clusters([{"1"}], {}) == [None]
    assert match_clusters([], {"a": ["1"]}) == []


@settings(max_examples=15)
@given(seed=SEEDS, came=st.booleans())
def test_clusters_match_after_a_tenth_of_members_changes(*, seed: int, came: bool) -> None:
    vectors = np.concatenate([make_groups(6, seed), make_outliers(10, seed + 1)])
    stays = np.random.default_rng(seed).random(len(vectors)) > 0.1
    remaining_rows, all_rows = np.flatnonzero(stays), np.arange(len(vectors))
    rows_before, rows_after = (remaining_rows, all_rows) if came else (all_rows, remaining_rows)
    former = {
        f"cluster {number}": [str(rows_before[row]) for row in cluster.members]
        for number, cluster in enumerate(find_clusters(vectors[rows_before]))
        if len(cluster.members) > GROUP_SIZE / 2
    }
    clusters = [
        {str(rows_after[row]) for row in cluster.members}
        for cluster in find_clusters(vectors[rows_after])
    ]
    assert former.keys() == {
        match.cluster_id for match in match_clusters(clusters, former) if match
    }
