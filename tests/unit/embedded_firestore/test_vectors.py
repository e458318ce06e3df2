"""The search against a sort of all distances, and the matrix against the table."""

from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.local.embedded_firestore.vectors import SCHEMA, Matrices, Measure, Search, Space, store

Vectors = dict[bytes, Sequence[float]]

SPACE = Space(1, b"notes")
COMPONENTS = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 0.1, 3.0]), st.floats(width=32, min_value=-10, max_value=10)
)
VECTORS = st.lists(COMPONENTS, min_size=3, max_size=3)
KEYS = st.sampled_from([bytes([letter]) for letter in b"abcdefghijklmnop"])
MEASURES = st.sampled_from(list(Measure))


@pytest.fixture
def connection() -> apsw.Connection:
    return open_database(":memory:")


def open_database(path: str) -> apsw.Connection:
    connection = apsw.Connection(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(SCHEMA)
    return connection


def store_all(connection: apsw.Connection, vectors: Vectors, revision: int = 1) -> None:
    with connection:
        for key, vector in vectors.items():
            store(connection, SPACE, key, revision, vector)


def rank(vectors: Vectors, query: Sequence[float], measure: Measure) -> list[tuple[bytes, float]]:
    """Return all documents, the nearest first, and those without a distance last."""

    def distance(vector: Sequence[float]) -> float:
        with np.errstate(invalid="ignore"):
            product = np.dot(vector, query)
            match measure:
                case Measure.COSINE:
                    norms = np.linalg.norm(vector) * np.linalg.norm(query)
                    return float(1 - product / norms)
                case Measure.DOT_PRODUCT:
                    return float(product)
                case Measure.EUCLIDEAN:
                    return float(np.linalg.norm(np.subtract(vector, query)))

    sign = -1 if measure is Measure.DOT_PRODUCT else 1
    distances = {key: distance(vector) for key, vector in vectors.items()}
    return sorted(
        distances.items(),
        key=lambda item: (np.isnan(item[1]), sign * np.nan_to_num(item[1]), item[0]),
    )


@given(
    vectors=st.dictionaries(KEYS, VECTORS),
    query=VECTORS,
    measure=MEASURES,
    threshold=st.one_of(COMPONENTS, st.none()),
    data=st.data(),
)
def test_finds_what_sorting_all_distances_finds(
    vectors: Vectors,
    query: Sequence[float],
    measure: Measure,
    threshold: float | None,
    data: st.DataObject,
) -> None:
    connection = open_database(":memory:")
    store_all(connection, vectors)
    keys = data.draw(st.sets(KEYS))
    sign = -1 if measure is Measure.DOT_PRODUCT else 1

    limit = data.draw(st.integers(1, 16))
    search = Search(query, measure, limit, threshold)
    nearest = [
        (key, distance)
        for key, distance in rank(vectors, query, measure)
        if threshold is None or sign * distance <= sign * threshold
    ]
    assert_equal(nearest[:limit], Matrices().find(connection, SPACE, search))
    in_keys = [(key, distance) for key, distance in nearest if key in keys]
    assert_equal(in_keys[:limit], Matrices().find(connection, SPACE, search, keys))


def assert_equal(expected: list[tuple[bytes, float]], actual: list[tuple[bytes, float]]) -> None:
    assert [key for key, _ in expected] == [key for key, _ in actual]
    np.testing.assert_array_equal(
        [distance for _, distance in expected], [distance for _, distance in actual]
    )


@given(changes=st.lists(st.dictionaries(KEYS, st.one_of(VECTORS, st.none()), min_size=1)))
def test_a_loaded_matrix_follows_the_changes(
    changes: list[dict[bytes, list[float] | None]],
) -> None:
    connection = open_database(":memory:")
    matrices = Matrices()
    search = Search([1.0, 0.5, 0.0], Measure.EUCLIDEAN, 16)
    vectors: Vectors = {}

    for revision, change in enumerate(changes, start=1):
        with connection:
            for key, vector in change.items():
                store(connection, SPACE, key, revision, vector)
        vectors = {key: vector for key, vector in {**vectors, **change}.items() if vector}
        nearest_documents = matrices.find(connection, SPACE, search)
        assert_equal(rank(vectors, search.vector, search.measure), nearest_documents)


def test_an_older_transaction_sees_its_own_vectors(tmp_path: Path) -> None:
    first, second = (open_database(str(tmp_path / "database")) for _ in range(2))
    matrices = Matrices()
    search = Search([1.0, 0.0], Measure.COSINE, 10)
    store_all(first, {b"a": [1.0, 0.0]})

    with first:
        before = matrices.find(first, SPACE, search)
        store_all(second, {b"b": [1.0, 0.0]}, revision=2)
        newer = matrices.find(second, SPACE, search)
        repeated = matrices.find(first, SPACE, search)

    assert [(b"a", 0.0)] == before == repeated
    assert [(b"a", 0.0), (b"b", 0.0)] == newer


@pytest.mark.parametrize(
    ("vectors", "search", "nearest"),
    [
        (
            {b"b": [1.0, 1e-9], b"a": [1.0, 2e-9], b"c": [1.0, 0.0]},
            Search([1.0, 0.0], Measure.EUCLIDEAN, 2),
            [(b"c", 0.0), (b"b", 1e-9)],
        ),
        (
            {b"big": [1e300, 1e300], b"small": [1.0, 0.0]},
            Search([1.0, 0.0], Measure.DOT_PRODUCT, 1),
            [(b"big", 1e300)],
        ),
    ],
    ids=["finer", "larger"],
)
def test_distances_are_exact_where_float32_is_not(
    connection: apsw.Connection,
    vectors: Vectors,
    search: Search,
    nearest: list[tuple[bytes, float]],
) -> None:
    store_all(connection, vectors)
    assert nearest == Matrices().find(connection, SPACE, search)


def test_many_documents_at_one_distance_come_by_key(connection: apsw.Connection) -> None:
    keys = [f"{number:05}".encode() for number in range(2_000)]
    store_all(connection, {key: [0.6, 0.8] for key in reversed(keys)})
    nearest_documents = Matrices().find(connection, SPACE, Search([0.6, 0.8], Measure.COSINE, 3))
    assert keys[:3] == [key for key, _ in nearest_documents]


def test_a_prefilter_of_few_and_of_many_finds_the_same(connection: apsw.Connection) -> None:
    generator = np.random.default_rng(7)
    rows = generator.normal(size=(500, 16))
    vectors = {f"{number:03}".encode(): row.tolist() for number, row in enumerate(rows)}
    store_all(connection, vectors)
    matrices = Matrices()
    query = generator.normal(size=16).tolist()

    for count in (10, 400):
        keys = list(vectors)[:count]
        nearest_documents = matrices.find(connection, SPACE, Search(query, Measure.COSINE, 5), keys)
        expected = rank({key: vectors[key] for key in keys}, query, Measure.COSINE)[:5]
        assert_equal(expected, nearest_documents)
