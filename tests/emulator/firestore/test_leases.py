"""Leases: one holder at a time, and what was lost is never written over."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from google.api_core.exceptions import ServiceUnavailable

from shared.caller import Caller
from shared.clock import utc_now
from shared.errors import Unavailable
from shared.store import Meter
from shared.store.database import LeaseLost, Stale
from shared.store.leases import Lease

if TYPE_CHECKING:
    from shared.deps import Backend, Deps
    from shared.store import Store
    from shared.store.database import Write

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)


def noon() -> datetime:
    return NOON


def later() -> datetime:
    return LATER


@pytest.fixture
def store(deps: Deps) -> Store:
    """The store of one run."""
    return deps.store


@pytest.fixture
def other(backend: Backend) -> Store:
    """The store of another run."""
    return backend.deps(Caller(), Meter()).store


def writing(store: Store, name: str) -> Write:
    reference = store.database.document("notes", name)
    return lambda batch: batch.set(reference, {})


async def expiry(store: Store) -> datetime | None:
    snapshot = await store.database.client.document("leases/embed").get()
    found: datetime | None = snapshot.get("expires_at") if snapshot.exists else None
    return found


async def notes(store: Store) -> set[str]:
    return {each.id async for each in store.database.collection("notes").stream()}


async def test_a_free_lease_is_taken_for_as_long_as_asked(store: Store) -> None:
    assert isinstance(await store.leases.acquire("embed", 30, noon), Lease)
    assert await expiry(store) == NOON + timedelta(seconds=30)


async def test_a_held_lease_tells_when_it_may_become_free(store: Store, other: Store) -> None:
    await store.leases.acquire("embed", 30, noon)
    assert await other.leases.acquire("embed", 60, noon) == NOON + timedelta(seconds=30)


async def test_of_many_that_ask_at_once_one_gets_it(backend: Backend) -> None:
    stores = [backend.deps(Caller(), Meter()).store for _ in range(5)]
    got = await asyncio.gather(*(each.leases.acquire("embed", 30, noon) for each in stores))
    assert sum(isinstance(each, Lease) for each in got) == 1


async def test_leases_of_different_jobs_do_not_meet(store: Store, other: Store) -> None:
    await store.leases.acquire("embed", 30, noon)
    assert isinstance(await other.leases.acquire("ingest", 30, noon), Lease)


async def test_an_expired_lease_is_taken_over(store: Store, other: Store) -> None:
    await store.leases.acquire("embed", 30, noon)
    assert isinstance(await other.leases.acquire("embed", 30, later), Lease)
    assert await expiry(store) == LATER + timedelta(seconds=30)


async def test_of_many_that_take_over_at_once_one_gets_it(store: Store, backend: Backend) -> None:
    await store.leases.acquire("embed", 30, noon)
    stores = [backend.deps(Caller(), Meter()).store for _ in range(5)]
    got = await asyncio.gather(*(each.leases.acquire("embed", 30, later) for each in stores))
    assert sum(isinstance(each, Lease) for each in got) == 1


async def test_a_commit_renews_the_lease_which_is_a_write_too(deps: Deps, meter: Meter) -> None:
    store = deps.store
    moments = iter([NOON, NOON + timedelta(seconds=20)])
    await store.leases.acquire("embed", 30, lambda: next(moments))
    written = meter.documents_written
    await store.database.commit([writing(store, "a")])
    assert await expiry(store) == NOON + timedelta(seconds=50)
    assert meter.documents_written - written == 2


async def test_a_run_that_lost_its_lease_writes_nothing_more(store: Store, other: Store) -> None:
    await store.leases.acquire("embed", 30, noon)
    await store.database.commit([writing(store, "before")])
    await other.leases.acquire("embed", 30, later)
    with pytest.raises(LeaseLost, match="Another run holds the lease of embed"):
        await store.database.commit([writing(store, "after")])
    with pytest.raises(LeaseLost):
        await store.database.commit_what_holds([writing(store, "after"), writing(store, "last")])
    assert await notes(store) == {"before"}


async def test_a_lease_whose_taker_has_finished_is_lost_too(store: Store, other: Store) -> None:
    await store.leases.acquire("embed", 30, noon)
    await other.leases.acquire("embed", 30, later)
    await other.leases.release()
    with pytest.raises(LeaseLost):
        await store.database.commit([writing(store, "after")])


async def test_an_expired_lease_that_nobody_took_still_holds(store: Store) -> None:
    moments = iter([NOON, LATER])
    await store.leases.acquire("embed", 30, lambda: next(moments))
    await store.database.commit([writing(store, "a")])
    assert await expiry(store) == LATER + timedelta(seconds=30)


async def test_a_stale_write_does_not_pass_for_a_lost_lease(store: Store) -> None:
    await store.leases.acquire("embed", 30, noon)
    reference = store.database.document("notes", "a")
    await reference.set({})
    with pytest.raises(Stale):
        await store.database.commit([lambda batch: batch.create(reference, {})])
    await store.database.commit([writing(store, "b")])
    assert await notes(store) == {"a", "b"}


async def test_commits_at_once_all_carry_the_renewal(store: Store) -> None:
    await store.leases.acquire("embed", 30, noon)
    await asyncio.gather(*(store.database.commit([writing(store, name)]) for name in "abcd"))
    assert await notes(store) == set("abcd")


async def test_a_lease_that_is_given_back_leaves_nothing(store: Store, other: Store) -> None:
    await store.leases.acquire("embed", 30, noon)
    await store.database.commit([writing(store, "a")])
    await store.leases.release()
    assert await expiry(store) is None
    assert isinstance(await other.leases.acquire("embed", 30, noon), Lease)


async def test_a_lost_lease_stays_with_its_taker(store: Store, other: Store) -> None:
    await store.leases.acquire("embed", 30, noon)
    await other.leases.acquire("embed", 30, later)
    await store.leases.release()
    assert await expiry(store) == LATER + timedelta(seconds=30)
    await other.database.commit([writing(other, "a")])


async def test_giving_back_what_is_not_held_does_nothing(store: Store, other: Store) -> None:
    await store.leases.acquire("embed", 30, noon)
    await other.leases.release()
    assert await expiry(store) == NOON + timedelta(seconds=30)


def lose_answers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commits land and their answers not, so that Google's client sends each a second time."""
    api = store.database.client._firestore_api  # noqa: SLF001 - where the network begins
    commit = api.commit

    async def commit_twice(**request: Any) -> Any:
        await commit(**request)
        return await commit(**request)

    monkeypatch.setattr(api, "commit", commit_twice)


async def test_a_commit_whose_answer_was_lost_has_landed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.leases.acquire("embed", 30, utc_now)
    lose_answers(store, monkeypatch)
    await store.database.commit([writing(store, "a")])
    await store.database.commit([writing(store, "b")])
    assert await notes(store) == {"a", "b"}


async def test_a_lease_whose_answer_was_lost_is_held(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(store, monkeypatch)
    assert isinstance(await store.leases.acquire("embed", 30, utc_now), Lease)


async def test_commits_after_one_whose_answer_was_lost_land_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.leases.acquire("embed", 30, utc_now)
    api = store.database.client._firestore_api  # noqa: SLF001 - where the network begins
    commit = api.commit

    async def commit_unheard(**request: Any) -> Any:
        await commit(**request)
        raise ServiceUnavailable("no answer")  # type: ignore[no-untyped-call]

    with monkeypatch.context() as broken:
        broken.setattr(api, "commit", commit_unheard)
        with pytest.raises(Unavailable):
            await store.database.commit([writing(store, "unheard")])
    await store.database.commit([writing(store, "a")])
    await store.database.commit([writing(store, "b")])
    assert await notes(store) == {"unheard", "a", "b"}
