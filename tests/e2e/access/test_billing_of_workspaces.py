"""Charges of `extract_key_info` over real HTTP: nothing for errors, and nothing twice."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from shared.core.caller import Caller
from shared.core.dates import utc_now
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.e2e.access.conftest import CLOUD, FUNDS, in_access
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

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shared.accounts.account import Account
    from tests.e2e.access.conftest import MakeKey

PRICE: Final = 1_000
TEXT: Final = make_text()
LONG_TEXT: Final = make_text(60)
"""A text that is too long for one call."""
KNOWLEDGE: Final = {"firestore_database": "embedded-elsewhere"}
"""The settings, with a database of their own, because other tests use another embedding model."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """Gateways that share a database and a fake embedding model."""

    gateways: tuple[RunningGateway, ...]
    fake: FakeOpenAI
    realm: str
    environment: dict[str, str]

    def ask(self, key: str, gateway: int = 0, /, **arguments: Any) -> dict[str, Any]:
        """Call `extract_key_info` and return the result."""
        headers: dict[str, str | None] = {"authorization": f"Bearer {key}"}
        request = make_call("extract_key_info", {"query": QUERY, **arguments})
        result: dict[str, Any] = post(self.gateways[gateway].endpoint, request, headers).json()[
            "result"
        ]
        return result

    def ask_concurrently(self, key: str, **arguments: Any) -> list[dict[str, Any]]:
        """Send a call four times at once, alternating between two gateways; return the results."""
        with ThreadPoolExecutor(4) as threads:
            futures = [
                threads.submit(self.ask, key, number % 2, **arguments) for number in range(4)
            ]
        return [future.result() for future in futures]

    def read_account(self, user: str) -> tuple[int, list[int]]:
        """Return the balance of a user, and the amounts that are held."""
        account: Account = in_access(self.realm, lambda store: store.accounts.get(user))
        return account.balance, [hold.amount for hold in account.held.values()]

    def read_stored(self, user: str) -> dict[str, dict[str, Any]]:
        """Return the stored materials of a user."""

        async def read() -> dict[str, dict[str, Any]]:
            app = App(Settings(google_cloud_project=self.realm, **KNOWLEDGE))
            try:
                return await read_workspaces(app, Caller.of(user))
            finally:
                await app.aclose()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, read()).result()


@pytest.fixture(scope="module")
def deployment(realm: str, log: Path) -> Iterator[Deployment]:
    """A gateway at which `extract_key_info` has a price."""
    with ExitStack() as stack:
        fake = stack.enter_context(FakeOpenAI())
        environment = {
            "GOOGLE_CLOUD_PROJECT": realm,
            **CLOUD,
            **{name.upper(): value for name, value in KNOWLEDGE.items()},
            "TOOL_PRICES": json.dumps({"extract_key_info": PRICE}),
            "EXTRACT_MATERIALS_CHARACTERS": str(len(TEXT)),
            "EMBEDDING_PROVIDER": "openai",
            "OPENAI_BASE_URL": fake.base_url,
            "OPENAI_MODEL": MODEL,
            "OPENAI_DIMENSION": str(DIMENSION),
        }
        gateways = (stack.enter_context(run_gateway(INLINE_MAIN, environment, log)),)
        yield Deployment(gateways, fake, realm, environment)


@pytest.fixture(scope="module")
def two_gateways(deployment: Deployment, log: Path) -> Iterator[Deployment]:
    """That gateway and a second one."""
    with run_gateway(INLINE_MAIN, deployment.environment, log) as second:
        yield replace(deployment, gateways=(*deployment.gateways, second))


@pytest.fixture(autouse=True)
def reset_model(deployment: Deployment) -> Iterator[None]:
    """Let the model work again after each test."""
    yield
    deployment.fake.usual = Reply()
    deployment.fake.rejected_words = ""


def read_outcome(result: dict[str, Any]) -> tuple[str, int | None]:
    """Return the status or the error code of a call, and the price on its receipt."""
    if result.get("isError"):
        error = json.loads(result["content"][0]["text"])["error"]
        return error["code"], None
    return result["structuredContent"]["status"], result["_meta"]["carrel/receipt"]["price"]


def test_each_answer_costs_the_price(deployment: Deployment, make_key: MakeKey) -> None:
    key = make_key("materials.each")
    assert read_outcome(deployment.ask(key, materials=TEXT)) == ("ready", PRICE)
    assert read_outcome(deployment.ask(key, materials=TEXT)) == ("ready", PRICE)
    assert deployment.read_account("materials.each") == (FUNDS - 2 * PRICE, [])


def test_a_call_costs_nothing_while_the_model_is_down(
    deployment: Deployment, make_key: MakeKey
) -> None:
    key = make_key("materials.down")
    deployment.fake.script.append(Reply())
    deployment.fake.usual = make_error_reply(429, retry_after="60")
    assert read_outcome(deployment.ask(key, materials=TEXT)) == ("UNAVAILABLE", None)
    assert read_outcome(deployment.ask(key, materials=TEXT, idempotency_key="k")) == (
        "UNAVAILABLE",
        None,
    )
    assert deployment.read_account("materials.down") == (FUNDS, [])
    deployment.fake.usual = Reply()
    assert read_outcome(deployment.ask(key, materials=TEXT, idempotency_key="k")) == (
        "ready",
        PRICE,
    )
    assert deployment.read_account("materials.down") == (FUNDS - PRICE, [])


def test_a_call_with_rejected_materials_costs_nothing(
    deployment: Deployment, make_key: MakeKey
) -> None:
    key = make_key("materials.refused")
    deployment.fake.rejected_words = make_paragraph(3)
    for arguments in ({"materials": TEXT}, {"materials": " "}, {"document": "0" * 32}, {}):
        code, _ = read_outcome(deployment.ask(key, **arguments))
        assert code in ("VALIDATION_ERROR", "NOT_FOUND")
    assert deployment.read_account("materials.refused") == (FUNDS, [])


def test_a_call_without_funds_does_no_work(deployment: Deployment, make_key: MakeKey) -> None:
    key = make_key("materials.poor")
    user = "materials.poor"
    in_access(
        deployment.realm, lambda store: store.accounts.credit(user, PRICE - 1 - FUNDS, utc_now())
    )
    before = len(deployment.fake.calls)
    assert read_outcome(deployment.ask(key, materials=TEXT)) == ("PAYMENT_REQUIRED", None)
    assert len(deployment.fake.calls) == before
    assert deployment.read_stored(user) == {}
    assert deployment.read_account(user) == (PRICE - 1, [])


def test_a_pending_call_is_paid_and_its_first_answer_is_free(
    deployment: Deployment, make_key: MakeKey
) -> None:
    key = make_key("materials.pending")
    pending = deployment.ask(key, materials=LONG_TEXT)
    assert read_outcome(pending) == ("pending", PRICE)
    document = pending["structuredContent"]["document"]
    deployment.fake.usual = make_error_reply(429, retry_after="60")
    assert read_outcome(deployment.ask(key, document=document)) == ("UNAVAILABLE", None)
    assert deployment.read_account("materials.pending") == (FUNDS - PRICE, [])
    deployment.fake.usual = Reply()
    assert read_outcome(deployment.ask(key, document=document)) == ("ready", 0)
    assert deployment.read_account("materials.pending") == (FUNDS - PRICE, [])
    assert read_outcome(deployment.ask(key, document=document)) == ("ready", PRICE)
    assert deployment.read_account("materials.pending") == (FUNDS - 2 * PRICE, [])


@pytest.mark.slow
def test_concurrent_repeats_of_a_call_are_charged_once(
    two_gateways: Deployment, make_key: MakeKey
) -> None:
    key = make_key("materials.once")
    results = two_gateways.ask_concurrently(key, materials=TEXT, idempotency_key="k")
    contexts = [result["structuredContent"]["contexts"] for result in results]
    assert contexts == [contexts[0]] * 4
    assert two_gateways.read_account("materials.once") == (FUNDS - PRICE, [])


@pytest.mark.slow
def test_concurrent_calls_without_a_key_are_each_charged(
    two_gateways: Deployment, make_key: MakeKey
) -> None:
    key = make_key("materials.many")
    results = two_gateways.ask_concurrently(key, materials=TEXT)
    assert [read_outcome(result) for result in results] == [("ready", PRICE)] * 4
    assert two_gateways.read_account("materials.many") == (FUNDS - 4 * PRICE, [])


@pytest.mark.slow
def test_a_prepaid_answer_is_free_only_once(two_gateways: Deployment, make_key: MakeKey) -> None:
    key = make_key("materials.prepaid")
    document = two_gateways.ask(key, materials=LONG_TEXT)["structuredContent"]["document"]
    results = two_gateways.ask_concurrently(key, document=document)
    ready_count = [read_outcome(result)[0] for result in results].count("ready")
    assert ready_count  # one call embeds; the others are answered as pending, free of charge
    assert two_gateways.read_account("materials.prepaid") == (FUNDS - ready_count * PRICE, [])
