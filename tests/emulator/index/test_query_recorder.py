"""The query recorder sees a query in whichever way it is sent.

It records the shape of a query: the fields by which the query filters and sorts, without values.
The index proof derives from it the index that the query needs.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from google.api_core.exceptions import FailedPrecondition
from google.cloud.firestore import (
    AsyncClient,
    Client,
    FieldFilter,
    async_transactional,
    transactional,
)
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector

from infra.build.query_shape import (
    Aggregate,
    Comparison,
    Direction,
    Filter,
    QueryScope,
    QueryShape,
    SortOrder,
    VectorStage,
)
from infra.local.tool_processes import serve_tools
from tests.support.query_recorder import DIRECTORY_VARIABLE, read_shapes, record_queries

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

AGE_FILTER = FieldFilter("age", ">", 90)
AGE_DISJUNCTS = frozenset({frozenset({Filter("age", Comparison.RANGE)})})
AGE_QUERY_SHAPE = QueryShape("people", disjuncts=AGE_DISJUNCTS)

RUN_IN_ANOTHER_PROCESS = """
import sys
import time
from google.cloud.firestore import Client
from tests.support.query_recorder import record_to_directory
record_to_directory()
for _ in range(2):
    list(Client(project=sys.argv[1]).collection("people").order_by("age").stream())
"""


@pytest.fixture
def client(project: str) -> Client:
    """A client of the emulator."""
    return Client(project=project)


def record_async(
    project: str, send_queries: Callable[[AsyncClient], Awaitable[None]]
) -> set[QueryShape]:
    """Return the shapes of queries that a function sends with an asynchronous client."""

    async def record() -> set[QueryShape]:
        with record_queries() as shapes:
            await send_queries(AsyncClient(project=project))
        return shapes

    return asyncio.run(record())


def make_nearest_query(query: Any) -> Any:
    """Return a vector query for the nearest neighbour among the results of another query."""
    vector = Vector([1.0, 0.0])
    return query.find_nearest("embedding", vector, limit=1, distance_measure=DistanceMeasure.COSINE)


def test_a_sync_query_is_recorded(client: Client) -> None:
    with record_queries() as shapes:
        list(client.collection("people").where(filter=AGE_FILTER).stream())
    assert shapes == {AGE_QUERY_SHAPE}


def test_get_and_stream_of_an_async_query_are_recorded(project: str) -> None:
    async def send_queries(client: AsyncClient) -> None:
        await client.collection("people").where(filter=AGE_FILTER).get()
        _ = [snapshot async for snapshot in client.collection("people").order_by("age").stream()]

    by_age = QueryShape("people", orders=(SortOrder("age", Direction.ASCENDING),))
    assert record_async(project, send_queries) == {AGE_QUERY_SHAPE, by_age}


def test_a_query_in_a_transaction_is_recorded(client: Client) -> None:
    @transactional
    def read(transaction: Any) -> None:
        list(client.collection("people").where(filter=AGE_FILTER).stream(transaction=transaction))

    with record_queries() as shapes:
        read(client.transaction())
    assert shapes == {AGE_QUERY_SHAPE}


def test_a_query_in_an_async_transaction_is_recorded(project: str) -> None:
    async def send_queries(client: AsyncClient) -> None:
        @async_transactional
        async def read(transaction: Any) -> None:
            await client.collection("people").where(filter=AGE_FILTER).get(transaction=transaction)

        await read(client.transaction())

    assert record_async(project, send_queries) == {AGE_QUERY_SHAPE}


def test_a_vector_query_is_recorded_with_its_filter(client: Client, project: str) -> None:
    """It is recorded although an embedded database lacks the index."""

    async def send_queries(client: AsyncClient) -> None:
        with suppress(FailedPrecondition):
            await make_nearest_query(client.collection("people").where(filter=AGE_FILTER)).get()

    expected = {QueryShape("people", disjuncts=AGE_DISJUNCTS, nearest=VectorStage("embedding", 2))}
    with record_queries() as shapes, suppress(FailedPrecondition):
        make_nearest_query(client.collection("people").where(filter=AGE_FILTER)).get()
    assert shapes == expected
    assert record_async(project, send_queries) == expected


def test_aggregations_are_recorded(client: Client, project: str) -> None:
    async def send_queries(client: AsyncClient) -> None:
        await client.collection("people").sum("age").get()

    query: Any = client.collection("people").where(filter=AGE_FILTER).count()
    with record_queries() as shapes:
        query.avg("age").get()
    aggregates = frozenset({Aggregate("count", None), Aggregate("avg", "age")})
    assert shapes == {QueryShape("people", disjuncts=AGE_DISJUNCTS, aggregates=aggregates)}

    expected = QueryShape("people", aggregates=frozenset({Aggregate("sum", "age")}))
    assert record_async(project, send_queries) == {expected}


def test_a_query_of_a_collection_group_is_recorded(client: Client) -> None:
    with record_queries() as shapes:
        list(client.collection_group("people").stream())
    assert shapes == {QueryShape("people", QueryScope.COLLECTION_GROUP)}


def test_limit_to_last_is_recorded_in_reversed_order(client: Client) -> None:
    with record_queries() as shapes:
        client.collection("people").order_by("age").limit_to_last(1).get()
    assert shapes == {QueryShape("people", orders=(SortOrder("age", Direction.DESCENDING),))}


def test_an_outer_recording_excludes_queries_of_an_inner_one(client: Client) -> None:
    with record_queries() as outer:
        with record_queries():
            list(client.collection("people").stream())
        list(client.collection("people").where(filter=AGE_FILTER).stream())
    assert outer == {AGE_QUERY_SHAPE}


@pytest.mark.slow
def test_another_process_writes_its_shapes_to_a_directory(project: str, tmp_path: Path) -> None:
    environment = os.environ | {DIRECTORY_VARIABLE: str(tmp_path)}
    command = [sys.executable, "-c", RUN_IN_ANOTHER_PROCESS, project]
    subprocess.run(command, env=environment, check=True)
    [file] = tmp_path.iterdir()
    assert len(file.read_text().splitlines()) == 1  # although the query was sent twice
    assert read_shapes(tmp_path) == {
        QueryShape("people", orders=(SortOrder("age", Direction.ASCENDING),))
    }


def test_a_served_function_writes_its_shapes(project: str, tmp_path: Path) -> None:
    """Tests start a function in a process of its own, with a launcher that records queries."""
    variables = {"GOOGLE_CLOUD_PROJECT": project, DIRECTORY_VARIABLE: str(tmp_path)}
    with serve_tools(["get_recent"], variables) as processes:
        caller = {"user_id": None, "tier": "public"}
        request = {"call_id": "c", "arguments": {}, "caller": caller, "deadline": time.time() + 60}
        url = processes.servers["get_recent"].url
        headers = {"authorization": f"Bearer {processes.secret}"}
        assert httpx2.post(url, json=request, headers=headers, timeout=60).status_code == 200
    assert read_shapes(tmp_path)
