"""Vector search: exact nearest neighbours by a product with a matrix in memory.

A row of the table `vectors` is a vector with its components as they were written. A process that
searches loads the vectors of one field and scope into a matrix once, and from then on reads only
what has changed since, by revision. The matrix holds unit vectors in float32. It only chooses
candidates, with a margin for its rounding; the distances that are returned, and so the order, come
from the stored components in float64.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import apsw
    from numpy.typing import NDArray

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS vectors (
    field INTEGER NOT NULL,
    scope BLOB NOT NULL,
    key BLOB NOT NULL,
    revision INTEGER NOT NULL,
    data BLOB,
    PRIMARY KEY (field, scope, key)
);
CREATE INDEX IF NOT EXISTS vectors_by_revision ON vectors (field, scope, revision);
CREATE INDEX IF NOT EXISTS removed_vectors ON vectors (field) WHERE data IS NULL;
"""
"""The table. `data` is NULL where a document no longer has a vector: from the row, other processes
learn that they must drop theirs."""

_SINGLE: Final = np.dtype("<f4")
_DOUBLE: Final = np.dtype("<f8")
_ROUNDING: Final = 4e-6
"""Products of unit vectors in float32 are wrong by less than this: the largest error observed in
2,048 dimensions was 1e-6."""
_MAX_GATHERED: Final = 0.2
"""At most this share of a matrix is gathered from it. For more, a product with the whole matrix is
quicker."""
_GROWTH: Final = 1.5
"""A full matrix gets room for this many times its vectors. Untouched room costs no memory."""
_MIN_ROOM: Final = 1_024
"""A matrix has room for at least this many vectors."""

_NOTHING_READ: Final = -1
"""Before every revision."""
_BATCH: Final = 1_000
"""This many vectors are read at a time."""
_LATEST: Final = "SELECT max(revision) FROM vectors WHERE field = ? AND scope = ?"
_COUNT: Final = "SELECT count(*) FROM vectors WHERE field = ? AND scope = ? AND revision > ?"
_CHANGES: Final = "SELECT key, data FROM vectors WHERE field = ? AND scope = ? AND revision > ?"
_STORED: Final = "SELECT data FROM vectors WHERE field = ? AND scope = ? AND key = ?"
_STORE: Final = """
INSERT INTO vectors (field, scope, key, revision, data) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (field, scope, key) DO UPDATE SET revision = excluded.revision, data = excluded.data
"""
_REMOVE: Final = (
    "UPDATE vectors SET revision = ?, data = NULL WHERE field = ? AND scope = ? AND key = ?"
)


class Measure(IntEnum):
    """How far apart two vectors are. The numbers are those of Firestore's API."""

    EUCLIDEAN = 1
    COSINE = 2
    DOT_PRODUCT = 3
    """The greater, the nearer."""


class Space(NamedTuple):
    """Vectors that are searched together, all of one dimension.

    Attributes:
        field: The number of the indexed field.
        scope: The collection, or empty for a collection group.
    """

    field: int
    scope: bytes


@dataclass(frozen=True, slots=True)
class Search:
    """A search for the nearest vectors.

    Attributes:
        vector: A vector of the space's dimension.
        measure: The measure of distance.
        limit: The maximum number of documents.
        threshold: The greatest distance, inclusive; for DOT_PRODUCT the least.
    """

    vector: Sequence[float]
    measure: Measure
    limit: int
    threshold: float | None = None


def store(
    connection: apsw.Connection,
    space: Space,
    key: bytes,
    revision: int,
    components: Sequence[float] | None,
) -> None:
    """Write a document's vector, or record that it no longer has one, in the caller's transaction.

    Args:
        connection: A connection with an open transaction.
        space: Where the vector is searched.
        key: The document.
        revision: Greater than that of every earlier transaction, of all processes.
        components: The vector, or None.
    """
    if components is None:
        connection.execute(_REMOVE, (revision, *space, key))
    else:
        connection.execute(_STORE, (*space, key, revision, _encode(components)))


def purge(connection: apsw.Connection) -> None:
    """Delete the rows of removed vectors. No other process may have the file open."""
    connection.execute("DELETE FROM vectors WHERE data IS NULL")


