"""A call with a price is charged once, whatever fails.

A gateway reserves the price before the call: the account puts the money on hold for an hour. Then
the gateway settles the call, or cancels it. Calls with the same id share one hold, which names each
of them as a holder.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from google.api_core.exceptions import ServiceUnavailable
from google.cloud.firestore import DELETE_FIELD

from shared.accounts.account import HOLD_LIFETIME
from shared.accounts.call_record import PAID_LIFETIME, Bill, CallEntry, CallRecord, PaymentState
from shared.accounts.repositories.access_store import AccessStore
from shared.accounts.repositories.calls import CallRecords
from shared.core.dates import DateSpan
from shared.core.errors import PaymentRequired, Unavailable
from shared.core.meter import Meter
from shared.firestore.connection import Connection
from tests.support.commit_hooks import Response, Send, intercept_commits

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
SOON = NOON + timedelta(minutes=1)
LATE = NOON + HOLD_LIFETIME
ANNA = "anna@example.com"
BEFORE_CALL = CallEntry(started_at=NOON, arguments={"query": 12}, task="thesis")
FACTS = {"passages": 7, "known": True, "scores": [0.5, 1.0], "document": "d3adbeef"}
SUCCESS = replace(
    BEFORE_CALL, outcome="ok", milliseconds=12.5, documents_read=7, documents_written=1, notes=FACTS
)
REFUSED = replace(BEFORE_CALL, outcome="VALIDATION_ERROR", milliseconds=1.5)
BILL = Bill(call_id="c1", user_id=ANNA, tool="try_out", price=30, writes=True, entry=BEFORE_CALL)
PAID = replace(BILL, entry=SUCCESS)
FAILED = replace(BILL, entry=REFUSED)


@pytest.fixture
async def access(access: Connection) -> Connection:
    """The database of accounts and calls, where Anna has a balance of 100."""
    await AccessStore(access).accounts.credit(ANNA, 100, NOON)
    return access


@pytest.fixture
def store(access: Connection, meter: Meter) -> AccessStore:
    """The accounts and calls, with a meter of reads and writes."""
    return AccessStore(access, meter)


async def assert_money(
    store: AccessStore, *, balance: int, available: int, now: datetime = SOON
) -> None:
    """Assert Anna's balance, and the part of it that is not on hold."""
    account = await store.accounts.get(ANNA)
    assert account.balance == balance
    assert account.compute_available(now) == available


async def read_state(store: AccessStore, call_id: str = "c1") -> PaymentState | None:
    """Return the stored state of a call's payment."""
    record = await store.calls.get(call_id)
    return record.state if record else None


async def test_a_reservation_is_two_round_trips(store: AccessStore, meter: Meter) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    assert meter.documents_read == 2
    assert meter.documents_written == 2
    assert meter.round_trips == 2
    await assert_money(store, balance=100, available=70)


