"""An account stores the balance of a user, a monthly budget, and when credentials were revoked.

Amounts are in millionths of a dollar.
"""

import asyncio
from datetime import timedelta

import pytest

from shared.accounts.account import HOLD_LIFETIME, Account
from shared.accounts.call_record import Bill, CallEntry
from shared.accounts.repositories.access_store import AccessStore
from shared.core.errors import InvalidInput
from shared.firestore.connection import Connection
from tests.support.clock import NOON
from tests.support.commit_hooks import intercept_commits, send_commit_twice

ANNA = "anna@example.com"
BILL = Bill(call_id="c1", user_id=ANNA, tool="try_out", price=30, entry=CallEntry(started_at=NOON))


async def test_credits_add_up_and_each_is_recorded(store: AccessStore, access: Connection) -> None:
    assert await store.accounts.get(ANNA) == Account(user_id=ANNA)
    for amount in (500, -200, 50):
        account = await store.accounts.credit(ANNA, amount, NOON)
    assert account == Account(user_id=ANNA, balance=350, month="2024-05")
    assert await store.accounts.get(ANNA) == account
    collection = access.client.collection(f"accounts/{ANNA}/credits")
    amounts = [credit.get("amount") async for credit in collection.stream()]
    assert sorted(amounts) == [-200, 50, 500]


async def test_concurrent_credits_are_all_kept(access: Connection) -> None:
    stores = [AccessStore(access) for _ in range(8)]
    await asyncio.gather(*(store.accounts.credit(ANNA, 1, NOON) for store in stores))
    assert (await stores[0].accounts.get(ANNA)).balance == 8


async def test_a_credit_with_a_lost_answer_is_given_once(
    store: AccessStore, access: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Google's client then sends the commit again."""
    await store.accounts.credit(ANNA, 100, NOON)
    intercept_commits(access, monkeypatch, send_commit_twice(1))
    assert (await store.accounts.credit(ANNA, 50, NOON)).balance == 150
    assert (await store.accounts.get(ANNA)).balance == 150


async def test_only_what_is_not_on_hold_can_be_withdrawn(store: AccessStore) -> None:
    await store.accounts.credit(ANNA, 100, NOON)
    with pytest.raises(InvalidInput, match="cannot be withdrawn"):
        await store.accounts.credit(ANNA, -101, NOON)
    await store.calls.reserve(BILL, "one", NOON)
    with pytest.raises(InvalidInput, match="is on hold"):
        await store.accounts.credit(ANNA, -100, NOON)
    assert (await store.accounts.credit(ANNA, -100, NOON + HOLD_LIFETIME)).balance == 0


async def test_a_budget_can_be_set_and_removed(store: AccessStore) -> None:
    await store.accounts.credit(ANNA, 100, NOON)
    for amount in (5_000_000, 0, None):
        await store.accounts.set_budget(ANNA, amount)
        expected = Account(user_id=ANNA, balance=100, monthly_budget=amount, month="2024-05")
        assert await store.accounts.get(ANNA) == expected
    with pytest.raises(InvalidInput, match="0 or more"):
        await store.accounts.set_budget(ANNA, -1)


async def test_balance_budget_and_revocation_are_independent(store: AccessStore) -> None:
    await store.accounts.credit(ANNA, 100, NOON)
    await store.accounts.revoke(ANNA, NOON)
    await store.calls.reserve(BILL, "one", NOON)
    await store.accounts.set_budget(ANNA, 90)
    account = await store.accounts.get(ANNA)
    assert account.balance == 100
    assert account.monthly_budget == 90
    assert account.compute_available(NOON) == 70
    assert not account.accepts(NOON)
    assert account.accepts(NOON + timedelta(microseconds=1))
