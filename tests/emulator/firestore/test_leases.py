"""Leases: one holder at a time, and what was lost is never written over."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from google.api_core.exceptions import ServiceUnavailable

from shared.core.caller import Caller
from shared.core.dates import utc_now
from shared.core.errors import Unavailable
from shared.core.meter import Meter
from shared.firestore.database import Lease, LeaseLost, WriteConflict
from shared.firestore.leases import Leases

if TYPE_CHECKING:
    from shared.firestore.database import Database, Write
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)


def noon() -> datetime:
    return NOON


def later() -> datetime:
    return LATER


@pytest.fixture
def database(ctx: Context) -> Database:
    """The database of one run."""
    return ctx.database


@pytest.fixture
def other(app: App) -> Database:
    """The database of another run."""
    return app.context(Caller(), Meter()).database


def writing(database: Database, name: str) -> Write:
    reference = database.document("notes", name)
    return lambda batch: batch.set(reference, {})


async def expiry(database: Database) -> datetime | None:
    snapshot = await database.client.document("leases/embed").get()
    found: datetime | None = snapshot.get("expires_at") if snapshot.exists else None
    return found


async def notes(database: Database) -> set[str]:
    return {each.id async for each in database.collection("notes").stream()}


async def test_a_free_lease_is_taken_for_as_long_as_asked(database: Database) -> None:
    assert isinstance(await Leases(database).acquire("embed", 30, noon), Lease)
    assert await expiry(database) == NOON + timedelta(seconds=30)


async def test_a_held_lease_tells_when_it_may_become_free(
    database: Database, other: Database
) -> None:
    await Leases(database).acquire("embed", 30, noon)
    assert await Leases(other).acquire("embed", 60, noon) == NOON + timedelta(seconds=30)


async def test_of_many_that_ask_at_once_one_gets_it(app: App) -> None:
    databases = [app.context(Caller(), Meter()).database for _ in range(5)]
    got = await asyncio.gather(*(Leases(each).acquire("embed", 30, noon) for each in databases))
    assert sum(isinstance(each, Lease) for each in got) == 1


async def test_leases_of_different_jobs_do_not_meet(database: Database, other: Database) -> None:
    await Leases(database).acquire("embed", 30, noon)
    assert isinstance(await Leases(other).acquire("ingest", 30, noon), Lease)


async def test_an_expired_lease_is_taken_over(database: Database, other: Database) -> None:
    await Leases(database).acquire("embed", 30, noon)
    assert isinstance(await Leases(other).acquire("embed", 30, later), Lease)
    assert await expiry(database) == LATER + timedelta(seconds=30)


async def test_of_many_that_take_over_at_once_one_gets_it(database: Database, app: App) -> None:
    await Leases(database).acquire("embed", 30, noon)
    databases = [app.context(Caller(), Meter()).database for _ in range(5)]
    got = await asyncio.gather(*(Leases(each).acquire("embed", 30, later) for each in databases))
    assert sum(isinstance(each, Lease) for each in got) == 1


async def test_a_commit_renews_the_lease_which_is_a_write_too(ctx: Context, meter: Meter) -> None:
    database = ctx.database
    moments = iter([NOON, NOON + timedelta(seconds=20)])
    await Leases(database).acquire("embed", 30, lambda: next(moments))
    written = meter.documents_written
    await database.commit([writing(database, "a")])
    assert await expiry(database) == NOON + timedelta(seconds=50)
    assert meter.documents_written - written == 2


async def test_a_run_that_lost_its_lease_writes_nothing_more(
    database: Database, other: Database
) -> None:
    await Leases(database).acquire("embed", 30, noon)
    await database.commit([writing(database, "before")])
    await Leases(other).acquire("embed", 30, later)
    with pytest.raises(LeaseLost, match="Another run holds the lease of embed"):
        await database.commit([writing(database, "after")])
    with pytest.raises(LeaseLost):
        await database.commit_skipping_conflicts(
            [writing(database, "after"), writing(database, "last")]
        )
    assert await notes(database) == {"before"}


async def test_a_lease_whose_taker_has_finished_is_lost_too(
    database: Database, other: Database
) -> None:
    await Leases(database).acquire("embed", 30, noon)
    await Leases(other).acquire("embed", 30, later)
    await Leases(other).release()
    with pytest.raises(LeaseLost):
        await database.commit([writing(database, "after")])


async def test_an_expired_lease_that_nobody_took_still_holds(database: Database) -> None:
    moments = iter([NOON, LATER])
    await Leases(database).acquire("embed", 30, lambda: next(moments))
    await database.commit([writing(database, "a")])
    assert await expiry(database) == LATER + timedelta(seconds=30)


async def test_a_stale_write_does_not_pass_for_a_lost_lease(database: Database) -> None:
    await Leases(database).acquire("embed", 30, noon)
    reference = database.document("notes", "a")
    await reference.set({})
    with pytest.raises(WriteConflict):
        await database.commit([lambda batch: batch.create(reference, {})])
    await database.commit([writing(database, "b")])
    assert await notes(database) == {"a", "b"}


async def test_commits_at_once_all_carry_the_renewal(database: Database) -> None:
    await Leases(database).acquire("embed", 30, noon)
    await asyncio.gather(*(database.commit([writing(database, name)]) for name in "abcd"))
    assert await notes(database) == set("abcd")


async def test_a_lease_that_is_given_back_leaves_nothing(
    database: Database, other: Database
) -> None:
    await Leases(database).acquire("embed", 30, noon)
    await database.commit([writing(database, "a")])
    await Leases(database).release()
    assert await expiry(database) is None
    assert isinstance(await Leases(other).acquire("embed", 30, noon), Lease)


async def test_a_lost_lease_stays_with_its_taker(database: Database, other: Database) -> None:
    await Leases(database).acquire("embed", 30, noon)
    await Leases(other).acquire("embed", 30, later)
    await Leases(database).release()
    assert await expiry(database) == LATER + timedelta(seconds=30)
    await other.commit([writing(other, "a")])


async def test_giving_back_what_is_not_held_does_nothing(
    database: Database, other: Database
) -> None:
    await Leases(database).acquire("embed", 30, noon)
    await Leases(other).release()
    assert await expiry(database) == NOON + timedelta(seconds=30)


def lose_answers(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commits land and their answers not, so that Google's client sends each a second time."""
    api = database.client._firestore_api  # noqa: SLF001 - where the network begins
    commit = api.commit

    async def commit_twice(**request: Any) -> Any:
        await commit(**request)
        return await commit(**request)

    monkeypatch.setattr(api, "commit", commit_twice)


async def test_a_commit_whose_answer_was_lost_has_landed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Leases(database).acquire("embed", 30, utc_now)
    lose_answers(database, monkeypatch)
    await database.commit([writing(database, "a")])
    await database.commit([writing(database, "b")])
    assert await notes(database) == {"a", "b"}


async def test_a_lease_whose_answer_was_lost_is_held(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(database, monkeypatch)
    assert isinstance(await Leases(database).acquire("embed", 30, utc_now), Lease)


async def test_commits_after_one_whose_answer_was_lost_land_too(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Leases(database).acquire("embed", 30, utc_now)
    api = database.client._firestore_api  # noqa: SLF001 - where the network begins
    commit = api.commit

    async def commit_unheard(**request: Any) -> Any:
        await commit(**request)
        raise ServiceUnavailable("no answer")  # type: ignore[no-untyped-call]

    with monkeypatch.context() as broken:
        broken.setattr(api, "commit", commit_unheard)
        with pytest.raises(Unavailable):
            await database.commit([writing(database, "unheard")])
    await database.commit([writing(database, "a")])
    await database.commit([writing(database, "b")])
    assert await notes(database) == {"unheard", "a", "b"}
