"""The ledger in Firestore: a call is charged once, whatever fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from google.api_core.exceptions import ServiceUnavailable
from google.cloud.firestore import DELETE_FIELD

from shared.accounts.account import HOLD_LIFETIME
from shared.accounts.call_record import PAID_LIFETIME, Bill, CallEntry, CallRecord, PaymentState
from shared.accounts.repositories.access_store import AccessStore
from shared.accounts.repositories.calls import CallRecords
from shared.core.errors import PaymentRequired, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from shared.core.meter import Meter
    from shared.firestore.database import Connection

    Commit = Callable[..., Awaitable[Any]]

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
SOON = NOON + timedelta(minutes=1)
LATE = NOON + HOLD_LIFETIME
ANNA = "anna@example.com"
BEFORE = CallEntry(started_at=NOON, arguments={"query": 12}, task="thesis")
NOTES = {"passages": 7, "known": True, "scores": [0.5, 1.0], "document": "d3adbeef"}
SUCCESS = replace(
    BEFORE, outcome="ok", milliseconds=12.5, documents_read=7, documents_written=1, notes=NOTES
)
REFUSED = replace(BEFORE, outcome="VALIDATION_ERROR", milliseconds=1.5)
BILL = Bill(call_id="c1", user_id=ANNA, tool="try_out", price=30, writes=True, entry=BEFORE)
PAID = replace(BILL, entry=SUCCESS)
FAILED = replace(BILL, entry=REFUSED)


@pytest.fixture
async def access(access: Connection) -> Connection:
    """The database of accounts and calls, where Anna has 100."""
    await AccessStore(access).accounts.credit(ANNA, 100, NOON)
    return access


@pytest.fixture
def store(access: Connection, meter: Meter) -> AccessStore:
    """The collections, with a meter of their reads and writes."""
    return AccessStore(access, meter)


async def read_money(store: AccessStore, now: datetime = SOON) -> tuple[int, int]:
    """Return Anna's balance and the part of it that is available."""
    account = await store.accounts.get(ANNA)
    return account.balance, account.compute_available(now)


async def read_state(store: AccessStore, call_id: str = "c1") -> PaymentState | None:
    record = await store.calls.get(call_id)
    return record.state if record else None


async def test_a_reservation_is_two_round_trips(store: AccessStore, meter: Meter) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    assert meter.documents_read == 2
    assert meter.documents_written == 2
    assert meter.round_trips == 2
    assert await read_money(store) == (100, 70)


