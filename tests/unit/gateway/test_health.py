"""`/health` reports failed dependencies, but checks them only from time to time."""

from __future__ import annotations

from starlette.requests import Request

from functions.gateway.app import HealthEndpoint
from functions.gateway.catalog import Declaration
from shared.runtime.messages import CallAnswer, CallRequest
from tests.support.monotonic_clock import MonotonicClock

REQUEST = Request({"type": "http"})


class FailingDispatcher:
    """A dispatcher whose only dependency is healthy at the first check, and never again."""

    checks = 0

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        raise AssertionError((tool, request))

    async def health(self) -> dict[str, str]:
        self.checks += 1
        return {"part": "ok" if self.checks == 1 else "unreachable"}


async def test_a_healthy_state_is_cached() -> None:
    dispatcher = FailingDispatcher()
    health = HealthEndpoint(dispatcher, healthy_ttl=60)
    responses = [await health.answer(REQUEST) for _ in range(3)]
    assert [response.status_code for response in responses] == [200, 200, 200]
    assert dispatcher.checks == 1


async def test_a_failed_dependency_is_noticed_despite_caching(monotonic: MonotonicClock) -> None:
    health = HealthEndpoint(FailingDispatcher(), healthy_ttl=60)
    statuses = []
    for _ in range(4):
        statuses.append((await health.answer(REQUEST)).status_code)
        monotonic.advance(25)
    assert statuses == [200, 200, 200, 503]


async def test_a_recovered_dependency_is_noticed(monotonic: MonotonicClock) -> None:
    dispatcher = FailingDispatcher()
    dispatcher.checks = 1
    health = HealthEndpoint(dispatcher)
    assert (await health.answer(REQUEST)).status_code == 503
    dispatcher.checks = 0
    monotonic.advance(2)
    assert (await health.answer(REQUEST)).status_code == 200


async def test_an_unhealthy_state_is_cached() -> None:
    dispatcher = FailingDispatcher()
    dispatcher.checks = 1
    health = HealthEndpoint(dispatcher, unhealthy_ttl=60)
    responses = [await health.answer(REQUEST) for _ in range(3)]
    assert [response.status_code for response in responses] == [503, 503, 503]
    assert dispatcher.checks == 2
