"""Calls of `extract_key_info` are charged once, and those that fail are free.

The tool finds passages in a text that the caller uploads, its `materials`. If a text is too long to
embed in one call, the answer is "pending", and a later call with the id of the document continues.
"""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from shared.accounts.account import Account
from shared.core.caller import Caller
from shared.core.dates import utc_now
from shared.runtime.context import App
from tests.support.access import (
    CLOUD_SETTINGS,
    FUNDS,
    MakeKey,
    build_key_maker,
    run_on_access_store,
)
from tests.support.fakes.openai import MODEL, FakeOpenAI, Reply, make_error_reply
from tests.support.gateway_process import INLINE_MAIN, RunningGateway, run_gateway
from tests.support.mcp_wire import make_call, post
from tests.support.stored_materials import (
    DIMENSION,
    QUERY,
    make_text,
    read_workspaces,
)

PRICE: Final = 1_000
"""The price of a call, in millionths of a dollar."""
TEXT: Final = make_text()
LONG_TEXT: Final = make_text(120)
"""A text that is too long for one call."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A gateway with a fake embedding model."""

    gateway: RunningGateway
    fake: FakeOpenAI
    project: str

    def extract(self, key: str, /, **arguments: Any) -> dict[str, Any]:
        """Call `extract_key_info`; return the result."""
        headers: dict[str, str | None] = {"authorization": f"Bearer {key}"}
        request = make_call("extract_key_info", {"query": QUERY, **arguments})
        response = post(self.gateway.endpoint, request, headers)
        return dict(response.json()["result"])

    def read_balance(self, user: str) -> int:
        """Return the balance of a user; assert that no amount is held."""
        account: Account = run_on_access_store(self.project, lambda store: store.accounts.get(user))
        assert account.held == {}
        return account.balance


@pytest.fixture(scope="module")
def project() -> str:
    """A project of these tests alone, because others use another embedding model."""
    return f"billing-{uuid.uuid4().hex[:16]}"


@pytest.fixture(scope="module")
def make_key(project: str) -> MakeKey:
    """A function that makes keys for that project."""
    return build_key_maker(project)


@pytest.fixture(scope="module")
def deployment(project: str, log: Path) -> Iterator[Deployment]:
    """A gateway that charges `PRICE` for `extract_key_info`."""
    with FakeOpenAI() as fake:
        environment = {
            "GOOGLE_CLOUD_PROJECT": project,
            **CLOUD_SETTINGS,
            "TOOL_PRICES": json.dumps({"extract_key_info": PRICE}),
            "EXTRACT_MATERIALS_CHARACTERS": str(len(TEXT)),
            "EMBEDDING_PROVIDER": "openai",
            "OPENAI_BASE_URL": fake.base_url,
            "EMBEDDING_MODEL": MODEL,
            "EMBEDDING_DIMENSION": str(DIMENSION),
        }
        with run_gateway(INLINE_MAIN, environment, log) as gateway:
            yield Deployment(gateway, fake, project)


class Outcome(NamedTuple):
    """How a call ended.

    Attributes:
        status: Its status or error code.
        price: The price on its receipt, or None for an error.
    """

    status: str
    price: int | None = None


def read_outcome(result: dict[str, Any]) -> Outcome:
    """Return the outcome of a call."""
    if result.get("isError"):
        return Outcome(json.loads(result["content"][0]["text"])["error"]["code"])
    receipt = result["_meta"]["carrel/receipt"]
    return Outcome(result["structuredContent"]["status"], receipt["price"])


@pytest.mark.requirement("001-A2", "001-B3")
def test_each_answer_costs_the_price(deployment: Deployment, make_key: MakeKey) -> None:
    key = make_key("materials.each")
    assert read_outcome(deployment.extract(key, materials=TEXT)) == Outcome("ready", PRICE)
    assert read_outcome(deployment.extract(key, materials=TEXT)) == Outcome("ready", PRICE)
    assert deployment.read_balance("materials.each") == FUNDS - 2 * PRICE


@pytest.mark.requirement("001-C8", "001-F2", "001-G10")
async def test_a_call_without_funds_does_no_work(
    deployment: Deployment, make_key: MakeKey, app: App
) -> None:
    user = "materials.poor"
    key = make_key(user)
    run_on_access_store(
        deployment.project, lambda store: store.accounts.credit(user, PRICE - 1 - FUNDS, utc_now())
    )
    before = len(deployment.fake.calls)
    assert read_outcome(deployment.extract(key, materials=TEXT)) == Outcome("PAYMENT_REQUIRED")
    assert len(deployment.fake.calls) == before
    assert await read_workspaces(app, Caller.of(user)) == {}
    assert deployment.read_balance(user) == PRICE - 1


def test_a_pending_call_is_free_and_each_answer_is_paid(
    deployment: Deployment, make_key: MakeKey
) -> None:
    key = make_key("materials.pending")
    pending = deployment.extract(key, materials=LONG_TEXT)
    assert read_outcome(pending) == Outcome("pending", 0)
    document = pending["structuredContent"]["document"]
    deployment.fake.usual = make_error_reply(429, retry_after="60")
    assert read_outcome(deployment.extract(key, document=document)) == Outcome("UNAVAILABLE")
    assert deployment.read_balance("materials.pending") == FUNDS
    deployment.fake.usual = Reply()
    for paid in (1, 2):
        assert read_outcome(deployment.extract(key, document=document)) == Outcome("ready", PRICE)
        assert deployment.read_balance("materials.pending") == FUNDS - paid * PRICE