async def test_a_settled_call_is_charged_and_recorded(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    assert await store.calls.settle(PAID, "one", 20, SOON) == 20
    await assert_money(store, balance=80, available=80)
    expected = CallRecord(
        bill=PAID,
        state=PaymentState.SETTLED,
        hold_count=1,
        paid_until=SOON + PAID_LIFETIME,
        charged=20,
    )
    assert await store.calls.get("c1") == expected


async def test_a_record_of_another_version_can_be_read(
    store: AccessStore, access: Connection
) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    document = access.client.document("calls/c1")
    assert (await document.get()).get("notes") == {}
    await document.update({"notes": DELETE_FIELD, "of a later version": 1})
    record = await store.calls.get("c1")
    assert record
    assert record.bill == BILL


async def test_a_record_keeps_its_stored_names(store: AccessStore, access: Connection) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    stored = await access.client.document("calls/c1").get()
    assert stored.get("attempt") == 1
    assert stored.get("holders") == ["one"]


async def test_a_settled_record_has_the_task_of_the_result(
    store: AccessStore, access: Connection
) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(replace(BILL, entry=replace(SUCCESS, task="other")), "one", 20, SOON)
    stored = await access.client.document("calls/c1").get()
    assert stored.get("task") == "other"
    assert stored.get("notes") == FACTS


async def test_a_record_expires_after_ninety_days(store: AccessStore, access: Connection) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    stored = await access.client.document("calls/c1").get()
    assert stored.get("expires_at") == NOON + timedelta(days=90)


async def test_a_cancelled_call_costs_nothing_and_says_why(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    assert await store.calls.cancel(FAILED, "one", SOON)
    await assert_money(store, balance=100, available=100)
    expected = CallRecord(bill=FAILED, state=PaymentState.CANCELLED, hold_count=1)
    assert await store.calls.get("c1") == expected


async def test_a_call_that_exceeds_the_balance_writes_nothing(
    store: AccessStore, meter: Meter
) -> None:
    with pytest.raises(PaymentRequired):
        await store.calls.reserve(replace(BILL, price=101), "one", NOON)
    assert await read_state(store) is None
    assert meter.documents_written == 0


async def test_a_paid_call_is_repeated_for_free(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(PAID, "one", 30, SOON)
    assert (await store.calls.reserve(BILL, "two", SOON)).state is PaymentState.SETTLED
    await assert_money(store, balance=70, available=70)


async def test_a_call_paid_long_ago_is_reserved_again(store: AccessStore) -> None:
    """The stored answer may have expired, so that the call may run again."""
    later = SOON + PAID_LIFETIME
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(PAID, "one", 30, SOON)
    record = await store.calls.reserve(BILL, "two", later)
    assert record.state == PaymentState.RESERVED
    assert record.hold_count == 2
    assert record.charged == 30
    await assert_money(store, balance=70, available=40, now=later)
    await store.calls.settle(PAID, "two", 20, later)
    await assert_money(store, balance=50, available=50, now=later)


async def test_a_call_settled_by_a_stored_answer_is_reserved_again(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(replace(PAID, entry=replace(SUCCESS, replayed=True)), "one", 30, SOON)
    assert (await store.calls.reserve(BILL, "two", SOON)).state is PaymentState.RESERVED


async def test_a_cancelled_call_is_reserved_again(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.cancel(FAILED, "one", NOON)
    record = await store.calls.reserve(BILL, "two", SOON)
    assert record.state == PaymentState.RESERVED
    assert record.hold_count == 2
    assert record.reservation_ids == ("two",)
    await assert_money(store, balance=100, available=70)


async def test_concurrent_repeats_at_two_gateways_are_charged_once(access: Connection) -> None:
    gateways = [AccessStore(access) for _ in range(2)]

    async def reserve_and_settle(gateway: AccessStore, holder: str) -> int:
        await gateway.calls.reserve(BILL, holder, NOON)
        return await gateway.calls.settle(PAID, holder, 30, SOON)

    charges = await asyncio.gather(*map(reserve_and_settle, gateways, ("one", "two")))
    assert charges == [30, 30]  # both answers name the price, but it is charged once
    await assert_money(gateways[0], balance=70, available=70)


async def test_concurrent_repeats_hold_the_price_once(access: Connection) -> None:
    gateways = [AccessStore(access) for _ in range(6)]
    await asyncio.gather(
        *(gateway.calls.reserve(BILL, str(number), NOON) for number, gateway in enumerate(gateways))
    )
    await assert_money(gateways[0], balance=100, available=70)


async def test_a_shared_hold_outlives_a_cancelled_call(store: AccessStore) -> None:
    """A call is not free because another call with the same id fails."""
    await store.calls.reserve(BILL, "faulty", NOON)
    await store.calls.reserve(BILL, "good", NOON)
    assert not await store.calls.cancel(FAILED, "faulty", SOON)
    await assert_money(store, balance=100, available=70)
    assert await store.calls.settle(PAID, "good", 30, SOON) == 30
    await assert_money(store, balance=70, available=70)


async def test_a_shared_hold_ends_with_its_last_holder(store: AccessStore) -> None:
    for holder in ("one", "two"):
        await store.calls.reserve(BILL, holder, NOON)
    assert not await store.calls.cancel(FAILED, "two", SOON)
    assert await store.calls.cancel(FAILED, "one", SOON)
    await assert_money(store, balance=100, available=100)


async def test_a_hold_of_another_call_cannot_be_cancelled(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    assert not await store.calls.cancel(FAILED, "stranger", SOON)
    await assert_money(store, balance=100, available=70)


async def test_a_paid_call_cannot_be_cancelled(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(PAID, "one", 30, SOON)
    assert not await store.calls.cancel(FAILED, "one", SOON)
    await assert_money(store, balance=70, available=70)
    assert await read_state(store) is PaymentState.SETTLED


async def test_a_killed_gateway_blocks_the_money_for_an_hour(store: AccessStore) -> None:
    """The gateway never settles the call, and nothing else reports its end."""
    await store.calls.reserve(replace(BILL, price=100), "killed", NOON)
    with pytest.raises(PaymentRequired):
        await store.calls.reserve(replace(BILL, call_id="c2"), "two", SOON)
    await store.calls.reserve(replace(BILL, call_id="c3"), "three", LATE)
    await assert_money(store, balance=100, available=70, now=LATE)


async def test_an_unknown_outcome_is_settled_by_a_repeated_call(store: AccessStore) -> None:
    unknown_bill = replace(BILL, entry=replace(BEFORE_CALL, outcome="UNAVAILABLE"))
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.update_entry(unknown_bill, SOON)
    record = await store.calls.get("c1")
    assert record
    assert record.state == PaymentState.RESERVED
    assert record.bill.entry.outcome == "UNAVAILABLE"
    await store.calls.reserve(BILL, "two", SOON)
    assert await store.calls.settle(PAID, "two", 30, SOON) == 30
    await assert_money(store, balance=70, available=70)


async def test_a_call_repeated_before_its_hold_expires_is_charged(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.reserve(BILL, "two", LATE - timedelta(seconds=1))
    assert await store.calls.settle(PAID, "two", 30, LATE + timedelta(seconds=1)) == 30


async def test_a_call_repeated_after_its_hold_expired_is_charged(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    record = await store.calls.reserve(BILL, "two", LATE)
    assert record.hold_count == 2
    assert record.reservation_ids == ("two",)
    assert await store.calls.settle(PAID, "two", 30, LATE) == 30
    await assert_money(store, balance=70, available=70, now=LATE)


async def test_a_late_entry_does_not_change_a_paid_call(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(PAID, "one", 30, SOON)
    await store.calls.update_entry(FAILED, SOON)
    record = await store.calls.get("c1")
    assert record
    assert record.state == PaymentState.SETTLED
    assert record.bill.entry.outcome == "ok"


async def test_concurrent_calls_never_exceed_the_balance(access: Connection) -> None:
    gateways = [AccessStore(access) for _ in range(20)]

    async def reserve_and_settle(number: int, gateway: AccessStore) -> int:
        bill = replace(PAID, call_id=f"c{number}")
        try:
            await gateway.calls.reserve(bill, "one", NOON)
        except PaymentRequired:
            return 0
        return await gateway.calls.settle(bill, "one", 30, SOON)

    charges = await asyncio.gather(
        *(reserve_and_settle(number, gateway) for number, gateway in enumerate(gateways))
    )
    assert sorted(charges) == [0] * 17 + [30] * 3
    await assert_money(gateways[0], balance=10, available=10)


async def test_a_monthly_budget_is_never_exceeded(store: AccessStore) -> None:
    june = datetime(2024, 6, 1, tzinfo=UTC)
    await store.accounts.set_budget(ANNA, 50)
    await store.calls.reserve(BILL, "one", NOON)
    await store.calls.settle(PAID, "one", 30, NOON)
    with pytest.raises(PaymentRequired, match="budget of"):
        await store.calls.reserve(replace(BILL, call_id="c2"), "two", SOON)
    await store.calls.reserve(replace(BILL, call_id="c2"), "two", june)
    assert (await store.accounts.get(ANNA)).spent == 0


async def test_a_free_call_that_wrote_is_recorded_without_an_account(access: Connection) -> None:
    store = AccessStore(access)
    free_bill = replace(PAID, user_id="ben", price=0)
    await store.calls.record(free_bill, SOON)
    assert await store.calls.get("c1") == CallRecord(bill=free_bill)
    assert not (await access.client.document("accounts/ben").get()).exists


@pytest.mark.parametrize(
    "repeated_entry", [replace(SUCCESS, documents_written=0, replayed=True), REFUSED]
)
async def test_a_completed_free_call_keeps_its_record(
    store: AccessStore, repeated_entry: CallEntry
) -> None:
    """A repeated call gets the stored answer, so the entry says nothing new."""
    free_bill = replace(PAID, price=0)
    await store.calls.record(free_bill, NOON)
    await store.calls.record(replace(free_bill, entry=repeated_entry), SOON)
    assert await store.calls.get("c1") == CallRecord(bill=free_bill)


async def test_a_lost_free_call_is_recorded_when_repeated(store: AccessStore) -> None:
    free_bill = replace(PAID, price=0)
    await store.calls.record(
        replace(free_bill, entry=replace(BEFORE_CALL, outcome="UNAVAILABLE")), NOON
    )
    await store.calls.record(free_bill, SOON)
    assert await store.calls.get("c1") == CallRecord(bill=free_bill)


async def test_an_external_service_needs_only_records_here(
    store: AccessStore, meter: Meter
) -> None:
    calls = CallRecords(store.database, with_accounts=False)
    record = await calls.reserve(BILL, "one", NOON)
    assert record.state == PaymentState.RESERVED
    assert record.hold_count == 1
    assert await calls.settle(PAID, "one", 40, SOON) == 30  # at most the price
    assert meter.documents_read == 2
    assert meter.documents_written == 2
    await assert_money(store, balance=100, available=100)


def lose_answers(
    access: Connection, monkeypatch: pytest.MonkeyPatch, *, second_is_answered: bool
) -> None:
    """Let commits take effect, and lose the answers to them.

    Google's client then sends each commit a second time. It gives up if that answer is lost, too.
    """

    async def send_twice(_number: int, send: Send) -> Response:
        await send()
        if second_is_answered:
            return await send()
        raise ServiceUnavailable("no answer")

    intercept_commits(access, monkeypatch, send_twice)


async def test_a_call_with_lost_answers_is_charged_once(
    store: AccessStore, access: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(access, monkeypatch, second_is_answered=True)
    record = await store.calls.reserve(BILL, "one", NOON)
    assert record.hold_count == 1
    assert record.reservation_ids == ("one",)
    await assert_money(store, balance=100, available=70)
    assert await store.calls.settle(PAID, "one", 30, SOON) == 30
    await assert_money(store, balance=70, available=70)


async def test_a_cancellation_with_a_lost_answer_refunds_once(
    store: AccessStore, access: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    lose_answers(access, monkeypatch, second_is_answered=True)
    assert await store.calls.cancel(FAILED, "one", SOON)
    await assert_money(store, balance=100, available=100)


async def test_a_reservation_with_a_lost_answer_is_shared_when_repeated(
    store: AccessStore, access: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        lose_answers(access, patch, second_is_answered=False)
        with pytest.raises(Unavailable):
            await store.calls.reserve(BILL, "one", NOON)
    await store.calls.reserve(BILL, "two", SOON)
    await assert_money(store, balance=100, available=70)
    assert await store.calls.settle(PAID, "two", 30, SOON) == 30
    await assert_money(store, balance=70, available=70)


async def test_a_settlement_with_a_lost_answer_is_charged_once(
    store: AccessStore, access: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    with monkeypatch.context() as patch:
        lose_answers(access, patch, second_is_answered=False)
        with pytest.raises(Unavailable):
            await store.calls.settle(PAID, "one", 30, SOON)
    assert await store.calls.settle(PAID, "one", 30, SOON) == 30
    await assert_money(store, balance=70, available=70)


async def test_calls_are_counted_by_days_of_a_time_zone(store: AccessStore) -> None:
    await store.calls.record(BILL, NOON)
    zone = timezone(timedelta(hours=13))
    days = [DateSpan(date(2024, 5, day), date(2024, 5, day), zone) for day in (30, 31)]
    days.append(DateSpan(date(2024, 6, 1), date(2024, 6, 1), zone))
    assert await store.calls.count_by_day(ANNA, days) == [0, 0, 1]
