"""The rate limit per address bounds the requests of strangers without a database."""

import asyncio
import itertools

import httpx2
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from functions.gateway.rate_limits import MAX_ADDRESSES, MAX_CONCURRENT_REQUESTS, AddressRateLimit
from tests.support.clock import SettableMonotonicClock


async def count_accepted(
    limit: AddressRateLimit, requests: int, address: str = "1.2.3.4", method: str = "GET"
) -> int:
    """Send requests from an address; return how many the limit accepts."""
    transport = httpx2.ASGITransport(limit, client=(address, 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://x") as http:
        responses = [await http.request(method, "/") for _ in range(requests)]
    rejected_responses = [response for response in responses if response.status_code == 429]
    assert all(int(response.headers["retry-after"]) >= 1 for response in rejected_responses)
    return len(responses) - len(rejected_responses)


async def test_requests_per_minute_are_limited() -> None:
    clock = SettableMonotonicClock()
    limit = AddressRateLimit(PlainTextResponse("ok"), 60, 0, clock)
    assert await count_accepted(limit, 80) == 60
    assert await count_accepted(limit, 80, "5.6.7.8") == 60
    assert await count_accepted(limit, 80, method="OPTIONS") == 80
    for seconds, accepted in ((10, 10), (600, 60)):
        clock.now += seconds
        assert await count_accepted(limit, 80) == accepted


async def test_number_of_remembered_addresses_is_limited() -> None:
    limit = AddressRateLimit(PlainTextResponse("ok"), 5, 0, SettableMonotonicClock())
    for number in range(MAX_ADDRESSES + 10):
        limit._take(str(number))  # noqa: SLF001 - ten thousand requests would take long
    assert len(limit._full_at) == MAX_ADDRESSES  # noqa: SLF001 - the same


async def test_one_address_cannot_take_all_slots() -> None:
    release = asyncio.Event()
    all_slots_taken = asyncio.Event()
    request_numbers = itertools.count(1)

    async def answer_when_released(scope: Scope, receive: Receive, send: Send) -> None:
        if next(request_numbers) == MAX_CONCURRENT_REQUESTS:
            all_slots_taken.set()
        await release.wait()
        await PlainTextResponse("ok")(scope, receive, send)

    limit = AddressRateLimit(answer_when_released, 1_000, 0, SettableMonotonicClock())
    first_client, second_client = (
        httpx2.AsyncClient(transport=httpx2.ASGITransport(limit, client=(name, 1)))
        for name in ("1.2.3.4", "5.6.7.8")
    )
    async with first_client, second_client:
        tasks = [
            asyncio.create_task(first_client.get("http://x/"))
            for _ in range(MAX_CONCURRENT_REQUESTS)
        ]
        await all_slots_taken.wait()
        assert (await first_client.get("http://x/")).status_code == 429
        tasks.append(asyncio.create_task(second_client.get("http://x/")))
        release.set()
        responses = await asyncio.gather(*tasks)
        assert {response.status_code for response in responses} == {200}
        assert (await first_client.get("http://x/")).status_code == 200
