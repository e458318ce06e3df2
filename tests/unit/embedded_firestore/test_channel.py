"""Google's client over the channel: its errors, time limits and what is not supported."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.api_core.exceptions import (
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    MethodNotImplemented,
    NotFound,
)
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.services.firestore import FirestoreAsyncClient
from google.cloud.firestore_v1.types import BatchWriteRequest
from google.protobuf.timestamp_pb2 import Timestamp

from infra.local.embedded_firestore.channel import InProcessChannel
from infra.local.embedded_firestore.databases import Databases
from infra.local.embedded_firestore.definitions import Definitions


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[Databases]:
    databases = Databases(tmp_path, lambda _: Definitions(), durable=False)
    yield databases
    databases.close()


@pytest.fixture
def client(databases: Databases) -> AsyncClient:
    return databases.make_client("p")


def test_the_client_takes_our_channel(client: AsyncClient) -> None:
    """The attribute is private to Google's client, so a new version may change it."""
    api = client._firestore_api  # noqa: SLF001
    assert isinstance(api, FirestoreAsyncClient)
    assert isinstance(vars(api.transport)["_grpc_channel"], InProcessChannel)


async def test_errors_are_those_of_grpc_and_name_what_is_not_supported(
    client: AsyncClient,
) -> None:
    with pytest.raises(NotFound, match="No document to update") as raised:
        await client.document("c/x").update({"a": 1})
    assert isinstance(raised.value.__cause__, grpc.aio.AioRpcError)
    with pytest.raises(MethodNotImplemented, match="does not support BatchWrite"):
        await client._firestore_api.batch_write(BatchWriteRequest())  # noqa: SLF001
    with pytest.raises(MethodNotImplemented, match="read_time"):
        await client.collection("c").limit(1).get(read_time=Timestamp(seconds=1))
    with pytest.raises(FailedPrecondition, match='"collectionGroup": "c"'):
        await client.collection("c").order_by("a").order_by("b").get()
    other = AsyncClient(project="other", credentials=AnonymousCredentials())
    name = FieldFilter("__name__", "==", other.document("c/x"))
    with pytest.raises(InvalidArgument):
        await client.collection("c").where(filter=name).get()


async def test_another_database_is_another_file(databases: Databases) -> None:
    await databases.make_client("p").document("c/x").set({"a": 1})
    snapshot = await databases.make_client("p", "access").document("c/x").get()
    assert not snapshot.exists


async def test_a_commit_has_its_own_time_limit(databases: Databases, client: AsyncClient) -> None:
    """It may still be done, as one whose answer is lost on the way."""
    store = databases.open("p").store
    other = store.connect()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DeadlineExceeded):
        await client.document("c/x").set({"a": 1}, timeout=0.01, retry=None)
    other.execute("ROLLBACK")
    other.close()
    await client.document("c/y").set({"a": 1})
    assert (await client.document("c/x").get()).exists


async def test_a_cancelled_commit_is_whole(client: AsyncClient) -> None:
    batch = client.batch()
    for name in "xy":
        batch.set(client.document(f"c/{name}"), {"a": 1})
    task = asyncio.ensure_future(batch.commit())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await client.document("c/z").set({"a": 1})
    stored = [snapshot.id for snapshot in await client.collection("c").get()]
    assert stored in (["z"], ["x", "y", "z"])
