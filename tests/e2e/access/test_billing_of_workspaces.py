"""What `extract_key_info` costs, over real HTTP: nothing for nothing, and nothing twice."""

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
from tests.support.fakes.openai import MODEL, FakeOpenAI, Reply, refusal
from tests.support.gateway_process import INLINE, Running, run_gateway
from tests.support.mcp_wire import call, post
from tests.support.stored_materials import DIMENSION, QUERY, make_text, paragraph, stored_contents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shared.accounts.account import Account
    from tests.e2e.access.conftest import MakeKey

PRICE: Final = 1_000
TEXT: Final = make_text()
LONG: Final = make_text(60)
"""More than a call takes in."""
MOST: Final = len(TEXT)


KNOWLEDGE: Final = {"firestore_database": "embedded-elsewhere"}
"""A database of its own: the others' is embedded with another model."""


@dataclass(frozen=True, slots=True)
class House:
    """Gateways before the same database and the same model."""

    gateways: tuple[Running, ...]
    fake: FakeOpenAI
    realm: str
    environment: dict[str, str]

    def ask(self, key: str, gateway: int = 0, /, **arguments: Any) -> dict[str, Any]:
        """The result of a call."""
        headers: dict[str, str | None] = {"authorization": f"Bearer {key}"}
        asked = call("extract_key_info", {"query": QUERY, **arguments})
        result: dict[str, Any] = post(self.gateways[gateway].endpoint, asked, headers).json()[
            "result"
        ]
        return result

    def at_once(self, key: str, **arguments: Any) -> list[dict[str, Any]]:
        """The results of the same call sent several times, to each of two gateways in turn."""
        with ThreadPoolExecutor(4) as threads:
            sent = [threads.submit(self.ask, key, number % 2, **arguments) for number in range(4)]
        return [future.result() for future in sent]

    def account(self, user: str) -> tuple[int, list[int]]:
        """What a user has, and what of it is set aside."""
        account: Account = in_access(self.realm, lambda store: store.accounts.get(user))
        return account.balance, [hold.amount for hold in account.held.values()]

    def stored(self, user: str) -> dict[str, dict[str, Any]]:
        """What is stored of a user's materials."""

        async def read() -> dict[str, dict[str, Any]]:
            app = App(Settings(google_cloud_project=self.realm, **KNOWLEDGE))
            try:
                return await stored_contents(app, Caller.of(user))
            finally:
                await app.aclose()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, read()).result()


@pytest.fixture(scope="module")
def house(realm: str, log: Path) -> Iterator[House]:
    """Where a call has its price."""
    with ExitStack() as stack:
        fake = stack.enter_context(FakeOpenAI())
        environment = {
            "GOOGLE_CLOUD_PROJECT": realm,
            **CLOUD,
            **{name.upper(): value for name, value in KNOWLEDGE.items()},
            "TOOL_PRICES": json.dumps({"extract_key_info": PRICE}),
            "EXTRACT_MATERIALS_CHARACTERS": str(MOST),
            "EMBEDDING_PROVIDER": "openai",
            "OPENAI_BASE_URL": fake.base_url,
            "OPENAI_MODEL": MODEL,
            "OPENAI_DIMENSION": str(DIMENSION),
        }
        gateways = (stack.enter_context(run_gateway(INLINE, environment, log)),)
        yield House(gateways, fake, realm, environment)


@pytest.fixture(scope="module")
def twins(house: House, log: Path) -> Iterator[House]:
    """The same, with a second gateway."""
    with run_gateway(INLINE, house.environment, log) as second:
        yield replace(house, gateways=(*house.gateways, second))


@pytest.fixture(autouse=True)
def well(house: House) -> Iterator[None]:
    """Afterwards nothing is wrong any more."""
    yield
    house.fake.usual = Reply()
    house.fake.refuses = ""


def told(result: dict[str, Any]) -> tuple[str, int | None]:
    """What a call came to, and the price on its receipt."""
    if result.get("isError"):
        error = json.loads(result["content"][0]["text"])["error"]
        return error["code"], None
    return result["structuredContent"]["status"], result["_meta"]["carrel/receipt"]["price"]


