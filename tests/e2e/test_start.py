"""A deployed gateway starts and stops.

Cloud Functions call no hook when a process starts, so the first request starts the gateway.
"""

import os
import signal
from pathlib import Path

import anyio
import httpx2

from tests.support.gateway_process import run_deployed_gateway
from tests.support.mcp_wire import HEADERS, make_request

LIST_TOOLS = make_request("tools/list")


async def test_concurrent_first_requests_are_all_answered(log: Path) -> None:
    statuses: list[int] = []
    with run_deployed_gateway({}, log) as gateway:

        async def send_request(client: httpx2.AsyncClient) -> None:
            response = await client.post(gateway.endpoint, json=LIST_TOOLS, headers=HEADERS)
            assert response.json()["result"]["tools"]
            statuses.append(response.status_code)

        async with httpx2.AsyncClient(timeout=60) as client, anyio.create_task_group() as group:
            for _ in range(16):
                group.start_soon(send_request, client)
    assert statuses == [200] * 16


def test_a_gateway_stops_cleanly_on_sigterm(log: Path) -> None:
    with run_deployed_gateway({}, log) as gateway:
        httpx2.post(gateway.endpoint, json=LIST_TOOLS, headers=HEADERS)
        os.killpg(gateway.gateway.process.pid, signal.SIGTERM)
        assert gateway.gateway.process.wait(timeout=60) == 0
