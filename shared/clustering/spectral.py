"""Spectral embedding: a low-dimensional map in which neighbours stay neighbours.

In hundreds of dimensions, all distances are similar, so density shows no clusters. Therefore, a
graph connects each vector with its nearest neighbours. Its edges are weighted by local scale
(Zelnik-Manor and Perona, "Self-Tuning Spectral Clustering", 2004). The leading eigenvectors of its
normalised adjacency matrix are the coordinates, which are then normalised to the unit sphere (Ng,
Jordan and Weiss, "On Spectral Clustering", 2001, where that matrix is called L).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared.clustering.neighbours import Neighbours

MAX_DIMENSIONS: Final = 16
"""The maximum number of dimensions of the map."""
SCALE_NEIGHBOUR: Final = 7
"""The local scale of a vector is its distance to this neighbour: the seventh, as in the paper."""
MAX_DENSE_POINTS: Final = 500
"""Up to this many points, all eigenvectors are computed, because that always converges."""
_TINY: Final = 1e-6
"""The minimum squared distance, and the minimum weight of an edge: a sparse matrix does not store
zeros."""
_TOLERANCE: Final = 1e-4
"""The relative accuracy of eigenvalues with which the iteration stops."""


def compute_spectral_map(near: Neighbours) -> NDArray[np.float64]:
    """Map the graph of neighbours.

    Returns:
        A point of unit length for each vector, `(n, dimensions)`.
    """
    graph = _build_graph(near)
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    inverse_roots = 1 / np.sqrt(degrees)
    adjacency = graph.multiply(inverse_roots[:, None]).multiply(inverse_roots[None, :]).tocsr()
    values, vectors = _compute_leading_eigenvectors(adjacency, np.sqrt(degrees / degrees.sum()))
    axes = vectors * inverse_roots[:, None]
    axes *= values / np.linalg.norm(axes, axis=0)  # Smoother axes weigh more.
    lengths = np.linalg.norm(axes, axis=1, keepdims=True)
    points: NDArray[np.float64] = axes / np.maximum(lengths, np.finfo(float).tiny)
    return points


def _build_graph(near: Neighbours) -> Any:
    """Return the weights of the edges between neighbours, as a symmetric sparse matrix."""
    from scipy.sparse import csr_array  # slow to import

    size, count = near.rows.shape
    squared = np.maximum(2 - 2 * near.similarities.astype(np.float64), _TINY)
    local_scales = np.sqrt(squared[:, min(SCALE_NEIGHBOUR, count) - 1])
    scale_products = local_scales[:, None] * local_scales[near.rows]
    weights = np.maximum(np.exp(-squared / scale_products), _TINY)
    starts = np.arange(0, size * count + 1, count)
    graph = csr_array((weights.ravel(), near.rows.ravel(), starts), shape=(size, size))
    return (graph + graph.T) / 2


def _compute_leading_eigenvectors(
    matrix: Any, trivial: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the leading eigenvalues and eigenvectors of a matrix, except for the trivial ones.

    Eigenvalues are in descending order, eigenvectors in columns.

    Args:
        matrix: A symmetric matrix.
        trivial: The unit eigenvector of eigenvalue 1 that only shows how well each point is
            connected. It is removed from the matrix, because in a graph of several components, the
            eigenvalue 1 has other eigenvectors too, and their order would be random.
    """
    size = matrix.shape[0]
    count = min(MAX_DIMENSIONS, size - 1)
    if size <= MAX_DENSE_POINTS:
        values, vectors = np.linalg.eigh(matrix.toarray() - np.outer(trivial, trivial))
    else:
        from scipy.sparse.linalg import LinearOperator, eigsh

        deflated = LinearOperator(
            matrix.shape, lambda x: matrix @ x - trivial * (trivial @ x), dtype=np.float64
        )
        start = np.random.default_rng(0).standard_normal(size)
        values, vectors = eigsh(deflated, k=count, which="LA", v0=start, tol=_TOLERANCE)
    order = np.argsort(-values, kind="stable")[:count]
    return values[order], vectors[:, order]