def test_each_answer_costs_its_price(house: House, make_key: MakeKey) -> None:
    key = make_key("materials.each")
    assert told(house.ask(key, materials=TEXT)) == ("ready", PRICE)
    assert told(house.ask(key, materials=TEXT)) == ("ready", PRICE)
    assert house.account("materials.each") == (FUNDS - 2 * PRICE, [])


def test_a_call_that_fails_as_the_model_is_down_costs_nothing(
    house: House, make_key: MakeKey
) -> None:
    key = make_key("materials.down")
    house.fake.script.append(Reply())
    house.fake.usual = refusal(429, retry_after="60")
    assert told(house.ask(key, materials=TEXT)) == ("UNAVAILABLE", None)
    assert told(house.ask(key, materials=TEXT, idempotency_key="k")) == ("UNAVAILABLE", None)
    assert house.account("materials.down") == (FUNDS, [])
    house.fake.usual = Reply()
    assert told(house.ask(key, materials=TEXT, idempotency_key="k")) == ("ready", PRICE)
    assert house.account("materials.down") == (FUNDS - PRICE, [])


def test_a_call_whose_materials_are_refused_costs_nothing(house: House, make_key: MakeKey) -> None:
    key = make_key("materials.refused")
    house.fake.refuses = paragraph(3)
    for arguments in ({"materials": TEXT}, {"materials": " "}, {"document": "0" * 32}, {}):
        code, _ = told(house.ask(key, **arguments))
        assert code in ("VALIDATION_ERROR", "NOT_FOUND")
    assert house.account("materials.refused") == (FUNDS, [])


def test_who_cannot_pay_has_no_work_done(house: House, make_key: MakeKey) -> None:
    key = make_key("materials.poor")
    user = "materials.poor"
    in_access(house.realm, lambda store: store.accounts.credit(user, PRICE - 1 - FUNDS, utc_now()))
    before = len(house.fake.calls)
    assert told(house.ask(key, materials=TEXT)) == ("PAYMENT_REQUIRED", None)
    assert len(house.fake.calls) == before
    assert house.stored(user) == {}
    assert house.account(user) == (PRICE - 1, [])


def test_what_is_pending_is_paid_once_and_its_first_answer_free(
    house: House, make_key: MakeKey
) -> None:
    key = make_key("materials.pending")
    pending = house.ask(key, materials=LONG)
    assert told(pending) == ("pending", PRICE)
    document = pending["structuredContent"]["document"]
    house.fake.usual = refusal(429, retry_after="60")
    assert told(house.ask(key, document=document)) == ("UNAVAILABLE", None)
    assert house.account("materials.pending") == (FUNDS - PRICE, [])
    house.fake.usual = Reply()
    assert told(house.ask(key, document=document)) == ("ready", 0)
    assert house.account("materials.pending") == (FUNDS - PRICE, [])
    assert told(house.ask(key, document=document)) == ("ready", PRICE)
    assert house.account("materials.pending") == (FUNDS - 2 * PRICE, [])


@pytest.mark.slow
def test_a_call_sent_many_times_at_once_is_charged_once(twins: House, make_key: MakeKey) -> None:
    key = make_key("materials.once")
    results = twins.at_once(key, materials=TEXT, idempotency_key="k")
    contents_told = [result["structuredContent"]["contexts"] for result in results]
    assert contents_told == [contents_told[0]] * 4
    assert twins.account("materials.once") == (FUNDS - PRICE, [])


@pytest.mark.slow
def test_materials_brought_many_times_at_once_cost_once_each(
    twins: House, make_key: MakeKey
) -> None:
    key = make_key("materials.many")
    results = twins.at_once(key, materials=TEXT)
    assert [told(result) for result in results] == [("ready", PRICE)] * 4
    assert twins.account("materials.many") == (FUNDS - 4 * PRICE, [])


@pytest.mark.slow
def test_an_answer_that_was_paid_for_is_had_for_nothing_once(
    twins: House, make_key: MakeKey
) -> None:
    key = make_key("materials.prepaid")
    document = twins.ask(key, materials=LONG)["structuredContent"]["document"]
    results = twins.at_once(key, document=document)
    answered = [told(result)[0] for result in results].count("ready")
    assert answered  # one embeds; the others are told that it waits, for nothing
    assert twins.account("materials.prepaid") == (FUNDS - answered * PRICE, [])
