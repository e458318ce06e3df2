"""Starting and ending: the framework offers no lifespan hook, so the first request starts MCP."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import anyio
import httpx2
import pytest

from tests.e2e.running import GATEWAY, run_gateway
from tests.e2e.wire import HEADERS, message

if TYPE_CHECKING:
    from pathlib import Path


LISTING = message("tools/list")


@pytest.mark.anyio
async def test_requests_that_all_come_first_are_all_answered(log: Path) -> None:
    statuses: list[int] = []
    with run_gateway(GATEWAY, {}, log) as running:

        async def ask(client: httpx2.AsyncClient) -> None:
            response = await client.post(running.endpoint, json=LISTING, headers=HEADERS)
            statuses.append(response.status_code if response.json()["result"]["tools"] else 0)

        async with httpx2.AsyncClient(timeout=20) as client, anyio.create_task_group() as group:
            for _ in range(16):
                group.start_soon(ask, client)
    assert [200] * 16 == statuses


def test_a_gateway_ends_cleanly_when_it_is_told_to(log: Path) -> None:
    with run_gateway(GATEWAY, {}, log) as running:
        httpx2.post(running.endpoint, json=LISTING, headers=HEADERS)
        os.killpg(running.gateway.process.pid, signal.SIGTERM)
        assert 0 == running.gateway.process.wait(timeout=10)
