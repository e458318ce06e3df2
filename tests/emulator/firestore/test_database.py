"""`Database` counts what each request costs, and reports write conflicts and errors."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest
from google.cloud.firestore import AsyncDocumentReference

from shared.core.errors import PlatformFault, Unavailable
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.core.target import choose_target
from shared.firestore.database import Database, WriteConflict
from shared.firestore.documents import Reference
from shared.firestore.queries import Query
from shared.firestore.writes import Create, Set, Write, put_if_unchanged
from shared.runtime.context import App, Context
from tests.support.monotonic_clock import MonotonicClock
from tests.support.ports import find_free_port


class Counts(NamedTuple):
    """What the requests of a test have cost."""

    read: int = 0
    written: int = 0
    round_trips: int = 0


@pytest.fixture
def database(ctx: Context) -> Database:
    """A database that counts in `meter`."""
    return ctx.database


def get_reference(name: str) -> Reference:
    """Return the address of a note."""
    return Reference("notes", name)


def get_raw(database: Database, name: str) -> AsyncDocumentReference:
    """Return the note of Google's client, whose requests the meter does not count."""
    return database.connection.client.document(f"notes/{name}")


def make_write(name: str, value: int) -> Write:
    """Return a write that sets the value of a note."""
    return Set(get_reference(name), {"value": value})


async def store_notes(database: Database, *names: str) -> None:
    """Store notes with the value 0. The meter does not count them."""
    for name in names:
        await get_raw(database, name).set({"value": 0})


async def read_values(database: Database) -> dict[str, int]:
    """Return the value of each note. The meter does not count the read."""
    snapshots = database.connection.client.collection("notes").stream()
    return {snapshot.id: snapshot.get("value") async for snapshot in snapshots}


def get_counts(meter: Meter) -> Counts:
    """Return what a meter has counted."""
    return Counts(meter.documents_read, meter.documents_written, meter.round_trips)


async def fail_to_read(database: Database) -> None:
    """Read a document of a name that Firestore refuses."""
    with pytest.raises(PlatformFault):
        await database.get(get_reference("__reserved__"))


@pytest.mark.parametrize(
    ("request_all", "counts"),
    [
        ([lambda db: db.get(get_reference("a"))] * 2, Counts(read=2, round_trips=2)),
        (
            [lambda db: asyncio.gather(*(db.get(get_reference(name)) for name in "abc"))],
            Counts(read=3, round_trips=1),
        ),
        ([fail_to_read, lambda db: db.get(get_reference("a"))], Counts(read=2, round_trips=2)),
        (
            [lambda db: db.get_all([get_reference(name) for name in "axb"], ["value"])],
            Counts(read=3, round_trips=1),
        ),
        (
            [
                lambda db: db.get_all([]),
                lambda db: db.commit([]),
                lambda db: db.commit_skipping_conflicts([]),
            ],
            Counts(),
        ),
        ([lambda db: db.find(Query("notes").limit(2))], Counts(read=2, round_trips=1)),
        ([lambda db: db.find(Query("nothing").limit(2))], Counts(read=1, round_trips=1)),
        (
            [lambda db: db.count(Query("notes").where("value", "==", 0))],
            Counts(read=1, round_trips=1),
        ),
        (  # commits are sent one by one
            [lambda db: asyncio.gather(*(db.commit([make_write(name, 1)]) for name in "abc"))],
            Counts(written=3, round_trips=3),
        ),
    ],
)
async def test_requests_cost_reads_writes_and_round_trips(
    database: Database,
    meter: Meter,
    request_all: list[Callable[[Database], Awaitable[object]]],
    counts: Counts,
) -> None:
    await store_notes(database, "a", "b", "c")
    for request in request_all:
        await request(database)
    assert get_counts(meter) == counts


async def test_reads_find_the_documents_that_there_are(database: Database) -> None:
    await store_notes(database, *"abcdefgh")
    snapshots = await database.get_all([get_reference(name) for name in "axb"], ["value"])
    assert {snapshot.id for snapshot in snapshots} == {"a", "b"}
    assert len(await database.find(Query("notes").limit(2))) == 2
    assert await database.count(Query("notes").where("value", "==", 0)) == 8
    assert await database.get_all([]) == []
    assert await database.commit([]) is None
    assert await database.commit_skipping_conflicts([]) == 0


async def test_a_commit_costs_one_round_trip(database: Database, meter: Meter) -> None:
    update_time = await database.commit(make_write(name, 1) for name in "abc")
    assert await read_values(database) == {"a": 1, "b": 1, "c": 1}
    assert get_counts(meter) == Counts(written=3, round_trips=1)
    assert update_time == (await database.get(get_reference("a"))).update_time
    with pytest.raises(PlatformFault, match="The database refused: InvalidArgument"):
        await database.commit([make_write("__reserved__", 1)])


async def test_a_refused_commit_writes_and_counts_nothing(database: Database, meter: Meter) -> None:
    await store_notes(database, "b")
    writes: list[Write] = [make_write("a", 1), Create(get_reference("b"), {"value": 1})]
    with pytest.raises(WriteConflict):
        await database.commit(writes)
    assert await read_values(database) == {"b": 0}
    assert meter.documents_written == 0


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_a_document_changed_since_its_read_is_a_conflict(
    database: Database, *, is_deleted: bool
) -> None:
    await store_notes(database, "a")
    document = await database.get(get_reference("a"))
    if is_deleted:
        await get_raw(database, "a").delete()
    else:
        await get_raw(database, "a").set({"value": 1})
    with pytest.raises(WriteConflict):
        await database.commit([put_if_unchanged(document, {"value": 2})])


async def test_only_conflicting_writes_are_skipped(database: Database, meter: Meter) -> None:
    names = "abcdefgh"
    await store_notes(database, *names)
    documents = await database.get_all([get_reference(name) for name in names])
    await get_raw(database, "b").set({"value": 1})
    await get_raw(database, "g").delete()
    writes = [put_if_unchanged(document, {"value": 2}) for document in documents]
    assert await database.commit_skipping_conflicts(writes) == 6
    assert await read_values(database) == dict.fromkeys("acdefh", 2) | {"b": 1}
    assert meter.documents_written == 6


async def test_a_database_that_does_not_answer_is_unavailable(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, monotonic: MonotonicClock
) -> None:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"127.0.0.1:{find_free_port()}")
    choose_target(None)
    app = App(settings)
    monotonic.advance_soon(3)  # seconds, after which a ping gives up
    with pytest.raises(Unavailable, match="does not answer") as caught:
        await app.ping()
    await app.aclose()
    assert caught.value.retry_after == 5
