"""A lease is the right of one run to work as a job: a run that has lost its lease cannot write.

Each commit of a run renews its lease, on the condition that no other run has taken the lease.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from google.api_core.exceptions import ServiceUnavailable

from shared.core.caller import Caller
from shared.core.dates import utc_now
from shared.core.errors import Unavailable
from shared.core.meter import Meter
from shared.firestore.database import Database, Lease, LeaseLost, WriteConflict
from shared.firestore.documents import Reference
from shared.firestore.leases import Leases
from shared.firestore.writes import Create, Set, Write
from shared.runtime.context import App, Context
from tests.support.clock import NOON, SettableClock

LATER = NOON + timedelta(minutes=5)
"""A time at which a lease of 30 seconds that was acquired at noon has expired."""


@pytest.fixture
def database(ctx: Context) -> Database:
    """The database of one run."""
    return ctx.database


@pytest.fixture
def other(app: App) -> Database:
    """The database of another run."""
    return app.context(Caller(), Meter()).database


def make_write(name: str) -> Write:
    """Return a write of a note."""
    return Set(Reference("notes", name), {})


async def read_expiry(database: Database) -> datetime | None:
    """Return when the lease of `embed` expires, or None if there is no lease."""
    snapshot = await database.connection.client.document("leases/embed").get()
    expires_at: datetime | None = snapshot.get("expires_at") if snapshot.exists else None
    return expires_at


async def read_notes(database: Database) -> set[str]:
    """Return the names of the notes that were written."""
    return {
        snapshot.id async for snapshot in database.connection.client.collection("notes").stream()
    }


async def test_a_lease_is_acquired_for_its_duration(database: Database, other: Database) -> None:
    clock = SettableClock(NOON)
    assert isinstance(await Leases(database).acquire("embed", 30, clock), Lease)
    expiry = NOON + timedelta(seconds=30)
    assert await read_expiry(database) == expiry
    await Leases(other).release()  # it has none
    clock.advance(seconds=29.999)
    assert await Leases(other).acquire("embed", 60, clock) == expiry
    assert isinstance(await Leases(other).acquire("ingest", 30, clock), Lease)  # another job's
    clock.now = expiry
    assert isinstance(await Leases(other).acquire("embed", 30, clock), Lease)
    assert await read_expiry(database) == expiry + timedelta(seconds=30)


@pytest.mark.parametrize("is_taken_over", [False, True])
async def test_only_one_of_many_concurrent_runs_gets_the_lease(
    app: App, database: Database, *, is_taken_over: bool
) -> None:
    if is_taken_over:
        await Leases(database).acquire("embed", 30, SettableClock(NOON))
    databases = [app.context(Caller(), Meter()).database for _ in range(5)]
    leases = await asyncio.gather(
        *(Leases(database).acquire("embed", 30, SettableClock(LATER)) for database in databases)
    )
    assert sum(isinstance(lease, Lease) for lease in leases) == 1


async def test_a_commit_renews_the_lease_with_one_more_write(
    database: Database, meter: Meter
) -> None:
    """Also an expired lease, which stays valid until another run takes it."""
    clock = SettableClock(NOON)
    await Leases(database).acquire("embed", 30, clock)
    for moment in (NOON + timedelta(seconds=20), LATER):
        clock.now = moment
        written_before = meter.documents_written
        await database.commit([make_write("a")])
        assert await read_expiry(database) == moment + timedelta(seconds=30)
        note, lease = 1, 1
        assert meter.documents_written - written_before == note + lease


async def test_a_run_without_its_lease_writes_nothing(database: Database, other: Database) -> None:
    await Leases(database).acquire("embed", 30, SettableClock(NOON))
    await database.commit([make_write("before")])
    await Leases(other).acquire("embed", 30, SettableClock(LATER))
    with pytest.raises(LeaseLost, match="Another run holds the lease of embed"):
        await database.commit([make_write("after")])
    with pytest.raises(LeaseLost):
        await database.commit_skipping_conflicts([make_write("after"), make_write("last")])
    assert await read_notes(database) == {"before"}


@pytest.mark.parametrize("is_released", [True, False])
async def test_a_lost_lease_stays_lost(
    database: Database, other: Database, *, is_released: bool
) -> None:
    await Leases(database).acquire("embed", 30, SettableClock(NOON))
    await Leases(other).acquire("embed", 30, SettableClock(LATER))
    if is_released:
        await Leases(other).release()
        with pytest.raises(LeaseLost):
            await database.commit([make_write("after")])
    else:
        await Leases(database).release()  # leaves the lease to its new holder
        assert await read_expiry(database) == LATER + timedelta(seconds=30)
        await other.commit([make_write("a")])


async def test_a_write_conflict_is_not_a_lost_lease(database: Database) -> None:
    await Leases(database).acquire("embed", 30, SettableClock(NOON))
    reference = Reference("notes", "a")
    await database.connection.client.document(reference.path).set({})
    with pytest.raises(WriteConflict):
        await database.commit([Create(reference, {})])
    await database.commit([make_write("b")])
    assert await read_notes(database) == {"a", "b"}


async def test_concurrent_commits_all_renew_the_lease(database: Database) -> None:
    await Leases(database).acquire("embed", 30, SettableClock(NOON))
    await asyncio.gather(*(database.commit([make_write(name)]) for name in "abcd"))
    assert await read_notes(database) == set("abcd")


async def test_a_released_lease_is_deleted_and_free(database: Database, other: Database) -> None:
    await Leases(database).acquire("embed", 30, SettableClock(NOON))
    await database.commit([make_write("a")])
    await Leases(database).release()
    assert await read_expiry(database) is None
    assert isinstance(await Leases(other).acquire("embed", 30, SettableClock(NOON)), Lease)


def lose_answers(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose the answers of commits, so that Google's client sends each commit twice."""
    api = database.connection.client._firestore_api  # noqa: SLF001 - where the network begins
    commit = api.commit

    async def commit_twice(**request: Any) -> Any:
        await commit(**request)
        return await commit(**request)

    monkeypatch.setattr(api, "commit", commit_twice)


async def test_a_commit_with_a_lost_answer_succeeds(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(database, monkeypatch)
    assert isinstance(await Leases(database).acquire("embed", 30, utc_now), Lease)
    for name in "ab":
        update_time = await database.commit([make_write(name)])
        assert update_time == (await database.get(Reference("notes", name))).update_time
    assert await read_notes(database) == {"a", "b"}


async def test_commits_after_a_lost_answer_succeed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Leases(database).acquire("embed", 30, utc_now)
    api = database.connection.client._firestore_api  # noqa: SLF001 - where the network begins
    commit = api.commit

    async def commit_without_answer(**request: Any) -> Any:
        await commit(**request)
        raise ServiceUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(api, "commit", commit_without_answer)
        with pytest.raises(Unavailable):
            await database.commit([make_write("unanswered")])

    await database.commit([make_write("a")])
    await database.commit([make_write("b")])
    assert await read_notes(database) == {"unanswered", "a", "b"}
