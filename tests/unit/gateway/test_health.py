"""`/health` tells the truth, but does not look at every request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from starlette.requests import Request

from functions.gateway.app import HealthEndpoint

if TYPE_CHECKING:
    from functions.gateway.catalog import Declaration
    from shared.runtime.messages import CallAnswer, CallRequest
    from tests.support.monotonic_clock import Monotonic

pytestmark = pytest.mark.anyio

REQUEST = Request({"type": "http"})


class Dying:
    """A dispatcher whose one part is well at the first look, and never again."""

    looks = 0

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        raise AssertionError((tool, request))

    async def health(self) -> dict[str, str]:
        self.looks += 1
        return {"part": "ok" if self.looks == 1 else "unreachable"}


async def test_a_healthy_state_is_cached() -> None:
    dispatcher = Dying()
    health = HealthEndpoint(dispatcher, healthy_ttl=60)
    answers = [await health.answer(REQUEST) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert dispatcher.looks == 1


async def test_failed_part_is_noticed_despite_frequent_requests(
    monotonic: Monotonic,
) -> None:
    health = HealthEndpoint(Dying(), healthy_ttl=60)
    statuses = []
    for _ in range(4):
        statuses.append((await health.answer(REQUEST)).status_code)
        monotonic.turn(25)
    assert statuses == [200, 200, 200, 503]


async def test_recovered_part_is_noticed(monotonic: Monotonic) -> None:
    dispatcher = Dying()
    dispatcher.looks = 1
    health = HealthEndpoint(dispatcher)
    assert (await health.answer(REQUEST)).status_code == 503
    dispatcher.looks = 0
    monotonic.turn(2)
    assert (await health.answer(REQUEST)).status_code == 200


async def test_an_unhealthy_state_is_cached() -> None:
    dispatcher = Dying()
    dispatcher.looks = 1
    health = HealthEndpoint(dispatcher, unhealthy_ttl=60)
    answers = [await health.answer(REQUEST) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [503, 503, 503]
    assert dispatcher.looks == 2