class Matrices:
    """The matrices of a process for one database file. They are loaded when first searched."""

    def __init__(self) -> None:
        """Create an empty cache."""
        self._matrices: dict[Space, _Matrix] = {}
        self._lock = threading.Lock()

    @np.errstate(over="ignore", invalid="ignore")  # see `choose`
    def find(
        self,
        connection: apsw.Connection,
        space: Space,
        search: Search,
        keys: Collection[bytes] | None = None,
    ) -> list[tuple[bytes, float]]:
        """Return the nearest documents with their distances, the nearest first, ties by key.

        A zero vector has no cosine: COSINE puts it last with the distance NaN, as Firestore does,
        and any threshold leaves it out.

        Args:
            connection: A connection whose open transaction also reads the documents.
            space: Where to search.
            search: What to search for.
            keys: The only documents to compare. By default, all.
        """
        query = np.asarray(search.vector, _DOUBLE)
        with self._lock:
            candidates = self._load(connection, space, len(query)).choose(query, search, keys)
        sign = -1 if search.measure is Measure.DOT_PRODUCT else 1
        ranking = []
        for key in candidates:
            vector = _read_vector(connection, space, key, len(query))
            distance = _compute_distance(vector, query, search.measure)
            if search.threshold is None or sign * distance <= sign * search.threshold:
                rank = np.inf if np.isnan(distance) else sign * distance
                ranking.append((rank, key, distance))
        return [(key, distance) for _, key, distance in sorted(ranking)[: search.limit]]

    def _load(self, connection: apsw.Connection, space: Space, dimension: int) -> _Matrix:
        """Return a matrix of the vectors that the connection's transaction sees."""
        revision = connection.execute(_LATEST, space).get or 0
        matrix = self._matrices.get(space)
        if matrix and matrix.revision > revision:
            # This transaction is older than the cached matrix, so it gets one of its own.
            return _read_matrix(connection, space, dimension, revision)
        if not matrix:
            matrix = self._matrices[space] = _read_matrix(connection, space, dimension, revision)
        elif matrix.revision < revision:
            matrix.patch(connection, space, revision)
        return matrix


@dataclass(slots=True)
class _Matrix:
    """The vectors of a space, in no particular order.

    Attributes:
        rows: Unit vectors, and zero vectors as they are; the first `len(keys)` rows are in use.
        norms: The length of each vector.
        keys: The document of each row.
        positions: The row of each document.
        revision: The last change that the matrix contains.
    """

    rows: NDArray[np.float32]
    norms: NDArray[np.float64]
    keys: list[bytes]
    positions: dict[bytes, int]
    revision: int

    def choose(
        self, query: NDArray[np.float64], search: Search, keys: Collection[bytes] | None
    ) -> list[bytes]:
        """Return candidates: all of the nearest documents, and few others."""
        positions = None
        if keys is not None:
            row_numbers = (self.positions.get(key) for key in keys)
            positions = np.fromiter((row for row in row_numbers if row is not None), np.intp)
        cosines = self._multiply(query, positions)
        norms = self.norms[: len(self.keys)] if positions is None else self.norms[positions]
        distances, margins = _estimate(cosines, norms, query, search.measure)
        # A distance that overflows is infinite, or no number, which may stand for any distance.
        nearest_possible = np.nan_to_num(distances - margins, nan=-np.inf, posinf=np.inf)
        farthest_possible = np.nan_to_num(distances + margins, nan=np.inf, posinf=np.inf)
        bound = _get_bound(search)
        if len(distances) > search.limit:
            last = search.limit - 1
            bound = min(bound, np.partition(farthest_possible, last)[last])
        chosen = np.flatnonzero(nearest_possible <= bound)
        if positions is not None:
            chosen = positions[chosen]
        return [self.keys[position] for position in chosen.tolist()]

    def _multiply(
        self, query: NDArray[np.float64], positions: NDArray[np.intp] | None
    ) -> NDArray[np.float64]:
        """Return the cosines of a vector with the rows, or with those at some positions."""
        rows = self.rows[: len(self.keys)]
        unit = (query / (np.linalg.norm(query) or 1)).astype(_SINGLE)
        if positions is None:
            products = rows @ unit
        elif len(positions) < len(self.keys) * _MAX_GATHERED:
            products = rows[positions] @ unit
        else:
            products = (rows @ unit)[positions]
        return products.astype(np.float64)

    def patch(self, connection: apsw.Connection, space: Space, revision: int) -> None:
        """Apply the changes since the matrix's revision."""
        arguments = (*space, self.revision)
        self._reserve(len(self.keys) + int(connection.execute(_COUNT, arguments).get))
        changes = connection.execute(_CHANGES, arguments)
        while batch := list(islice(changes, _BATCH)):
            for key in (key for key, data in batch if data is None):
                self._remove(key)
            for dtype in (_SINGLE, _DOUBLE):  # the length tells which, as a space has one dimension
                size = self.rows.shape[1] * dtype.itemsize
                changed = [(key, data) for key, data in batch if data and len(data) == size]
                self._set_all(changed, dtype)
        self.revision = revision

    def _reserve(self, count: int) -> None:
        """Make room for `count` vectors."""
        if count <= len(self.rows):
            return
        used = len(self.keys)
        rows, norms = self.rows, self.norms
        room = int(count * _GROWTH)
        self.rows = np.empty((room, rows.shape[1]), _SINGLE)
        self.norms = np.empty(room, _DOUBLE)
        self.rows[:used] = rows[:used]
        self.norms[:used] = norms[:used]

    def _set_all(self, changes: Sequence[tuple[bytes, bytes]], dtype: np.dtype[Any]) -> None:
        positions = []
        for key, _ in changes:
            position = self.positions.setdefault(key, len(self.keys))
            if position == len(self.keys):
                self.keys.append(key)
            positions.append(position)
        data = np.frombuffer(b"".join(data for _, data in changes), dtype)
        vectors = data.reshape(-1, self.rows.shape[1])
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=_DOUBLE))
        self.norms[positions] = norms
        self.rows[positions] = vectors / np.where(norms > 0, norms, 1)[:, None]

    def _remove(self, key: bytes) -> None:
        """Drop a document's row, if it has one, by moving the last row into its place."""
        position = self.positions.pop(key, None)
        if position is None:
            return
        last = self.keys.pop()
        if last != key:
            self.keys[position] = last
            self.positions[last] = position
            self.rows[position] = self.rows[len(self.keys)]
            self.norms[position] = self.norms[len(self.keys)]


