"""The database: counting, write conflicts and errors."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.firestore import LastUpdateOption
from google.cloud.firestore_v1.base_query import FieldFilter

from shared.core.errors import PlatformFault, Unavailable
from shared.firestore.database import WriteConflict
from shared.runtime.context import App
from tests.support.ports import find_free_port

if TYPE_CHECKING:
    from google.cloud.firestore import AsyncDocumentReference

    from shared.core.meter import Meter
    from shared.core.settings import Settings
    from shared.firestore.database import Database, Write
    from shared.runtime.context import Context
    from tests.support.monotonic_clock import MonotonicClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def database(ctx: Context) -> Database:
    """A database that counts in `meter`."""
    return ctx.database


def get_reference(database: Database, name: str) -> AsyncDocumentReference:
    return database.document("notes", name)


def make_write(database: Database, name: str, value: int) -> Write:
    return lambda batch: batch.set(get_reference(database, name), {"value": value})


async def put_in(database: Database, *names: str) -> None:
    """Store notes of value 0 without the meter."""
    for name in names:
        await get_reference(database, name).set({"value": 0})


async def read_values(database: Database) -> dict[str, int]:
    snapshots = database.collection("notes").stream()
    return {snapshot.id: snapshot.get("value") async for snapshot in snapshots}


def get_counts(meter: Meter) -> tuple[int, int, int]:
    """Return documents read, documents written and round trips."""
    return meter.documents_read, meter.documents_written, meter.round_trips


async def test_sequential_requests_add_round_trips(database: Database, meter: Meter) -> None:
    await database.get(get_reference(database, "a"))
    await database.get(get_reference(database, "b"))
    assert get_counts(meter) == (2, 0, 2)


async def test_concurrent_requests_are_one_round_trip(database: Database, meter: Meter) -> None:
    await asyncio.gather(*(database.get(get_reference(database, name)) for name in "abc"))
    assert get_counts(meter) == (3, 0, 1)


async def test_a_failed_request_is_counted(database: Database, meter: Meter) -> None:
    with pytest.raises(PlatformFault):
        await database.get(get_reference(database, "__reserved__"))
    await database.get(get_reference(database, "a"))
    assert get_counts(meter) == (2, 0, 2)


async def test_many_documents_are_one_round_trip(database: Database, meter: Meter) -> None:
    await put_in(database, "a", "b")
    snapshots = await database.get_all([get_reference(database, name) for name in "axb"], ["value"])
    assert {snapshot.id for snapshot in snapshots} == {"a", "b"}
    assert get_counts(meter) == (3, 0, 1)


async def test_no_documents_need_no_request(database: Database, meter: Meter) -> None:
    assert await database.get_all([]) == []
    assert await database.commit([]) == []
    assert await database.commit_skipping_conflicts([]) == 0
    assert get_counts(meter) == (0, 0, 0)


async def test_a_query_costs_at_least_one_read(database: Database, meter: Meter) -> None:
    await put_in(database, "a", "b", "c")
    assert len(await database.find(database.collection("notes").limit(2))) == 2
    assert await database.find(database.collection("nothing").limit(2)) == []
    assert get_counts(meter) == (3, 0, 2)


async def test_counting_reads_no_documents(database: Database, meter: Meter) -> None:
    await put_in(database, *"abcdefgh")
    query = database.collection("notes").where(filter=FieldFilter("value", "==", 0))
    assert await database.count(query) == 8
    assert get_counts(meter) == (1, 0, 1)


async def test_a_commit_is_one_round_trip(database: Database, meter: Meter) -> None:
    await database.commit(make_write(database, name, 1) for name in "abc")
    assert await read_values(database) == {"a": 1, "b": 1, "c": 1}
    assert get_counts(meter) == (0, 3, 1)


async def test_a_commit_returns_its_update_time(database: Database) -> None:
    [result] = await database.commit([make_write(database, "a", 1)])
    assert result.update_time == (await database.get(get_reference(database, "a"))).update_time


async def test_a_refused_commit_writes_nothing_and_counts_nothing(
    database: Database, meter: Meter
) -> None:
    await put_in(database, "b")
    with pytest.raises(WriteConflict):
        await database.commit(
            [
                make_write(database, "a", 1),
                lambda batch: batch.create(get_reference(database, "b"), {"value": 1}),
            ]
        )
    assert await read_values(database) == {"b": 0}
    assert meter.documents_written == 0


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_a_document_changed_since_its_read_is_a_conflict(
    database: Database, *, is_deleted: bool
) -> None:
    await put_in(database, "a")
    option = LastUpdateOption((await database.get(get_reference(database, "a"))).update_time)
    await (
        get_reference(database, "a").delete()
        if is_deleted
        else get_reference(database, "a").set({"value": 1})
    )
    with pytest.raises(WriteConflict):
        await database.commit(
            [lambda batch: batch.update(get_reference(database, "a"), {"value": 2}, option)]
        )


async def test_only_conflicting_writes_are_skipped(database: Database, meter: Meter) -> None:
    names = "abcdefgh"
    await put_in(database, *names)
    read = [await get_reference(database, name).get() for name in names]
    await get_reference(database, "b").set({"value": 1})
    await get_reference(database, "g").delete()
    committed_count = await database.commit_skipping_conflicts(
        [_update(database, snapshot) for snapshot in read]
    )
    expected = dict.fromkeys("acdefh", 2) | {"b": 1}
    assert committed_count == 6
    assert await read_values(database) == expected
    assert meter.documents_written == 6


def _update(database: Database, snapshot: Any) -> Write:
    option = LastUpdateOption(snapshot.update_time)
    return lambda batch: batch.update(get_reference(database, snapshot.id), {"value": 2}, option)


async def test_an_invalid_write_is_a_fault(database: Database) -> None:
    with pytest.raises(PlatformFault, match="The database refused: InvalidArgument"):
        await database.commit([make_write(database, "__reserved__", 1)])


async def test_commits_of_one_run_are_sequential(database: Database, meter: Meter) -> None:
    await asyncio.gather(*(database.commit([make_write(database, name, 1)]) for name in "abc"))
    assert get_counts(meter) == (0, 3, 3)


async def test_a_database_that_does_not_answer_is_unavailable(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, monotonic: MonotonicClock
) -> None:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"127.0.0.1:{find_free_port()}")
    app = App(settings)
    monotonic.advance_soon(3)
    with pytest.raises(Unavailable, match="does not answer") as caught:
        await app.ping()
    await app.aclose()
    assert caught.value.retry_after == 5
