"""On the map, each cluster is a disc. Passages lie in their cluster's disc or between discs."""

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.clustering.clusters import compute_centroid, find_clusters
from shared.clustering.density import NOISE
from shared.clustering.map_layout import MAX_DISTANCE, SIDE, Discs, fit_axes, lay_out, project

Matrix = NDArray[np.float32]
Rows = NDArray[np.intp]

DIMENSION = 24


def make_vectors(sizes: list[int], seed: int = 0) -> tuple[Matrix, Rows]:
    """Return unit vectors in clusters of these sizes, and the number of each vector's cluster."""
    random = np.random.default_rng(seed)
    directions = random.standard_normal((len(sizes), DIMENSION))
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    vectors = directions[numbers] + 0.3 * random.standard_normal((len(numbers), DIMENSION))
    unit_vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit_vectors.astype(np.float32), numbers


def draw_map(vectors: Matrix, numbers: Rows) -> tuple[Discs, NDArray[np.int64]]:
    """Return the discs of the clusters, and the coordinates of the passages."""
    count = int(numbers.max()) + 1
    centroids = np.stack([compute_centroid(vectors[numbers == row]) for row in range(count)])
    axes = fit_axes(centroids)
    passages = project(vectors, numbers, centroids, axes)
    discs = lay_out(centroids, axes, passages)
    return discs, discs.place(passages)


def measure_neighbours_in_cluster(coordinates: NDArray[np.float64], numbers: Rows) -> float:
    """Return the share of a passage's ten nearest neighbours that belong to its cluster."""
    members = np.flatnonzero(numbers != NOISE)
    distances = np.linalg.norm(coordinates[members, None] - coordinates, axis=2)
    distances[np.arange(len(members)), members] = np.inf
    nearest = np.argsort(distances, axis=1)[:, :10]
    return float((numbers[nearest] == numbers[members, None]).mean())


@pytest.fixture(scope="module")
def noisy_base() -> tuple[Matrix, Rows]:
    """Twelve clusters of ten to sixty passages, and sixty passages of noise."""
    vectors, numbers = make_vectors(list(range(10, 70, 5)))
    noise, _ = make_vectors([1] * 60, seed=1)
    return np.concatenate([vectors, noise]), np.append(numbers, np.full(60, NOISE))


def test_discs_do_not_overlap_and_are_as_large_as_their_clusters(
    noisy_base: tuple[Matrix, Rows],
) -> None:
    vectors, numbers = noisy_base
    discs, coordinates = draw_map(vectors, numbers)
    distances = np.linalg.norm(discs.centres[:, None] - discs.centres, axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (distances >= discs.radii[:, None] + discs.radii).all()
    sizes = np.bincount(numbers[numbers != NOISE])
    assert np.allclose(discs.radii**2 / sizes, discs.radii[0] ** 2 / sizes[0])
    assert (coordinates == draw_map(vectors, numbers)[1]).all()


def test_members_are_in_their_disc_and_noise_in_none(noisy_base: tuple[Matrix, Rows]) -> None:
    vectors, numbers = noisy_base
    discs, coordinates = draw_map(vectors, numbers)
    # The distance of each passage to the centre of each disc, in radii of the disc.
    depths = np.linalg.norm(coordinates[:, None] - discs.centres, axis=2) / discs.radii
    members = numbers != NOISE
    depths_in_own_disc = depths[members, numbers[members]]
    assert (depths_in_own_disc <= 1.01).mean() > 0.9
    assert depths_in_own_disc.max() < MAX_DISTANCE + 0.01
    assert depths[~members].min() > 0.99


def test_neighbours_share_a_cluster_more_often_than_under_pca(
    noisy_base: tuple[Matrix, Rows],
) -> None:
    vectors, numbers = noisy_base
    centred = vectors - vectors.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    share_under_pca = measure_neighbours_in_cluster(centred @ axes.T, numbers)
    _, coordinates = draw_map(vectors, numbers)
    share_on_map = measure_neighbours_in_cluster(coordinates.astype(np.float64), numbers)
    assert share_on_map > max(0.85, share_under_pca)


def test_the_map_fills_the_square_and_is_centred(noisy_base: tuple[Matrix, Rows]) -> None:
    discs, coordinates = draw_map(*noisy_base)
    edges = discs.radii[:, None]
    corners = np.concatenate([coordinates, discs.centres - edges, discs.centres + edges])
    low, high = corners.min(axis=0), corners.max(axis=0)
    assert np.allclose(low + high, SIDE, atol=1)
    assert abs(float((high - low).max()) - SIDE) < 1
    assert coordinates.min() >= 0
    assert coordinates.max() <= SIDE


@pytest.mark.parametrize("sizes", [[1], [20], [20, 30], [1, 1, 1]])
def test_few_or_small_clusters_have_finite_coordinates(sizes: list[int]) -> None:
    vectors, numbers = make_vectors(sizes)
    noise, _ = make_vectors([1] * 5, seed=1)
    all_numbers = np.append(numbers, np.full(5, NOISE))
    discs, coordinates = draw_map(np.concatenate([vectors, noise]), all_numbers)
    for values in (discs.centres, discs.radii, discs.means, discs.scales):
        assert np.isfinite(values).all()
    assert 0 <= coordinates.min() <= coordinates.max() <= SIDE


def test_clusters_of_equal_vectors_are_drawn() -> None:
    vectors = np.tile(make_vectors([1])[0], (30, 1))
    discs, coordinates = draw_map(vectors, np.repeat(np.arange(3), 10))
    assert np.isfinite(discs.scales).all()
    assert len({tuple(point) for point in coordinates.tolist()}) == 3
    assert find_clusters(vectors) == []


def test_a_new_passage_is_placed_as_in_a_new_drawing(noisy_base: tuple[Matrix, Rows]) -> None:
    vectors, numbers = noisy_base
    discs, coordinates = draw_map(vectors, numbers)
    centroids = np.stack(
        [compute_centroid(vectors[numbers == row]) for row in range(numbers.max() + 1)]
    )
    new_passages = project(vectors[-3:], numbers[-3:], centroids, fit_axes(centroids))
    assert np.abs(discs.place(new_passages) - coordinates[-3:]).max() <= 1
