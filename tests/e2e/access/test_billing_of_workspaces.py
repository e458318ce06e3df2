"""Calls of `extract_key_info` are charged once, and those that fail are free.

The tool finds passages in a text that the caller uploads, its `materials`. If a text is too long to
embed in one call, the answer is "pending", and a later call with the id of the document continues.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from shared.accounts.account import Account
from shared.core.caller import Caller
from shared.core.dates import utc_now
from shared.core.settings import Settings
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
    make_paragraph,
    make_text,
    read_workspaces,
)

PRICE: Final = 1_000
"""The price of a call, in millionths of a dollar."""
TEXT: Final = make_text()
LONG_TEXT: Final = make_text(60)
"""A text that is too long for one call."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """Gateways that share a database and a fake embedding model.

    Attributes:
        gateways: One gateway or two.
        fake: The fake embedding model.
        project: The Google Cloud project of the database.
        environment: The environment variables of each gateway.
    """

    gateways: tuple[RunningGateway, ...]
    fake: FakeOpenAI
    project: str
    environment: dict[str, str]

    def extract(self, key: str, gateway: int = 0, /, **arguments: Any) -> dict[str, Any]:
        """Call `extract_key_info` at the gateway of this index; return the result."""
        headers: dict[str, str | None] = {"authorization": f"Bearer {key}"}
        request = make_call("extract_key_info", {"query": QUERY, **arguments})
        result: dict[str, Any] = post(self.gateways[gateway].endpoint, request, headers).json()[
            "result"
        ]
        return result

    def extract_concurrently(self, key: str, **arguments: Any) -> list[dict[str, Any]]:
        """Send a call four times at once, alternating between two gateways; return the results."""
        with ThreadPoolExecutor(4) as threads:
            futures = [
                threads.submit(self.extract, key, number % 2, **arguments) for number in range(4)
            ]
        return [future.result() for future in futures]

    def read_balance(self, user: str) -> int:
        """Return the balance of a user; assert that no amount is held."""
        account: Account = run_on_access_store(self.project, lambda store: store.accounts.get(user))
        assert account.held == {}
        return account.balance

    def read_materials(self, user: str) -> dict[str, dict[str, Any]]:
        """Return the stored materials of a user."""

        async def read() -> dict[str, dict[str, Any]]:
            app = App(Settings(google_cloud_project=self.project))
            try:
                return await read_workspaces(app, Caller.of(user))
            finally:
                await app.aclose()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, read()).result()


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
    with ExitStack() as stack:
        fake = stack.enter_context(FakeOpenAI())
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
        gateways = (stack.enter_context(run_gateway(INLINE_MAIN, environment, log)),)
        yield Deployment(gateways, fake, project, environment)


@pytest.fixture(autouse=True)
def reset_model(deployment: Deployment) -> Iterator[None]:
    """Repair the model after each test."""
    yield
    deployment.fake.usual = Reply()
    deployment.fake.rejected_words = ""


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


def test_a_call_costs_nothing_while_the_model_is_down(
    deployment: Deployment, make_key: MakeKey
) -> None:
    key = make_key("materials.down")
    deployment.fake.script.append(Reply())  # the first request succeeds, the next ones fail
    deployment.fake.usual = make_error_reply(429, retry_after="60")
    arguments = {"materials": TEXT, "idempotency_key": "k"}
    assert read_outcome(deployment.extract(key, materials=TEXT)) == Outcome("UNAVAILABLE")
    assert read_outcome(deployment.extract(key, **arguments)) == Outcome("UNAVAILABLE")
    assert deployment.read_balance("materials.down") == FUNDS

    deployment.fake.usual = Reply()
    assert read_outcome(deployment.extract(key, **arguments)) == Outcome("ready", PRICE)
    assert deployment.read_balance("materials.down") == FUNDS - PRICE


def test_a_call_with_rejected_materials_costs_nothing(
    deployment: Deployment, make_key: MakeKey
) -> None:
    key = make_key("materials.refused")
    deployment.fake.rejected_words = make_paragraph(3)
    for arguments in ({"materials": TEXT}, {"materials": " "}, {"document": "0" * 32}, {}):
        outcome = read_outcome(deployment.extract(key, **arguments))
        assert outcome.status in ("VALIDATION_ERROR", "NOT_FOUND")
    assert deployment.read_balance("materials.refused") == FUNDS


@pytest.mark.requirement("001-C8", "001-F2", "001-G10")
def test_a_call_without_funds_does_no_work(deployment: Deployment, make_key: MakeKey) -> None:
    key = make_key("materials.poor")
    user = "materials.poor"
    run_on_access_store(
        deployment.project, lambda store: store.accounts.credit(user, PRICE - 1 - FUNDS, utc_now())
    )
    before = len(deployment.fake.calls)
    assert read_outcome(deployment.extract(key, materials=TEXT)) == Outcome("PAYMENT_REQUIRED")
    assert len(deployment.fake.calls) == before
    assert deployment.read_materials(user) == {}
    assert deployment.read_balance(user) == PRICE - 1


def test_a_pending_call_is_paid_and_its_first_answer_is_free(
    deployment: Deployment, make_key: MakeKey
) -> None:
    key = make_key("materials.pending")
    pending = deployment.extract(key, materials=LONG_TEXT)
    assert read_outcome(pending) == Outcome("pending", PRICE)
    document = pending["structuredContent"]["document"]
    deployment.fake.usual = make_error_reply(429, retry_after="60")
    assert read_outcome(deployment.extract(key, document=document)) == Outcome("UNAVAILABLE")
    assert deployment.read_balance("materials.pending") == FUNDS - PRICE
    deployment.fake.usual = Reply()
    assert read_outcome(deployment.extract(key, document=document)) == Outcome("ready", 0)
    assert deployment.read_balance("materials.pending") == FUNDS - PRICE
    assert read_outcome(deployment.extract(key, document=document)) == Outcome("ready", PRICE)
    assert deployment.read_balance("materials.pending") == FUNDS - 2 * PRICE
