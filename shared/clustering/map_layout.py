"""Positions of passages on a map, on which each cluster is a disc.

The axes are the first two principal components of the clusters' centroids. On them, the centres of
clusters are spread until their discs, whose areas grow with the sizes of the clusters, hardly
overlap. A passage lies in the disc of its cluster, displaced from the centre as its vector is from
the mean of the cluster. Passages without a cluster, the noise, lie between the two clusters that
they are most similar to. New passages are placed likewise, without moving others.

Measured with `benchmarks.map_layout`, beside the first two principal components of all passages.
The neighbours are the share of a passage's ten nearest on the map that are in its cluster; the
overlap is the mean share of a disc that other discs cover.

| passages | clusters | neighbours | by PCA | overlap | by PCA |
|---|---|---|---|---|---|
| 1,000 abstracts of SciFact | 26 | 0.86 | 0.16 | 0.00 | 0.95 |
| 5,000 abstracts | 45 | 0.92 | 0.13 | 0.00 | 0.99 |
| 20,000, some of them copies with noise | 116 | 0.92 | 0.07 | 0.00 | 1.00 |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from shared.clustering.density import NOISE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    Points = NDArray[np.float64]
    """Points or displacements in the plane, `(n, 2)`."""
    Rows = NDArray[np.intp]

SIDE: Final = 10_000
"""Coordinates on the map are whole numbers from 0 to this one."""
MEMBER_QUANTILE: Final = 0.95
"""This share of a cluster's passages lies in its disc."""
MAX_DISTANCE: Final = 1.15
"""The others lie at most this many radii from its centre."""
GAP: Final = 1.15
"""Centres of two clusters are at least this many times the sum of their radii apart."""
FILL: Final = 0.5
"""The share of the map's area that discs have before they are spread."""
SPREADING_STEPS: Final = 300
"""The maximum number of steps in which discs push each other away."""
NOISE_SCALE: Final = 0.5
"""How far noise is displaced, compared with the members of a typical cluster."""
RIM: Final = 0.15
"""Noise that would lie in a disc is moved to a ring around it, whose width is this share of the
radius. The next disc is not nearer."""
_BLOCK: Final = 4096
_TINY: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class ProjectedPassages:
    """Passages projected on the axes of a map, and their relation to clusters.

    Attributes:
        clusters: The number of each passage's cluster, or `NOISE`.
        nearest: The numbers of the two most similar clusters, `(n, 2)`; of a member, twice its own.
        shares: Where it is between these two, from 0, at the first, to 1.
        projections: Its vector on the two axes of the map.
    """

    clusters: Rows
    nearest: Rows
    shares: NDArray[np.float64]
    projections: Points

    @classmethod
    def concatenate(cls, parts: Sequence[ProjectedPassages]) -> ProjectedPassages:
        """Return the passages of several parts, in order."""
        return cls(
            np.concatenate([part.clusters for part in parts]),
            np.concatenate([part.nearest for part in parts]),
            np.concatenate([part.shares for part in parts]),
            np.concatenate([part.projections for part in parts]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Discs:
    """The discs of clusters on a map.

    Attributes:
        centres: Their centres.
        radii: Their radii, in proportion to the square root of the size.
        means: The mean projections of their passages, which are drawn at the centres.
        scales: The factors by which displacements from the mean are multiplied.
    """

    centres: Points
    radii: NDArray[np.float64]
    means: Points
    scales: NDArray[np.float64]

    def place(self, passages: ProjectedPassages) -> NDArray[np.int64]:
        """Return the coordinates of passages, from 0 to `SIDE`."""
        return np.clip(self.place_exactly(passages).round(), 0, SIDE).astype(np.int64)

    def place_exactly(self, passages: ProjectedPassages) -> Points:
        """Return the coordinates without rounding, some of which may be off the map."""
        places: Points = np.empty_like(passages.projections)
        is_member = passages.clusters != NOISE
        members = passages.clusters[is_member]
        offsets = (passages.projections[is_member] - self.means[members]) * self.scales[
            members, None
        ]
        limits = MAX_DISTANCE * self.radii[members]
        lengths = np.maximum(np.linalg.norm(offsets, axis=1), _TINY)
        offsets *= np.minimum(1, limits / lengths)[:, None]
        places[is_member] = self.centres[members] + offsets
        places[~is_member] = self._place_noise(passages, ~is_member)
        return places

    def _place_noise(self, passages: ProjectedPassages, is_noise: NDArray[np.bool_]) -> Points:
        """Place passages in the gap between the discs of two clusters, outside of all discs."""
        first, second = passages.nearest[is_noise].T
        way = self.centres[second] - self.centres[first]
        length = np.maximum(np.linalg.norm(way, axis=1), _TINY)
        gap = np.maximum(length - self.radii[first] - self.radii[second], 0)
        distance = self.radii[first] + gap * passages.shares[is_noise]
        scale = NOISE_SCALE * float(np.median(self.scales))
        parts = np.minimum(distance / length, 0.5)[:, None]
        places: Points = self.centres[first] + way * parts
        shares = passages.shares[is_noise, None]
        middle = self.means[first] * (1 - shares) + self.means[second] * shares
        places += (passages.projections[is_noise] - middle) * scale
        for start in range(0, len(places), _BLOCK):
            self._leave_discs(places[start : start + _BLOCK])
        return places

    def _leave_discs(self, places: Points) -> None:
        """Move the points that lie in a disc to a ring around it."""
        rows = np.arange(len(places))
        directions = places[:, None] - self.centres
        depths = np.linalg.norm(directions, axis=2) / self.radii
        disc = depths.argmin(axis=1)
        depth = depths[rows, disc]
        inside = depth < 1
        unit = directions[rows, disc] / np.maximum(depth * self.radii[disc], _TINY)[:, None]
        unit[depth <= _TINY] = (1.0, 0.0)
        distance = (1 + RIM * depth) * self.radii[disc]
        places[inside] = (self.centres[disc] + unit * distance[:, None])[inside]


def fit_axes(centroids: Matrix) -> Matrix:
    """Return the first two principal components of centroids: two unit vectors, `(2, dimension)`.

    Along each, the centroid farthest from the middle has a positive coordinate, so that the same
    centroids always give the same map. One or two centroids have fewer components. Arbitrary axes,
    always the same, take their place.
    """
    points = centroids.astype(np.float64)
    points -= points.mean(axis=0)
    _, lengths, components = np.linalg.svd(points, full_matrices=False)
    axes = components[:2][lengths[:2] > _TINY * max(1, len(points))]
    others = np.random.default_rng(0).standard_normal((2, points.shape[1]))
    for other in others[len(axes) :]:
        rest = other - axes.T @ (axes @ other)
        axes = np.concatenate([axes, rest[None] / max(float(np.linalg.norm(rest)), _TINY)])
    coordinates = points @ axes.T
    farthest = coordinates[np.abs(coordinates).argmax(axis=0), [0, 1]]
    signs: NDArray[np.float64] = np.where(farthest < 0, -1.0, 1.0)
    return (axes * signs[:, None]).astype(np.float32)


def project(vectors: Matrix, clusters: Rows, centroids: Matrix, axes: Matrix) -> ProjectedPassages:
    """Project passages on the axes of a map, and find the clusters that noise is between.

    Args:
        vectors: Their unit vectors, `(n, dimension)`.
        clusters: The number of each one's cluster, or `NOISE`.
        centroids: The unit vectors of all clusters, at least one.
        axes: The axes of the map.
    """
    nearest = np.stack([clusters, clusters], axis=1)
    shares = np.zeros(len(vectors))
    is_noise = clusters == NOISE
    nearest[is_noise], shares[is_noise] = _find_nearest_two(vectors[is_noise], centroids)
    projections = (vectors @ axes.T).astype(np.float64)
    return ProjectedPassages(clusters, nearest, shares, projections)


def lay_out(centroids: Matrix, axes: Matrix, passages: ProjectedPassages) -> Discs:
    """Lay out the discs of clusters, so that all passages are on the map."""
    means = (centroids @ axes.T).astype(np.float64)
    centres, scales = means.copy(), np.ones(len(means))
    radii = np.ones(len(means))
    for number in range(len(means)):
        members = passages.projections[passages.clusters == number]
        if len(members):
            radii[number] = np.sqrt(len(members))
            means[number] = members.mean(axis=0)
            scales[number] = radii[number] / _measure_extent(members - means[number])
    discs = Discs(_spread(centres, radii), radii, means, scales)
    return _fit_into_square(discs, discs.place_exactly(passages))


def _find_nearest_two(vectors: Matrix, centroids: Matrix) -> tuple[Rows, NDArray[np.float64]]:
    """Return the two most similar clusters of each passage, and where it is between them."""
    similarities = vectors @ centroids.T
    nearest = np.argsort(-similarities, axis=1, kind="stable")[:, :2]
    if len(centroids) == 1:
        nearest = np.repeat(nearest, 2, axis=1)
    distances = 1 - np.take_along_axis(similarities, nearest, axis=1).astype(np.float64)
    shares = distances[:, 0] / np.maximum(distances.sum(axis=1), _TINY)
    return nearest, np.clip(shares, 0, 0.5)


def _measure_extent(offsets: Points) -> float:
    """Return the distance from the mean within which nearly all members are."""
    extent = float(np.quantile(np.linalg.norm(offsets, axis=1), MEMBER_QUANTILE))
    return extent if extent > _TINY else 1.0


def _spread(positions: Points, radii: NDArray[np.float64]) -> Points:
    """Move centres apart until discs hardly overlap, the smaller of two more than the larger."""
    centres: Points = positions - positions.mean(axis=0)
    deviation = float(np.sqrt((centres**2).sum(axis=1).mean()))
    target = float(np.sqrt((radii**2).sum() / FILL / 2))
    centres *= target / deviation if deviation > _TINY else 0.0
    # Two clusters at the same place need a direction.
    angles = np.arange(len(radii)) * np.pi * (3 - np.sqrt(5))
    centres += np.stack([np.cos(angles), np.sin(angles)], axis=1) * radii.min() / 100
    reach = GAP * (radii[:, None] + radii)
    np.fill_diagonal(reach, 0)
    weights = radii**2 / (radii[:, None] ** 2 + radii**2)
    for _ in range(SPREADING_STEPS):
        ways = centres[:, None] - centres
        distances = np.linalg.norm(ways, axis=2)
        overlaps = np.maximum(reach - distances, 0)
        if overlaps.max() < radii.min() / 100:
            break
        pushes = weights * overlaps / np.maximum(distances, _TINY)
        centres = centres + (ways * pushes[:, :, None]).sum(axis=1)
    return centres


def _fit_into_square(discs: Discs, places: Points) -> Discs:
    """Scale and move discs so that they and all passages fit, the smaller extent in the middle."""
    edges = discs.radii[:, None]
    corners = np.concatenate([places, discs.centres - edges, discs.centres + edges])
    low, high = corners.min(axis=0), corners.max(axis=0)
    factor = SIDE / max(float((high - low).max()), _TINY)
    shift = SIDE / 2 - factor * (low + high) / 2
    return Discs(
        centres=discs.centres * factor + shift,
        radii=discs.radii * factor,
        means=discs.means,
        scales=discs.scales * factor,
    )
