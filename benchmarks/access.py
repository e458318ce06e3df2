"""The cost of authentication: the same call without a credential, with a token and with a key.

Usage: python -m benchmarks.access [ROUNDS]

The tool answers immediately and reads nothing, so only the gateway's work is measured. For
comparison, the table has one bare read of a small document: checking a token costs one such read,
checking a key costs two concurrent ones.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx2
from pydantic import SecretStr

from benchmarks.emulator import use_emulator
from benchmarks.measurement import (
    compute_ratio,
    format_milliseconds,
    make_measurement,
    measure_interleaved,
    print_table,
)
from functions.gateway.access import Access
from shared.accounts.access_key import new_key
from shared.accounts.repositories.access_store import AccessStore
from shared.core.caller import FULL_ACCESS
from shared.core.settings import Settings
from tests.e2e.access.conftest import CLOUD_SETTINGS, NOTEBOOK
from tests.support.gateway_process import ACCESS_SECRET, run_gateway
from tests.support.mcp_wire import HEADERS, make_call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

ROUNDS: Final = 200
WARM_UP: Final = 10
PROJECT: Final = "bench-access"
USER: Final = "reader"
_NO_RATE_LIMIT: Final = {"READS_PER_MINUTE": "1000000"}


async def measure(local_endpoint: str, cloud_endpoint: str, rounds: int) -> None:
    """Time the same call with each kind of credential, and print the table."""
    url = cloud_endpoint.removesuffix("/mcp")
    access = Access(
        Settings(
            google_cloud_project=PROJECT, access_secrets=[SecretStr(ACCESS_SECRET)], public_url=url
        )
    )
    store = AccessStore(access.connection)
    key, access_key = new_key(
        access.keyring, USER, "bench", FULL_ACCESS, created_at=datetime.now(UTC)
    )
    await store.keys.add(access_key)
    token = access.tokens.issue(
        user_id=USER, client_id="bench", scopes=FULL_ACCESS, grant_id="bench"
    )
    async with httpx2.AsyncClient(timeout=30) as http:
        call_tool = partial(_call_tool, http)
        operations: dict[str, Callable[[], Awaitable[object]]] = {
            "one bare read": partial(store.accounts.get, USER),
            "no credential, on a laptop": partial(call_tool, local_endpoint, {}),
            "access token": partial(
                call_tool, cloud_endpoint, {"authorization": f"Bearer {token}"}
            ),
            "key": partial(call_tool, cloud_endpoint, {"authorization": f"Bearer {key}"}),
        }
        timed_operations = {
            name: make_measurement(operation) for name, operation in operations.items()
        }
        measurements = await measure_interleaved(timed_operations, rounds, WARM_UP)
    without_credential = measurements["no credential, on a laptop"]
    rows = [
        [name, format_milliseconds(seconds), f"{compute_ratio(seconds, without_credential):.2f}"]
        for name, seconds in measurements.items()
    ]
    print_table("A call that does nothing", ["credential", "ms", "to no credential"], rows)
    await access.connection.aclose()


async def _call_tool(http: httpx2.AsyncClient, endpoint: str, headers: Mapping[str, str]) -> None:
    response = await http.post(
        endpoint, json=make_call("read_sign", {}), headers={**HEADERS, **headers}
    )
    assert response.json()["result"]["structuredContent"]


def main(rounds: int) -> None:
    """Start an emulator and two gateways, and measure."""
    with ExitStack() as stack:
        stack.enter_context(use_emulator())
        log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "gateway.log"
        project = {"GOOGLE_CLOUD_PROJECT": PROJECT}
        local_gateway = stack.enter_context(run_gateway(NOTEBOOK, project, log))
        cloud_gateway = stack.enter_context(
            run_gateway(NOTEBOOK, project | CLOUD_SETTINGS | _NO_RATE_LIMIT, log)
        )
        asyncio.run(measure(local_gateway.endpoint, cloud_gateway.endpoint, rounds))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