def _estimate(
    cosines: NDArray[np.float64],
    norms: NDArray[np.float64],
    query: NDArray[np.float64],
    measure: Measure,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return numbers that order vectors as their distances do, and how wrong each may be.

    For EUCLIDEAN it is the square of the distance, for DOT_PRODUCT the negative product.
    """
    query_norm = float(np.linalg.norm(query))
    match measure:
        case Measure.COSINE:
            has_cosine = (norms > 0) & (query_norm > 0)
            return np.where(has_cosine, 1 - cosines, np.inf), np.full(len(norms), _ROUNDING)
        case Measure.DOT_PRODUCT:
            return -cosines * norms * query_norm, _ROUNDING * norms * query_norm
        case Measure.EUCLIDEAN:
            squares = norms**2 + query_norm**2
            return squares - 2 * cosines * norms * query_norm, _ROUNDING * squares


def _get_bound(search: Search) -> float:
    """Return the threshold as `_estimate` expresses distances."""
    if search.threshold is None:
        return np.inf
    match search.measure:
        case Measure.COSINE:
            return search.threshold
        case Measure.DOT_PRODUCT:
            return -search.threshold
        case Measure.EUCLIDEAN:
            return search.threshold * abs(search.threshold)  # below zero, nothing is so near


def _read_matrix(
    connection: apsw.Connection, space: Space, dimension: int, revision: int
) -> _Matrix:
    """Read all vectors of a space up to a revision."""
    rows = np.empty((_MIN_ROOM, dimension), _SINGLE)
    matrix = _Matrix(rows, np.empty(_MIN_ROOM, _DOUBLE), [], {}, _NOTHING_READ)
    matrix.patch(connection, space, revision)
    return matrix


def _read_vector(
    connection: apsw.Connection, space: Space, key: bytes, dimension: int
) -> NDArray[np.float64]:
    data = connection.execute(_STORED, (*space, key)).get
    # As `_encode` wrote it: the length tells the type.
    dtype = _DOUBLE if len(data) == dimension * _DOUBLE.itemsize else _SINGLE
    return np.frombuffer(data, dtype).astype(_DOUBLE)


@np.errstate(over="ignore")
def _encode(components: Sequence[float]) -> bytes:
    """Return the components in float32 if no component changes, else in float64."""
    double = np.asarray(components, _DOUBLE)
    single = double.astype(_SINGLE)
    exact = single if np.array_equal(single, double) else double
    return exact.tobytes()


def _compute_distance(
    vector: NDArray[np.float64], query: NDArray[np.float64], measure: Measure
) -> float:
    match measure:
        case Measure.COSINE:
            norms = np.linalg.norm(vector) * np.linalg.norm(query)
            return float(1 - vector @ query / norms)
        case Measure.DOT_PRODUCT:
            return float(vector @ query)
        case Measure.EUCLIDEAN:
            return float(np.linalg.norm(vector - query))
