"""Random requests have the same answers from the embedded Firestore and from Google's emulator."""

import math
import os
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

import hypothesis
import pytest
from google.cloud.firestore import AsyncClient

from infra.local.embedded_firestore.databases import Databases
from tests.emulator.embedded_firestore.deviations import DEVIATIONS
from tests.support.embedded_database import open_any_index
from tests.support.emulator import make_oracle_client
from tests.support.firestore_programs import PROGRAMS
from tests.support.firestore_requests import Commit, Query, Request, Sender, Vector, Write

PROGRAM_COUNT: Final = 60
"""The number of random programs. They are the same in each run of one version."""
FURTHER_PROGRAM_COUNT: Final = int(os.environ.get("PROGRAMS", "0"))
"""The number of further programs, for whoever changes the database or the emulator's version.

    make test-slow PROGRAMS=2000 ARGS='--hypothesis-seed=7 tests/emulator/embedded_firestore'

They are no part of other runs: what they find is a way of the emulator's, not a fault of a change.
"""
_PHASES: Final = (hypothesis.Phase.generate,)
"""A failure names the request that differs, so programs need not be shrunk, which takes minutes."""


@pytest.fixture(scope="module")
async def emulator() -> AsyncIterator[AsyncClient]:
    client = make_oracle_client("differential")
    yield client
    await client._firestore_api.transport.close()  # noqa: SLF001 - there is no public one


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    with open_any_index(tmp_path_factory.mktemp("differential")) as databases:
        yield databases


async def compare(program: Sequence[Request], emulator: AsyncClient, databases: Databases) -> None:
    """Send a program to both databases until a known deviation, and compare the answers."""
    project = f"test-{uuid.uuid4().hex[:16]}"
    oracle = Sender(emulator._firestore_api, project)  # noqa: SLF001 - there is no public one
    tested = Sender(databases.make_client(project)._firestore_api, project)  # noqa: SLF001 - there is no public one
    for request in program:
        expected, actual = await oracle.send(request), await tested.send(request)
        if expected != actual and any(
            is_known(request, expected, actual, oracle.message) for is_known in DEVIATIONS.values()
        ):
            return
        assert expected == actual, (request, oracle.message, tested.message)


@hypothesis.settings(max_examples=PROGRAM_COUNT, phases=_PHASES)
@hypothesis.given(program=PROGRAMS)
async def test_answers_as_the_emulator(
    program: Sequence[Request], emulator: AsyncClient, databases: Databases
) -> None:
    await compare(program, emulator, databases)


@pytest.mark.slow
@pytest.mark.skipif(not FURTHER_PROGRAM_COUNT, reason="PROGRAMS is not set")
@hypothesis.settings(max_examples=FURTHER_PROGRAM_COUNT or 1, phases=_PHASES)
@hypothesis.given(program=PROGRAMS)
async def test_answers_other_requests_as_the_emulator(
    program: Sequence[Request], emulator: AsyncClient, databases: Databases
) -> None:
    await compare(program, emulator, databases)


@pytest.mark.parametrize("orders", [(), (("a", True),), (("b", False),), (("__name__", True),)])
@pytest.mark.parametrize(
    "where",
    [
        ("b", "EQUAL", None),
        ("b", "EQUAL", math.nan),
        ("b", "NOT_EQUAL", None),
        ("b", "NOT_EQUAL", math.nan),
        ("b", "LESS_THAN_OR_EQUAL", None),
        ("b", "GREATER_THAN_OR_EQUAL", math.nan),
        ("b", "IN", [None, math.nan, "a"]),
        ("b", "NOT_IN", [None, "a"]),
        ("AND", [("a", "EQUAL", 2), ("b", "NOT_IN", [None])]),
        ("AND", [("a", "EQUAL", 2), ("b", "LESS_THAN", None)]),
        ("AND", [("a", "IN", [2]), ("b", "NOT_IN", ["x"])]),
        ("b", "NOT_IN", [math.nan, "a"]),
        ("b", "IS_NULL"),
        ("b", "IS_NAN"),
        ("b", "IS_NOT_NULL"),
        ("b", "IS_NOT_NAN"),
        ("AND", [("b", "NOT_EQUAL", "a"), ("b", "NOT_EQUAL", "a")]),
        ("OR", [("b", "NOT_EQUAL", "a"), ("b", "NOT_EQUAL", "a")]),
        ("AND", [("t", "ARRAY_CONTAINS_ANY", [1, 2]), ("t", "ARRAY_CONTAINS_ANY", [1, 2])]),
        ("AND", [("t", "ARRAY_CONTAINS", 1), ("t", "ARRAY_CONTAINS_ANY", [1])]),
    ],
    ids=str,
)
async def test_rare_filters_find_what_they_find_in_the_emulator(
    where: Any, orders: tuple[tuple[str, bool], ...], emulator: AsyncClient, databases: Databases
) -> None:
    documents: list[dict[str, Any]] = [
        {"b": None},
        {"b": math.nan},
        {"b": "a", "t": [1, 2]},
        {"b": [], "t": [2]},
        {},
    ]
    writes = [
        Write(f"c/{number}", {"a": number, **document}) for number, document in enumerate(documents)
    ]
    await compare(
        [Commit(tuple(writes)), Query("", "c", where=where, orders=orders)], emulator, databases
    )


@pytest.mark.parametrize(
    "where", [("b", "NOT_IN", [None]), ("b", "IN", [None, math.nan]), ("b", "EQUAL", None)], ids=str
)
async def test_no_vector_is_near_if_nothing_meets_the_filter(
    where: Any, emulator: AsyncClient, databases: Databases
) -> None:
    writes = (Write("c/1", {"b": 1, "e": Vector((1.0, 0.0))}), Write("c/2", {"b": None}))
    nearest = ("e", Vector((1.0, 1.0)), 2, 5, "distance", None)
    await compare(
        [Commit(writes), Query("", "c", where=where, nearest=nearest)], emulator, databases
    )
