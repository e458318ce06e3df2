"""Two instances of the gateway share one rate limit per user, and one for anonymous callers."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.access import CLOUD_SETTINGS, NOTEBOOK, MakeKey, build_key_maker
from tests.support.gateway_process import RunningGateway, run_gateway
from tests.support.mcp_wire import make_call, make_request, post

LIMIT_PER_MINUTE = 12
LEASED_TOKENS = 2
"""The number of tokens that an instance leases at once, a sixth of the limit."""


@pytest.fixture(scope="module")
def own_project() -> str:
    """A project of its own, because other tests use up the limit of this machine's address."""
    return f"limits-{uuid.uuid4().hex[:16]}"


@pytest.fixture(scope="module")
def make_key(own_project: str) -> MakeKey:
    """A function that makes keys for these gateways."""
    return build_key_maker(own_project)


@pytest.fixture(scope="module")
def pair(own_project: str, log: Path) -> Iterator[tuple[RunningGateway, RunningGateway]]:
    """Two instances of one gateway with low limits."""
    environment = {
        **CLOUD_SETTINGS,
        "GOOGLE_CLOUD_PROJECT": own_project,
        "PUBLIC_ACCESS": "true",
        "READS_PER_MINUTE": str(LIMIT_PER_MINUTE),
        "WRITES_PER_MINUTE": str(LIMIT_PER_MINUTE),
        "ANONYMOUS_PER_MINUTE": str(LIMIT_PER_MINUTE),
    }
    with (
        run_gateway(NOTEBOOK, environment, log) as first_gateway,
        run_gateway(NOTEBOOK, environment, log) as second_gateway,
    ):
        yield first_gateway, second_gateway


def call_tool(gateway: RunningGateway, tool: str, key: str | None) -> httpx2.Response:
    """Call a tool with a key, or anonymously."""
    headers: dict[str, str | None] = {"authorization": f"Bearer {key}" if key else None}
    return post(gateway.endpoint, make_call(tool, {}), headers)


def is_limited(response: httpx2.Response) -> bool:
    """Return whether the rate limit rejected this call."""
    assert response.status_code == 200
    result = response.json()["result"]
    return bool(result.get("isError")) and "RATE_LIMITED" in result["content"][0]["text"]


@pytest.mark.requirement("002-L5", "003-Q1")
@pytest.mark.parametrize(("tool", "user"), [("read_notes", "limits.known"), ("read_sign", None)])
def test_two_instances_share_one_limit(
    pair: tuple[RunningGateway, RunningGateway], make_key: MakeKey, tool: str, user: str | None
) -> None:
    key = make_key(user) if user else None
    start = time.monotonic()
    responses = [call_tool(pair[number % 2], tool, key) for number in range(3 * LIMIT_PER_MINUTE)]
    minutes = (time.monotonic() - start) / 60

    accepted_count = [is_limited(response) for response in responses].count(False)
    # The limit starts full, and is refilled while the calls run.
    assert (
        LIMIT_PER_MINUTE - LEASED_TOKENS
        <= accepted_count
        <= LIMIT_PER_MINUTE + LIMIT_PER_MINUTE * minutes + len(pair) * LEASED_TOKENS
    )


@pytest.mark.requirement("001-L3")
def test_a_limited_call_says_when_to_retry(
    pair: tuple[RunningGateway, RunningGateway], make_key: MakeKey
) -> None:
    key = make_key("limits.often")
    responses = [call_tool(pair[0], "read_notes", key) for _ in range(2 * LIMIT_PER_MINUTE)]
    limited = next(response for response in responses if is_limited(response))
    error = limited.json()["result"]["content"][0]["text"]
    assert f"Rate limit reached: {LIMIT_PER_MINUTE} calls to tools that read per minute" in error
    assert int(limited.headers["retry-after"]) >= 1
    assert "retry-after" not in responses[0].headers
    assert not is_limited(call_tool(pair[0], "read_notes", make_key("limits.other")))


def test_listing_tools_does_not_count_against_the_limit(
    pair: tuple[RunningGateway, RunningGateway], make_key: MakeKey
) -> None:
    headers: dict[str, str | None] = {"authorization": f"Bearer {make_key('limits.lists')}"}
    for _ in range(2 * LIMIT_PER_MINUTE):
        response = post(pair[0].endpoint, make_request("tools/list"), headers)
        assert response.json()["result"]["tools"]
