"""A lease is the right of one run to work as a job: a run that has lost its lease cannot write.

Each commit of a run renews its lease, on the condition that no other run has taken the lease.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
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

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)
"""A time at which a lease of 30 seconds that was acquired at noon has expired."""


def noon() -> datetime:
    """Return noon, as a clock."""
    return NOON


def later() -> datetime:
    """Return the later time, as a clock."""
    return LATER


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


async def test_a_free_lease_is_acquired_for_its_duration(database: Database) -> None:
    assert isinstance(await Leases(database).acquire("embed", 30, noon), Lease)
    assert await read_expiry(database) == NOON + timedelta(seconds=30)


async def test_a_run_that_gets_no_lease_gets_its_expiry_time(
    database: Database, other: Database
) -> None:
    await Leases(database).acquire("embed", 30, noon)
    assert await Leases(other).acquire("embed", 60, noon) == NOON + timedelta(seconds=30)


async def test_only_one_of_many_concurrent_runs_gets_the_lease(app: App) -> None:
    databases = [app.context(Caller(), Meter()).database for _ in range(5)]
    leases = await asyncio.gather(
        *(Leases(database).acquire("embed", 30, noon) for database in databases)
    )
    assert sum(isinstance(lease, Lease) for lease in leases) == 1


async def test_leases_of_different_jobs_are_independent(
    database: Database, other: Database
) -> None:
    await Leases(database).acquire("embed", 30, noon)
    assert isinstance(await Leases(other).acquire("ingest", 30, noon), Lease)


async def test_an_expired_lease_is_taken_over(database: Database, other: Database) -> None:
    await Leases(database).acquire("embed", 30, noon)
    assert isinstance(await Leases(other).acquire("embed", 30, later), Lease)
    assert await read_expiry(database) == LATER + timedelta(seconds=30)


async def test_only_one_of_many_concurrent_takeovers_succeeds(database: Database, app: App) -> None:
    await Leases(database).acquire("embed", 30, noon)
    databases = [app.context(Caller(), Meter()).database for _ in range(5)]
    leases = await asyncio.gather(
        *(Leases(database).acquire("embed", 30, later) for database in databases)
    )
    assert sum(isinstance(lease, Lease) for lease in leases) == 1


async def test_a_commit_renews_the_lease_with_one_more_write(ctx: Context, meter: Meter) -> None:
    database = ctx.database
    times = iter([NOON, NOON + timedelta(seconds=20)])
    await Leases(database).acquire("embed", 30, lambda: next(times))
    written_before = meter.documents_written
    await database.commit([make_write("a")])
    assert await read_expiry(database) == NOON + timedelta(seconds=20 + 30)
    note, lease = 1, 1
    assert meter.documents_written - written_before == note + lease


async def test_a_run_without_its_lease_writes_nothing(database: Database, other: Database) -> None:
    await Leases(database).acquire("embed", 30, noon)
    await database.commit([make_write("before")])
    await Leases(other).acquire("embed", 30, later)
    with pytest.raises(LeaseLost, match="Another run holds the lease of embed"):
        await database.commit([make_write("after")])
    with pytest.raises(LeaseLost):
        await database.commit_skipping_conflicts([make_write("after"), make_write("last")])
    assert await read_notes(database) == {"before"}


async def test_a_lease_that_another_run_took_and_released_is_lost(
    database: Database, other: Database
) -> None:
    await Leases(database).acquire("embed", 30, noon)
    await Leases(other).acquire("embed", 30, later)
    await Leases(other).release()
    with pytest.raises(LeaseLost):
        await database.commit([make_write("after")])


async def test_an_expired_lease_stays_valid_until_taken(database: Database) -> None:
    times = iter([NOON, LATER])
    await Leases(database).acquire("embed", 30, lambda: next(times))
    await database.commit([make_write("a")])
    assert await read_expiry(database) == LATER + timedelta(seconds=30)


async def test_a_write_conflict_is_not_a_lost_lease(database: Database) -> None:
    await Leases(database).acquire("embed", 30, noon)
    reference = Reference("notes", "a")
    await database.connection.client.document(reference.path).set({})
    with pytest.raises(WriteConflict):
        await database.commit([Create(reference, {})])
    await database.commit([make_write("b")])
    assert await read_notes(database) == {"a", "b"}


async def test_concurrent_commits_all_renew_the_lease(database: Database) -> None:
    await Leases(database).acquire("embed", 30, noon)
    await asyncio.gather(*(database.commit([make_write(name)]) for name in "abcd"))
    assert await read_notes(database) == set("abcd")


async def test_a_released_lease_is_deleted_and_free(database: Database, other: Database) -> None:
    await Leases(database).acquire("embed", 30, noon)
    await database.commit([make_write("a")])
    await Leases(database).release()
    assert await read_expiry(database) is None
    assert isinstance(await Leases(other).acquire("embed", 30, noon), Lease)


async def test_releasing_a_lost_lease_leaves_it_to_its_new_holder(
    database: Database, other: Database
) -> None:
    await Leases(database).acquire("embed", 30, noon)
    await Leases(other).acquire("embed", 30, later)
    await Leases(database).release()
    assert await read_expiry(database) == LATER + timedelta(seconds=30)
    await other.commit([make_write("a")])


async def test_releasing_without_a_lease_does_nothing(database: Database, other: Database) -> None:
    await Leases(database).acquire("embed", 30, noon)
    await Leases(other).release()
    assert await read_expiry(database) == NOON + timedelta(seconds=30)


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
    await Leases(database).acquire("embed", 30, utc_now)
    lose_answers(database, monkeypatch)
    for name in "ab":
        update_time = await database.commit([make_write(name)])
        assert update_time == (await database.get(Reference("notes", name))).update_time
    assert await read_notes(database) == {"a", "b"}


async def test_a_lease_is_acquired_although_the_answer_is_lost(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(database, monkeypatch)
    assert isinstance(await Leases(database).acquire("embed", 30, utc_now), Lease)


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
