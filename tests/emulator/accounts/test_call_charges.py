"""A call with a price is charged once, whatever fails.

A gateway reserves the price before the call: the account puts the money on hold for an hour. Then
the gateway settles the call, or cancels it. Calls with the same id share one hold, which names each
of them as a holder. In which order they may do so is tested with the ledger, without a database.
"""

import asyncio
from dataclasses import replace
from datetime import date, timedelta, timezone

import pytest
from google.api_core.exceptions import ServiceUnavailable
from google.cloud.firestore import DELETE_FIELD

from shared.accounts.call_record import (
    CALL_RECORDS,
    PAID_LIFETIME,
    Bill,
    CallEntry,
    CallRecord,
    PaymentState,
)
from shared.accounts.repositories.access_store import AccessStore
from shared.accounts.repositories.calls import CallRecords
from shared.core.dates import DateSpan
from shared.core.errors import PaymentRequired, Unavailable
from shared.core.meter import Meter
from shared.firestore.connection import Connection
from tests.support.clock import NOON
from tests.support.commit_hooks import Response, Send, intercept_commits

SOON = NOON + timedelta(minutes=1)
ANNA = "anna@example.com"
BEFORE_CALL = CallEntry(started_at=NOON, arguments={"query": 12}, task="thesis")
FACTS = {"passages": 7, "known": True, "scores": [0.5, 1.0], "document": "d3adbeef"}
SUCCESS = replace(
    BEFORE_CALL, outcome="ok", milliseconds=12.5, documents_read=7, task="other", notes=FACTS
)
REFUSED = replace(BEFORE_CALL, outcome="VALIDATION_ERROR", milliseconds=1.5)
BILL = Bill(call_id="c1", user_id=ANNA, tool="try_out", price=30, writes=True, entry=BEFORE_CALL)
PAID = replace(BILL, entry=SUCCESS)
FAILED = replace(BILL, entry=REFUSED)
LOST = replace(BILL, entry=replace(BEFORE_CALL, outcome="UNAVAILABLE"))


@pytest.fixture
async def access(access: Connection) -> Connection:
    """The database of accounts and calls, where Anna has a balance of 100."""
    await AccessStore(access).accounts.credit(ANNA, 100, NOON)
    return access


async def assert_money(store: AccessStore, *, balance: int, available: int) -> None:
    """Assert Anna's balance, and the part of it that is not on hold."""
    account = await store.accounts.get(ANNA)
    assert (account.balance, account.compute_available(SOON)) == (balance, available)


async def test_a_reservation_is_two_round_trips(
    store: AccessStore, meter: Meter, access: Connection
) -> None:
    """Its record has the names of existing databases, and expires after ninety days."""
    await store.calls.reserve(BILL, "one", NOON)
    assert (meter.documents_read, meter.documents_written, meter.round_trips) == (2, 2, 2)
    await assert_money(store, balance=100, available=70)
    stored = await access.client.document("calls/c1").get()
    assert stored.get("attempt") == 1
    assert stored.get("holders") == ["one"]
    assert stored.get("purge_at") == NOON + CALL_RECORDS.duration