async def test_a_settled_call_is_charged_and_recorded(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    assert await store.calls.settle(PAID, 20, SOON) == 20
    assert await read_money(store) == (80, 80)
    expected = CallRecord(
        bill=PAID,
        state=PaymentState.SETTLED,
        attempt=1,
        paid_until=SOON + PAID_LIFETIME,
        charged=20,
    )
    assert await store.calls.get("c1") == expected


async def test_a_record_without_notes_can_be_read(store: AccessStore, access: Connection) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    record = access.client.document("calls/c1")
    assert (await record.get()).get("notes") == {}
    await record.update({"notes": DELETE_FIELD, "of a later version": 1})
    read = await store.calls.get("c1")
    assert read
    assert read.bill == BILL


async def test_a_settled_record_has_the_task_of_the_result(
    store: AccessStore, access: Connection
) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(replace(BILL, entry=replace(SUCCESS, task="other")), 20, SOON)
    stored = await access.client.document("calls/c1").get()
    assert stored.get("task") == "other"
    assert stored.get("notes") == NOTES


async def test_a_record_expires_after_ninety_days(store: AccessStore, access: Connection) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    stored = await access.client.document("calls/c1").get()
    assert stored.get("expires_at") == NOON + timedelta(days=90)


async def test_a_cancelled_call_costs_nothing_and_says_why(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    assert await store.calls.cancel(FAILED, "one", SOON)
    assert await read_money(store) == (100, 100)
    expected = CallRecord(bill=FAILED, state=PaymentState.CANCELLED, attempt=1)
    assert await store.calls.get("c1") == expected


async def test_a_call_that_is_not_covered_writes_nothing(store: AccessStore, meter: Meter) -> None:
    with pytest.raises(PaymentRequired):
        await store.calls.reserve(replace(BILL, price=101), "one", NOON)
    assert await read_state(store) is None
    assert meter.documents_written == 0


async def test_a_paid_call_is_repeated_for_free(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(PAID, 30, SOON)
    assert (await store.calls.reserve(BILL, "two", SOON)).state is PaymentState.SETTLED
    assert await read_money(store) == (70, 70)


async def test_a_call_paid_long_ago_is_reserved_again(store: AccessStore) -> None:
    """The stored answer may have expired, so that the call may run again."""
    later = SOON + PAID_LIFETIME
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(PAID, 30, SOON)
    record = await store.calls.reserve(BILL, "two", later)
    assert record.state == PaymentState.RESERVED
    assert record.attempt == 2
    assert record.charged == 30
    assert await read_money(store, later) == (70, 40)
    await store.calls.settle(PAID, 20, later)
    assert await read_money(store, later) == (50, 50)


async def test_a_call_settled_by_a_stored_answer_is_reserved_again(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(replace(PAID, entry=replace(SUCCESS, replayed=True)), 30, SOON)
    assert (await store.calls.reserve(BILL, "two", SOON)).state is PaymentState.RESERVED


async def test_a_cancelled_call_is_reserved_again(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.cancel(FAILED, "one", NOON)
    record = await store.calls.reserve(BILL, "two", SOON)
    assert record.state == PaymentState.RESERVED
    assert record.attempt == 2
    assert record.holders == ("two",)
    assert await read_money(store) == (100, 70)


async def test_concurrent_repeats_at_two_gateways_are_charged_once(access: Connection) -> None:
    gateways = [AccessStore(access) for _ in range(2)]

    async def run(gateway: AccessStore, holder: str) -> int:
        await gateway.calls.reserve(BILL, holder, NOON)
        return await gateway.calls.settle(PAID, 30, SOON)

    charged = await asyncio.gather(*map(run, gateways, ("one", "two")))
    assert charged == [30, 30]
    assert await read_money(gateways[0]) == (70, 70)


async def test_concurrent_repeats_hold_the_price_once(access: Connection) -> None:
    gateways = [AccessStore(access) for _ in range(6)]
    await asyncio.gather(
        *(gateway.calls.reserve(BILL, str(name), NOON) for name, gateway in enumerate(gateways))
    )
    assert await read_money(gateways[0]) == (100, 70)


async def test_a_shared_hold_outlives_a_cancelled_call(store: AccessStore) -> None:
    """Else a call would be free beside a failing one with the same id."""
    await store.calls.reserve(BILL, "faulty", NOON)
    await store.calls.reserve(BILL, "good", NOON)
    assert not await store.calls.cancel(FAILED, "faulty", SOON)
    assert await read_money(store) == (100, 70)
    assert await store.calls.settle(PAID, 30, SOON) == 30
    assert await read_money(store) == (70, 70)


async def test_a_shared_hold_ends_with_its_last_holder(store: AccessStore) -> None:
    for holder in ("one", "two"):
        await store.calls.reserve(BILL, holder, NOON)
    cancelled = [await store.calls.cancel(FAILED, holder, SOON) for holder in ("two", "one")]
    assert cancelled == [False, True]
    assert await read_money(store) == (100, 100)


async def test_a_hold_of_another_call_cannot_be_cancelled(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    assert not await store.calls.cancel(FAILED, "stranger", SOON)
    assert await read_money(store) == (100, 70)


async def test_a_paid_call_cannot_be_cancelled(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(PAID, 30, SOON)
    assert not await store.calls.cancel(FAILED, "one", SOON)
    assert await read_money(store) == (70, 70)
    assert await read_state(store) is PaymentState.SETTLED


async def test_a_killed_gateway_blocks_the_money_for_an_hour(store: AccessStore) -> None:
    """The gateway never settles the call, and nothing else reports its end."""
    await store.calls.reserve(replace(BILL, price=100), "killed", NOON)
    with pytest.raises(PaymentRequired):
        await store.calls.reserve(replace(BILL, call_id="c2"), "two", SOON)
    await store.calls.reserve(replace(BILL, call_id="c3"), "three", LATE)
    assert await read_money(store, LATE) == (100, 70)


async def test_an_unknown_outcome_is_settled_by_a_repeated_call(store: AccessStore) -> None:
    unknown = replace(BILL, entry=replace(BEFORE, outcome="UNAVAILABLE"))
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.update_entry(unknown, SOON)
    record = await store.calls.get("c1")
    assert record
    assert record.state == PaymentState.RESERVED
    assert record.bill.entry.outcome == "UNAVAILABLE"
    await store.calls.reserve(BILL, "two", SOON)
    assert await store.calls.settle(PAID, 30, SOON) == 30
    assert await read_money(store) == (70, 70)


async def test_a_call_repeated_before_its_hold_expires_is_charged(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.reserve(BILL, "two", LATE - timedelta(seconds=1))
    assert await store.calls.settle(PAID, 30, LATE + timedelta(seconds=1)) == 30


async def test_a_call_repeated_after_its_hold_expired_is_charged(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    record = await store.calls.reserve(BILL, "two", LATE)
    assert record.attempt == 2
    assert record.holders == ("two",)
    assert await store.calls.settle(PAID, 30, LATE) == 30
    assert await read_money(store, LATE) == (70, 70)


async def test_a_late_entry_does_not_change_a_paid_call(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(PAID, 30, SOON)
    await store.calls.update_entry(FAILED, SOON)
    record = await store.calls.get("c1")
    assert record
    assert record.state == PaymentState.SETTLED
    assert record.bill.entry.outcome == "ok"


async def test_concurrent_calls_never_exceed_the_balance(access: Connection) -> None:
    gateways = [AccessStore(access) for _ in range(20)]

    async def run(number: int, gateway: AccessStore) -> int:
        bill = replace(PAID, call_id=f"c{number}")
        try:
            await gateway.calls.reserve(bill, "one", NOON)
        except PaymentRequired:
            return 0
        return await gateway.calls.settle(bill, 30, SOON)

    charged = await asyncio.gather(
        *(run(number, gateway) for number, gateway in enumerate(gateways))
    )
    assert sorted(charged) == [0] * 17 + [30] * 3
    assert await read_money(gateways[0]) == (10, 10)


async def test_a_monthly_budget_is_never_exceeded(store: AccessStore) -> None:
    june = datetime(2024, 6, 1, tzinfo=UTC)
    await store.accounts.set_budget(ANNA, 50)
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(PAID, 30, NOON)
    with pytest.raises(PaymentRequired, match="budget of"):
        await store.calls.reserve(replace(BILL, call_id="c2"), "two", SOON)
    await store.calls.reserve(replace(BILL, call_id="c2"), "two", june)
    assert (await store.accounts.get(ANNA)).spent == 0


async def test_a_free_call_that_wrote_is_recorded_without_an_account(access: Connection) -> None:
    store = AccessStore(access)
    free = replace(PAID, user_id="ben", price=0)
    await store.calls.record(free, SOON)
    assert await store.calls.get("c1") == CallRecord(bill=free)
    assert not (await access.client.document("accounts/ben").get()).exists


@pytest.mark.parametrize("later", [replace(SUCCESS, documents_written=0, replayed=True), REFUSED])
async def test_a_completed_free_call_keeps_its_record(store: AccessStore, later: CallEntry) -> None:
    """A repeated call is answered from the stored answer, so its entry says nothing new."""
    free = replace(PAID, price=0)
    await store.calls.record(free, NOON)
    await store.calls.record(replace(free, entry=later), SOON)
    assert await store.calls.get("c1") == CallRecord(bill=free)


async def test_a_lost_free_call_is_recorded_when_repeated(store: AccessStore) -> None:
    free = replace(PAID, price=0)
    await store.calls.record(replace(free, entry=replace(BEFORE, outcome="UNAVAILABLE")), NOON)
    await store.calls.record(free, SOON)
    assert await store.calls.get("c1") == CallRecord(bill=free)


async def test_an_external_service_leaves_only_records_here(
    store: AccessStore, meter: Meter
) -> None:
    calls = CallRecords(store.database, with_accounts=False)
    record = await calls.reserve(BILL, "one", NOON)
    assert record.state == PaymentState.RESERVED
    assert record.attempt == 1
    assert await calls.settle(PAID, 40, SOON) == 30
    assert meter.documents_read == 2
    assert meter.documents_written == 2
    assert await read_money(store) == (100, 100)


def lose_answers(
    access: Connection, monkeypatch: pytest.MonkeyPatch, *, second_is_answered: bool
) -> None:
    """Let commits take effect, and lose the answers to them.

    Google's client then sends each commit a second time. It gives up if that answer is lost, too.
    """
    api = access.client._firestore_api  # noqa: SLF001 - where the network begins
    commit: Commit = api.commit

    async def commit_twice(**request: Any) -> Any:
        await commit(**request)
        if second_is_answered:
            return await commit(**request)
        raise ServiceUnavailable("no answer")  # type: ignore[no-untyped-call]

    monkeypatch.setattr(api, "commit", commit_twice)


async def test_a_call_with_lost_answers_is_charged_once(
    store: AccessStore, access: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(access, monkeypatch, second_is_answered=True)
    record = await store.calls.reserve(BILL, "one", NOON)
    assert record.attempt == 1
    assert record.holders == ("one",)
    assert await read_money(store) == (100, 70)
    assert await store.calls.settle(PAID, 30, SOON) == 30
    assert await read_money(store) == (70, 70)


async def test_a_cancellation_with_a_lost_answer_refunds_once(
    store: AccessStore, access: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    lose_answers(access, monkeypatch, second_is_answered=True)
    assert await store.calls.cancel(FAILED, "one", SOON)
    assert await read_money(store) == (100, 100)


async def test_a_lost_reservation_is_shared_by_the_next_try(
    store: AccessStore, access: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        lose_answers(access, broken, second_is_answered=False)
        with pytest.raises(Unavailable):
            await store.calls.reserve(BILL, "one", NOON)
    await store.calls.reserve(BILL, "two", SOON)
    assert await read_money(store) == (100, 70)
    assert await store.calls.settle(PAID, 30, SOON) == 30
    assert await read_money(store) == (70, 70)


async def test_a_settlement_that_landed_unheard_is_not_charged_again(
    store: AccessStore, access: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    with monkeypatch.context() as broken:
        lose_answers(access, broken, second_is_answered=False)
        with pytest.raises(Unavailable):
            await store.calls.settle(PAID, 30, SOON)
    assert await store.calls.settle(PAID, 30, SOON) == 30
    assert await read_money(store) == (70, 70)
