"""A call is charged once or not at all, and never more than the balance.

The tool `write_note` of the notebook costs a millionth of a dollar per character. While it runs,
the gateway holds the most that a note can cost, `PRICE`.
"""

from collections.abc import Callable
from typing import Any

import pytest

from shared.accounts.account import Account
from shared.core.dates import utc_now
from tests.support.access import FUNDS, MakeKey, run_on_access_store
from tests.support.gateway_process import RunningGateway
from tests.support.mcp_wire import make_call, post
from tests.support.notebook_tools import PRICE

ReadAccount = Callable[[str], Account]


@pytest.fixture
def read_account(project: str) -> ReadAccount:
    """A function that reads an account."""

    def read(user: str) -> Account:
        account: Account = run_on_access_store(project, lambda store: store.accounts.get(user))
        return account

    return read


def write_note(gateway: RunningGateway, key: str, /, **arguments: Any) -> dict[str, Any]:
    """Call `write_note` and return the result."""
    headers: dict[str, str | None] = {"authorization": f"Bearer {key}"}
    result: dict[str, Any] = post(
        gateway.endpoint, make_call("write_note", arguments), headers
    ).json()["result"]
    return result


def read_notes(gateway: RunningGateway, key: str) -> list[str]:
    """Return the texts of the notes of a key's user."""
    headers: dict[str, str | None] = {"authorization": f"Bearer {key}"}
    answer = post(gateway.endpoint, make_call("read_notes", {}), headers).json()
    texts: list[str] = answer["result"]["structuredContent"]["texts"]
    return texts


def read_receipt(result: dict[str, Any]) -> dict[str, Any]:
    """Return the receipt of a call, which contains its price in millionths of a dollar."""
    receipt: dict[str, Any] = result["_meta"]["carrel/receipt"]
    return receipt


@pytest.mark.requirement("001-C8", "001-F2", "001-G10")
def test_a_call_without_funds_is_rejected_and_not_run(
    gateway: RunningGateway, make_key: MakeKey, project: str, read_account: ReadAccount
) -> None:
    key = make_key("money.poor")
    run_on_access_store(
        project, lambda store: store.accounts.credit("money.poor", 1 - FUNDS, utc_now())
    )
    rejected = write_note(gateway, key, text="x")
    assert rejected["isError"]
    assert "PAYMENT_REQUIRED" in rejected["content"][0]["text"]
    assert read_notes(gateway, key) == []
    assert read_account("money.poor").balance == 1


@pytest.mark.parametrize("then", ["break", pytest.param("dawdle", marks=pytest.mark.slow)])
def test_a_call_with_unknown_outcome_is_paid_when_repeated(
    gateway: RunningGateway, make_key: MakeKey, read_account: ReadAccount, then: str
) -> None:
    """The tool writes the note, and then breaks or runs into its time limit."""
    user = f"money.{then}"
    key = make_key(user)
    arguments = {"text": "once", "then": then, "idempotency_key": "k"}
    assert write_note(gateway, key, **arguments)["isError"]
    before = read_account(user)
    assert before.balance == FUNDS
    assert [hold.amount for hold in before.held.values()] == [PRICE]
    repeated = write_note(gateway, key, **arguments)
    assert read_receipt(repeated)["price"] == 4
    assert read_receipt(repeated)["replayed"] is True
    after = read_account(user)
    assert after.balance == FUNDS - 4
    assert after.held == {}
    assert read_notes(gateway, key) == ["once"]