async def test_a_settled_call_is_charged_and_recorded(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    assert await store.calls.settle(PAID, "one", 20, SOON) == 20
    expected = CallRecord(
        bill=PAID,
        state=PaymentState.SETTLED,
        hold_count=1,
        paid_until=SOON + PAID_LIFETIME,
        charged=20,
    )
    assert await store.calls.get("c1") == expected
    # It stays settled, whatever other sendings of the call report.
    assert not await store.calls.cancel(FAILED, "one", SOON)
    await store.calls.update_entry(FAILED, SOON)
    assert (await store.calls.reserve(BILL, "two", SOON)) == expected
    assert await store.calls.get("c1") == expected
    await assert_money(store, balance=80, available=80)


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


async def test_a_cancelled_call_costs_nothing_and_says_why(store: AccessStore) -> None:
    await store.calls.reserve(BILL, "one", NOON)
    assert not await store.calls.cancel(FAILED, "stranger", SOON)
    await store.calls.update_entry(LOST, SOON)
    record = await store.calls.get("c1")
    assert record
    assert (record.state, record.bill) == (PaymentState.RESERVED, LOST)
    await assert_money(store, balance=100, available=70)
    assert await store.calls.cancel(FAILED, "one", SOON)
    await assert_money(store, balance=100, available=100)
    expected = CallRecord(bill=FAILED, state=PaymentState.CANCELLED, hold_count=1)
    assert await store.calls.get("c1") == expected
    record = await store.calls.reserve(BILL, "two", SOON)
    assert (record.state, record.hold_count) == (PaymentState.RESERVED, 2)
    assert record.reservation_ids == ("two",)


async def test_a_call_that_exceeds_the_balance_writes_nothing(
    store: AccessStore, meter: Meter
) -> None:
    with pytest.raises(PaymentRequired):
        await store.calls.reserve(replace(BILL, price=101), "one", NOON)
    assert await store.calls.get("c1") is None
    assert meter.documents_written == 0


async def test_concurrent_repeats_at_two_gateways_are_charged_once(access: Connection) -> None:
    gateways = [AccessStore(access) for _ in range(6)]

    async def reserve_and_settle(gateway: AccessStore, holder: str) -> int:
        await gateway.calls.reserve(BILL, holder, NOON)
        await assert_money(gateway, balance=100, available=70)
        await all_reserved.wait()
        return await gateway.calls.settle(PAID, holder, 30, SOON)

    all_reserved = asyncio.Barrier(len(gateways))
    charges = await asyncio.gather(*map(reserve_and_settle, gateways, "abcdef"))
    assert charges == [30] * 6  # all answers name the price, but it is charged once
    await assert_money(gateways[0], balance=70, available=70)


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


async def test_a_lost_free_call_is_recorded_when_repeated(store: AccessStore) -> None:
    """A success stays: a repeated call gets the stored answer, so its entry says nothing new."""
    for entry, kept in ((LOST.entry, LOST.entry), (SUCCESS, SUCCESS), (REFUSED, SUCCESS)):
        await store.calls.record(replace(BILL, price=0, entry=entry), NOON)
        expected = CallRecord(bill=replace(BILL, price=0, entry=kept))
        assert await store.calls.get("c1") == expected


async def test_an_external_service_needs_only_records_here(
    store: AccessStore, meter: Meter
) -> None:
    calls = CallRecords(store.database, with_accounts=False)
    record = await calls.reserve(BILL, "one", NOON)
    assert (record.state, record.hold_count) == (PaymentState.RESERVED, 1)
    assert await calls.settle(PAID, "one", 40, SOON) == 30  # at most the price
    assert (meter.documents_read, meter.documents_written) == (2, 2)
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
    """A cancelled one is refunded once."""
    lose_answers(access, monkeypatch, second_is_answered=True)
    record = await store.calls.reserve(BILL, "one", NOON)
    assert (record.hold_count, record.reservation_ids) == (1, ("one",))
    await assert_money(store, balance=100, available=70)
    assert await store.calls.settle(PAID, "one", 30, SOON) == 30
    await assert_money(store, balance=70, available=70)
    await store.calls.reserve(replace(BILL, call_id="c2"), "two", SOON)
    assert await store.calls.cancel(replace(FAILED, call_id="c2"), "two", SOON)
    await assert_money(store, balance=70, available=70)


async def test_a_step_whose_answer_stays_lost_can_be_repeated(
    store: AccessStore, access: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        lose_answers(access, patch, second_is_answered=False)
        with pytest.raises(Unavailable):
            await store.calls.reserve(BILL, "one", NOON)
    await store.calls.reserve(BILL, "two", SOON)
    await assert_money(store, balance=100, available=70)
    with monkeypatch.context() as patch:
        lose_answers(access, patch, second_is_answered=False)
        with pytest.raises(Unavailable):
            await store.calls.settle(PAID, "two", 30, SOON)
    assert await store.calls.settle(PAID, "two", 30, SOON) == 30
    await assert_money(store, balance=70, available=70)


async def test_calls_are_counted_by_days_of_a_time_zone(store: AccessStore) -> None:
    await store.calls.record(BILL, NOON)
    zone = timezone(timedelta(hours=13))
    days = (date(2024, 5, 30), date(2024, 5, 31), date(2024, 6, 1))
    spans = [DateSpan(day, day, zone) for day in days]
    assert await store.calls.count_by_day(ANNA, spans) == [0, 0, 1]
