"""A rough limit for each address, which costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2
import pytest
from starlette.responses import PlainTextResponse

from functions.gateway.floods import MOST_KEPT, Floods

if TYPE_CHECKING:
    from starlette.types import Scope

pytestmark = pytest.mark.anyio


class Hand:
    """A clock's hand, in seconds."""

    at = 0.0

    def __call__(self) -> float:
        """Where it is."""
        return self.at


def of(address: str) -> Scope:
    return {"type": "http", "headers": [], "client": (address, 1)}


async def passed(floods: Floods, requests: int, address: str = "1.2.3.4") -> int:
    transport = httpx2.ASGITransport(floods, client=(address, 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://x") as http:
        answers = [await http.get("/") for _ in range(requests)]
    refused = [each for each in answers if each.status_code == 429]
    assert all(int(each.headers["retry-after"]) >= 1 for each in refused)
    return len(answers) - len(refused)


async def test_so_many_a_minute_and_no_more() -> None:
    hand = Hand()
    floods = Floods(PlainTextResponse("ok"), 60, 0, hand)
    assert 60 == await passed(floods, 80)
    hand.at += 10
    assert 10 == await passed(floods, 80)
    hand.at += 600
    assert 60 == await passed(floods, 80)


async def test_each_address_has_its_own() -> None:
    floods = Floods(PlainTextResponse("ok"), 5, 0, Hand())
    assert 5 == await passed(floods, 9)
    assert 5 == await passed(floods, 9, "5.6.7.8")


async def test_only_so_many_addresses_are_remembered() -> None:
    floods = Floods(PlainTextResponse("ok"), 5, 0, Hand())
    for number in range(MOST_KEPT + 10):
        floods._take(str(number))  # noqa: SLF001 - ten thousand requests would take long
    assert MOST_KEPT == len(floods._full_at)  # noqa: SLF001 - the same
