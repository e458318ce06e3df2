"""The query recorder of the tests sees queries in every way that they can be run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
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


async def record_async(project: str, run: Any) -> set[QueryShape]:
    """Return the shapes that are recorded while `run` uses an asynchronous client."""
    with record_queries() as shapes:
        await run(AsyncClient(project=project))
    return shapes


def make_nearest_query(query: Any) -> Any:
    """Return a vector query for the nearest neighbour among the results of another query."""
    vector = Vector([1.0, 0.0])
    return query.find_nearest("embedding", vector, limit=1, distance_measure=DistanceMeasure.COSINE)


def test_a_sync_query_is_recorded(client: Client) -> None:
    with record_queries() as shapes:
        list(client.collection("people").where(filter=AGE_FILTER).stream())
    assert shapes == {AGE_QUERY_SHAPE}


def test_get_and_stream_of_an_async_query_are_recorded(project: str) -> None:
    async def run(client: AsyncClient) -> None:
        await client.collection("people").where(filter=AGE_FILTER).get()
        _ = [snapshot async for snapshot in client.collection("people").order_by("age").stream()]

    by_age = QueryShape("people", orders=(SortOrder("age", Direction.ASCENDING),))
    assert asyncio.run(record_async(project, run)) == {AGE_QUERY_SHAPE, by_age}


def test_a_query_in_a_transaction_is_recorded(client: Client) -> None:
    @transactional
    def read(transaction: Any) -> None:
        list(client.collection("people").where(filter=AGE_FILTER).stream(transaction=transaction))

    with record_queries() as shapes:
        read(client.transaction())
    assert shapes == {AGE_QUERY_SHAPE}


def test_a_query_in_an_async_transaction_is_recorded(project: str) -> None:
    async def run(client: AsyncClient) -> None:
        @async_transactional
        async def read(transaction: Any) -> None:
            await client.collection("people").where(filter=AGE_FILTER).get(transaction=transaction)

        await read(client.transaction())

    assert asyncio.run(record_async(project, run)) == {AGE_QUERY_SHAPE}


def test_vector_queries_are_recorded_with_their_prefilter(client: Client, project: str) -> None:
    async def run(client: AsyncClient) -> None:
        await make_nearest_query(client.collection("people").where(filter=AGE_FILTER)).get()

    expected = {QueryShape("people", disjuncts=AGE_DISJUNCTS, nearest=VectorStage("embedding", 2))}
    with record_queries() as shapes:
        make_nearest_query(client.collection("people").where(filter=AGE_FILTER)).get()
    assert shapes == expected
    assert asyncio.run(record_async(project, run)) == expected


def test_aggregations_are_recorded(client: Client, project: str) -> None:
    async def run(client: AsyncClient) -> None:
        await client.collection("people").sum("age").get()

    count, total = (Aggregate("count", None), Aggregate("sum", "age"))
    query: Any = client.collection("people").where(filter=AGE_FILTER).count()
    with record_queries() as shapes:
        query.avg("age").get()
    aggregates = frozenset({count, Aggregate("avg", "age")})
    assert shapes == {QueryShape("people", disjuncts=AGE_DISJUNCTS, aggregates=aggregates)}
    expected = QueryShape("people", aggregates=frozenset({total}))
    assert asyncio.run(record_async(project, run)) == {expected}


def test_a_query_of_a_collection_group_is_recorded(client: Client) -> None:
    with record_queries() as shapes:
        list(client.collection_group("people").stream())
    assert shapes == {QueryShape("people", QueryScope.COLLECTION_GROUP)}


def test_limit_to_last_is_recorded_in_reversed_order(client: Client) -> None:
    with record_queries() as shapes:
        client.collection("people").order_by("age").limit_to_last(1).get()
    assert shapes == {QueryShape("people", orders=(SortOrder("age", Direction.DESCENDING),))}


def test_an_outer_recording_does_not_see_an_inner_one(client: Client) -> None:
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
    lines = [line for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    assert len(lines) == 1
    assert read_shapes(tmp_path) == {
        QueryShape("people", orders=(SortOrder("age", Direction.ASCENDING),))
    }


def test_a_served_function_writes_its_shapes(project: str, tmp_path: Path) -> None:
    """Tests start functions with a launcher that records queries."""
    variables = {"GOOGLE_CLOUD_PROJECT": project, DIRECTORY_VARIABLE: str(tmp_path)}
    with serve_tools(["get_recent"], variables) as processes:
        caller = {"user_id": None, "tier": "public"}
        request = {"call_id": "c", "arguments": {}, "caller": caller, "deadline": time.time() + 60}
        url = processes.servers["get_recent"].url
        headers = {"authorization": f"Bearer {processes.secret}"}
        assert httpx2.post(url, json=request, headers=headers, timeout=60).status_code == 200
    assert read_shapes(tmp_path)
