"""Dense groups of vectors become clusters, in any order, and outliers stay outside as noise.

A vector is known by its row in the matrix. The rows of each group in `make_groups` are consecutive.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.clustering.clusters import (
    MIN_PASSAGES,
    VectorCluster,
    compute_centroid,
    compute_min_similarity,
    find_clusters,
    find_nearest_clusters,
)
from shared.clustering.matching import ClusterMatch, match_clusters
from shared.clustering.merging import merge_regions
from shared.clustering.neighbours import find_nearest_neighbours
from shared.clustering.spectral import MAX_DIMENSIONS, compute_spectral_map
from tests.support.vector_groups import DIMENSION, GROUP_SIZE, make_groups, make_outliers

SEEDS = st.integers(0, 2**16)


def list_rows_by_cluster(clusters: list[VectorCluster]) -> list[set[int]]:
    """Return the rows of each cluster, sorted by the lowest row."""
    return sorted((set(map(int, cluster.members)) for cluster in clusters), key=min)


def list_groups_by_cluster(clusters: list[VectorCluster]) -> list[set[int]]:
    """Return the numbers of the groups in each cluster.

    A cluster may miss vectors of its group that lie far out, but has more than half of them.
    """
    rows_by_cluster = list_rows_by_cluster(clusters)
    assert all(len(rows) > GROUP_SIZE / 2 for rows in rows_by_cluster)
    return [{row // GROUP_SIZE for row in rows} for rows in rows_by_cluster]


@pytest.mark.parametrize("count", [2, 8, 50])
def test_each_group_is_a_cluster(count: int) -> None:
    assert list_groups_by_cluster(find_clusters(make_groups(count))) == [
        {group} for group in range(count)
    ]


def test_outliers_belong_to_no_cluster() -> None:
    vectors = np.concatenate([make_groups(6), make_outliers(5)])
    assert list_groups_by_cluster(find_clusters(vectors)) == [{group} for group in range(6)]


@pytest.mark.parametrize("seed", range(3))
def test_a_distant_group_does_not_unite_all_others(seed: int) -> None:
    vectors = np.concatenate([make_outliers(300, seed), make_groups(1, seed + 5)])
    clusters = find_clusters(vectors)
    assert max(len(cluster.members) for cluster in clusters) < len(vectors) / 4
    assert any(set(cluster.members) >= set(range(300, 315)) for cluster in clusters)


@settings(max_examples=15)
@given(SEEDS)
def test_clusters_are_disjoint_and_the_order_of_vectors_changes_nothing(seed: int) -> None:
    vectors = np.concatenate([make_groups(5, seed), make_outliers(20, seed + 1)])
    rows_by_cluster = list_rows_by_cluster(find_clusters(vectors))
    rows = [row for cluster_rows in rows_by_cluster for row in cluster_rows]
    assert len(set(rows)) == len(rows)
    assert set(rows) <= set(range(len(vectors)))

    order = np.random.default_rng(seed).permutation(len(vectors))
    permuted = list_rows_by_cluster(find_clusters(vectors[order]))
    original_rows = [{int(order[row]) for row in cluster_rows} for cluster_rows in permuted]
    assert rows_by_cluster == sorted(original_rows, key=min)


def test_copies_belong_to_the_same_cluster() -> None:
    vectors = make_groups(5)
    clusters = list_rows_by_cluster(find_clusters(vectors))
    clusters_of_both = list_rows_by_cluster(find_clusters(np.concatenate([vectors, vectors])))
    with_copies = [rows | {row + len(vectors) for row in rows} for rows in clusters]
    assert clusters_of_both == with_copies


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


def test_new_vector_joins_only_a_near_cluster() -> None:
    vectors = make_groups(5)
    clusters = find_clusters(vectors)
    centroids = np.array([cluster.centroid for cluster in clusters])
    min_similarities = np.array([cluster.min_similarity for cluster in clusters])
    new_vectors = np.concatenate([centroids, make_outliers(3)])
    nearest = find_nearest_clusters(new_vectors, centroids, min_similarities)
    assert nearest.tolist() == [0, 1, 2, 3, 4, -1, -1, -1]  # -1 is no cluster
    no_centroids = np.empty((0, DIMENSION), np.float32)
    assert find_nearest_clusters(make_outliers(2), no_centroids, np.empty(0)).tolist() == [-1, -1]


def test_about_three_quarters_of_a_core_pass_its_min_similarity() -> None:
    [core] = [make_groups(1, size=200)]
    is_near = core @ compute_centroid(core) >= compute_min_similarity(core)
    assert 0.7 <= is_near.mean() <= 0.9
    assert compute_min_similarity(make_outliers(1)) == 1.0


def test_similar_regions_are_merged() -> None:
    vectors = make_groups(3, size=20)
    labels = np.repeat([0, 1, 2, 3], [10, 10, 20, 20])  # the first group is split in two
    assert merge_regions(labels, vectors).tolist() == [0] * 20 + [1] * 20 + [2] * 20


def test_merging_does_not_change_noise() -> None:
    labels = np.array([-1] * 5 + [0] * 15)
    assert merge_regions(labels, make_groups(1, size=20)).tolist() == labels.tolist()
    assert merge_regions(np.full(20, -1), make_groups(1, size=20)).tolist() == [-1] * 20


def test_neighbours_are_the_most_similar_others_in_order() -> None:
    vectors = make_outliers(50)
    similarities = vectors @ vectors.T
    np.fill_diagonal(similarities, -2)  # below any cosine, so a vector is not its own neighbour
    neighbours = find_nearest_neighbours(vectors, 4)
    assert neighbours.rows.tolist() == np.argsort(-similarities, axis=1)[:, :4].tolist()


def test_the_spectral_map_is_that_of_the_papers() -> None:
    """Axes may point either way, so the points' similarities are compared."""
    vectors = make_outliers(40).astype(np.float64)
    near = find_nearest_neighbours(vectors.astype(np.float32), 10)
    squared = 2 - 2 * vectors @ vectors.T
    scales = np.sqrt(np.sort(squared, axis=1)[:, 7])  # of the seventh neighbour
    edges = np.zeros_like(squared)
    np.put_along_axis(edges, near.rows.astype(np.intp), 1, axis=1)
    weights = edges * np.exp(-squared / np.outer(scales, scales))
    degrees = (weights + weights.T).sum(axis=1)
    values, axes = np.linalg.eigh((weights + weights.T) / np.sqrt(np.outer(degrees, degrees)))
    axes = (axes / np.sqrt(degrees)[:, None])[:, -1 - MAX_DIMENSIONS : -1]
    axes *= values[-1 - MAX_DIMENSIONS : -1] / np.linalg.norm(axes, axis=0)
    points = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    spectral_map = compute_spectral_map(near)
    assert np.allclose(spectral_map @ spectral_map.T, points @ points.T, atol=1e-4)


