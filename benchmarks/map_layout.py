"""How well a map shows clusters, compared with a plot of the first two principal components.

Usage: python -m benchmarks.map_layout [--sizes N ...]

The passages are SciFact's abstracts; larger sizes add noisy copies (`benchmarks.clustering`).
"Neighbours" is the share of a member's ten nearest points that are in its cluster. "Overlap" is the
mean share of a cluster's disc that other discs cover; a disc has nearly all members of its cluster.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.clustering import SIZES, make_vectors
from benchmarks.measurement import print_table
from benchmarks.scifact import VECTORS, require_file
from shared.clustering.clusters import find_clusters
from shared.clustering.density import NOISE
from shared.clustering.map_layout import MEMBER_QUANTILE, fit_axes, lay_out, project

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared.clustering.map_layout import Matrix, Points, Rows

NEIGHBOUR_COUNT: Final = 10
PROBE_COUNT: Final = 400
"""The number of evenly spread points by which the overlap of a disc is measured."""
_BLOCK: Final = 500


def compare_layouts(size: int) -> list[str]:
    """Lay out a map of this many passages, and return its row of the table."""
    vectors = make_vectors(size)
    clusters = find_clusters(vectors)
    labels = np.full(size, NOISE, np.intp)
    for number, cluster in enumerate(clusters):
        labels[cluster.members] = number
    started = time.perf_counter()
    centroids = np.stack([cluster.centroid for cluster in clusters])
    axes = fit_axes(centroids)
    passages = project(vectors, labels, centroids, axes)
    layout = lay_out(centroids, axes, passages).place(passages).astype(np.float64)
    seconds = time.perf_counter() - started
    plot = _find_components(vectors)
    return [
        f"{size:,}",
        str(len(clusters)),
        *(f"{_share_neighbours(points, labels):.2f}" for points in (layout, plot)),
        *(f"{_measure_overlap(points, labels):.2f}" for points in (layout, plot)),
        f"{seconds:.2f}",
    ]


def _find_components(vectors: Matrix) -> Points:
    """Project all vectors on their first two principal components."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    _, components = np.linalg.eigh(centred.T @ centred)
    projections: Points = centred @ components[:, -2:]
    return projections


def _share_neighbours(points: Points, labels: Rows) -> float:
    """Return the mean share of a member's nearest points that are in its cluster."""
    members = np.flatnonzero(labels != NOISE)
    shares: list[NDArray[np.float64]] = []
    for start in range(0, len(members), _BLOCK):
        rows = members[start : start + _BLOCK]
        distances = ((points[rows, None] - points) ** 2).sum(axis=2)
        distances[np.arange(len(rows)), rows] = np.inf
        nearest = np.argpartition(distances, NEIGHBOUR_COUNT, axis=1)[:, :NEIGHBOUR_COUNT]
        shares.append((labels[nearest] == labels[rows, None]).mean(axis=1))
    return float(np.concatenate(shares).mean())


def _measure_overlap(points: Points, labels: Rows) -> float:
    """Return the mean share of a disc that other discs cover."""
    members = [points[labels == number] for number in range(labels.max() + 1)]
    centres = np.stack([cluster.mean(axis=0) for cluster in members])
    radii = np.array(
        [
            np.quantile(np.linalg.norm(cluster - centre, axis=1), MEMBER_QUANTILE)
            for cluster, centre in zip(members, centres, strict=True)
        ]
    )
    turns = np.arange(PROBE_COUNT) * np.pi * (3 - np.sqrt(5))  # a sunflower's seeds
    unit = np.sqrt((np.arange(PROBE_COUNT) + 0.5) / PROBE_COUNT)[:, None] * np.stack(
        [np.cos(turns), np.sin(turns)], axis=1
    )
    shares = []
    for number, (centre, radius) in enumerate(zip(centres, radii, strict=True)):
        others = np.arange(len(radii)) != number
        probes = centre + radius * unit
        distances = np.linalg.norm(probes[:, None] - centres[others], axis=2)
        shares.append((distances < radii[others]).any(axis=1).mean())
    return float(np.mean(shares))


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    sizes: list[int] = parser.parse_args().sizes
    require_file(VECTORS)
    columns = ("passages", "clusters", "neighbours", "by PCA", "overlap", "by PCA", "seconds")
    print_table("Maps", columns, [compare_layouts(size) for size in sizes])


if __name__ == "__main__":
    main()
