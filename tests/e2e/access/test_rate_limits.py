"""Rate limits that two instances of the gateway share."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.e2e.access.conftest import CLOUD, NOTEBOOK, key_maker
from tests.support.gateway_process import run_gateway
from tests.support.mcp_wire import make_call, make_request, post

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx2

    from tests.e2e.access.conftest import MakeKey
    from tests.support.gateway_process import RunningGateway

LIMIT_PER_MINUTE = 12
LEASED_TOKENS = 2
"""The number of tokens that an instance leases at once, a sixth of the limit."""


@pytest.fixture(scope="module")
def own_realm() -> str:
    """A project of its own, because other tests use up the limit of this machine's address."""
    return f"limits-{uuid.uuid4().hex[:16]}"


@pytest.fixture(scope="module")
def make_key(own_realm: str) -> MakeKey:
    return key_maker(own_realm)


@pytest.fixture(scope="module")
def pair(own_realm: str, log: Path) -> Iterator[tuple[RunningGateway, RunningGateway]]:
    """Two instances of one gateway with low limits."""
    limits = {
        f"{kind}_PER_MINUTE": str(LIMIT_PER_MINUTE) for kind in ("READS", "WRITES", "ANONYMOUS")
    }
    realm = {"GOOGLE_CLOUD_PROJECT": own_realm, "PUBLIC_ACCESS": "true"}
    environment = {**realm, **CLOUD, **limits}
    with (
        run_gateway(NOTEBOOK, environment, log) as first_gateway,
        run_gateway(NOTEBOOK, environment, log) as second_gateway,
    ):
        yield first_gateway, second_gateway


def ask(gateway: RunningGateway, tool: str, key: str | None) -> httpx2.Response:
    headers: dict[str, str | None] = {"authorization": f"Bearer {key}" if key else None}
    return post(gateway.endpoint, make_call(tool, {}), headers)


def is_limited(response: httpx2.Response) -> bool:
    assert response.status_code == 200
    result = response.json()["result"]
    return bool(result.get("isError")) and "RATE_LIMITED" in result["content"][0]["text"]


@pytest.mark.parametrize(("tool", "user"), [("read_notes", "limits.known"), ("read_sign", None)])
def test_two_instances_share_one_limit(
    pair: tuple[RunningGateway, RunningGateway], make_key: MakeKey, tool: str, user: str | None
) -> None:
    key = make_key(user) if user else None
    start = time.monotonic()
    accepted_count = sum(
        not is_limited(ask(pair[n % 2], tool, key)) for n in range(3 * LIMIT_PER_MINUTE)
    )
    minutes = (time.monotonic() - start) / 60
    assert (
        LIMIT_PER_MINUTE - LEASED_TOKENS
        <= accepted_count
        <= LIMIT_PER_MINUTE + LIMIT_PER_MINUTE * minutes + len(pair) * LEASED_TOKENS
    )


def test_a_limited_call_says_when_to_retry(
    pair: tuple[RunningGateway, RunningGateway], make_key: MakeKey
) -> None:
    key = make_key("limits.often")
    answers = [ask(pair[0], "read_notes", key) for _ in range(2 * LIMIT_PER_MINUTE)]
    limited = next(answer for answer in answers if is_limited(answer))
    error = limited.json()["result"]["content"][0]["text"]
    assert f"Rate limit reached: {LIMIT_PER_MINUTE} calls to tools that read per minute" in error
    assert int(limited.headers["retry-after"]) >= 1
    assert "retry-after" not in answers[0].headers
    assert not is_limited(ask(pair[0], "read_notes", make_key("limits.other")))


def test_listing_is_not_counted(
    pair: tuple[RunningGateway, RunningGateway], make_key: MakeKey
) -> None:
    headers: dict[str, str | None] = {"authorization": f"Bearer {make_key('limits.lists')}"}
    for _ in range(2 * LIMIT_PER_MINUTE):
        listed = post(pair[0].endpoint, make_request("tools/list"), headers)
        assert listed.json()["result"]["tools"]