@pytest.mark.parametrize(
    ("clusters", "former_clusters", "matches"),
    [
        # "b" and the first cluster have three members in total, and share two of them.
        (
            ["457", "123", "89"],
            {"a": "123", "b": "45", "c": "6"},
            [ClusterMatch("b", 2 / 3), ClusterMatch("a", 1.0), None],
        ),
        (["12", "3456"], {"a": "123456"}, [None, ClusterMatch("a", 4 / 6)]),
        (["1234567"], {"a": "1"}, [None]),
        ([], {}, []),
        (["1"], {}, [None]),
        ([], {"a": "1"}, []),
    ],
)
def test_a_cluster_is_matched_by_common_members(
    clusters: list[str], former_clusters: dict[str, str], matches: list[ClusterMatch | None]
) -> None:
    former_members = {name: list(members) for name, members in former_clusters.items()}
    assert match_clusters(list(map(set, clusters)), former_members) == matches


@settings(max_examples=15)
@given(seed=SEEDS, adds_members=st.booleans())
def test_clusters_match_after_a_tenth_of_members_changes(*, seed: int, adds_members: bool) -> None:
    vectors = np.concatenate([make_groups(6, seed), make_outliers(10, seed + 1)])
    all_rows = np.arange(len(vectors))
    most_rows = np.flatnonzero(np.random.default_rng(seed).random(len(vectors)) > 0.1)
    rows_before, rows_after = (most_rows, all_rows) if adds_members else (all_rows, most_rows)
    former_clusters = {
        f"cluster {number}": [str(rows_before[row]) for row in cluster.members]
        for number, cluster in enumerate(find_clusters(vectors[rows_before]))
        if len(cluster.members) > GROUP_SIZE / 2
    }
    clusters = [
        {str(rows_after[row]) for row in cluster.members}
        for cluster in find_clusters(vectors[rows_after])
    ]
    matches = match_clusters(clusters, former_clusters)

    assert former_clusters.keys() == {match.cluster_id for match in matches if match}
