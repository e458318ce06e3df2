"""`/health` reports failed dependencies, but checks them only from time to time."""

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


async def test_states_are_cached_and_changes_noticed(monotonic: MonotonicClock) -> None:
    dispatcher = FailingDispatcher()
    health = HealthEndpoint(dispatcher, embedding="local", healthy_ttl=60, unhealthy_ttl=60)

    async def check(*pauses: float) -> list[int]:
        statuses = []
        for pause in pauses:
            monotonic.advance(pause)
            statuses.append((await health.answer(REQUEST)).status_code)
        return statuses

    assert await check(0, 25, 25) == [200, 200, 200]
    assert dispatcher.checks == 1
    assert await check(25, 25) == [503, 503]
    assert dispatcher.checks == 2
    dispatcher.checks = 0
    assert await check(36) == [200]


async def test_an_unhealthy_state_is_checked_again_soon(monotonic: MonotonicClock) -> None:
    dispatcher = FailingDispatcher()
    dispatcher.checks = 1
    health = HealthEndpoint(dispatcher, embedding="local")
    assert (await health.answer(REQUEST)).status_code == 503
    dispatcher.checks = 0
    monotonic.advance(2)
    assert (await health.answer(REQUEST)).status_code == 200
