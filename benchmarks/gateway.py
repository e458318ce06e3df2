"""The cost of the gateway: a tool that returns its argument, behind it and behind two peers.

Usage: python -m benchmarks.gateway [ROUNDS]

The peers are the official SDK on the functions framework, and FastMCP, which is installed into an
environment of its own. All servers use the same event loop and HTTP parser, those of the gateway's
bundle, and one process each. In each round, each server answers 200 calls on 8 connections, which
send the next call as soon as the last is answered. Sign-in is off, as on a laptop.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.measurement import compute_ratio, make_measurement, measure_interleaved, print_table
from infra.build.discovery import ROOT
from infra.local.processes import (
    Program,
    ServerProcess,
    bind,
    format_address,
    make_checkout_program,
    run,
    serve,
    wait_until_serving,
)
from tests.support.cloud_run.bundles import LAPTOP
from tests.support.gateway_process import run_gateway
from tests.support.mcp_wire import CLIENT_META, HEADERS, MODERN, make_call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.measurement import Measurement

ROUNDS: Final = 20
CONNECTIONS: Final = 8
CALLS_PER_CONNECTION: Final = 25
GATEWAY: Final = "Carrel's gateway"
HANDSHAKE: Final = "2025-11-25"
TOOL: Final = "echo_text"
TEXT: Final = "What does a gateway cost?"
_SERVERS: Final = ROOT / "benchmarks" / "echo"
_FASTMCP: Final = LAPTOP / "fastmcp"
_UNUSED_DATABASE: Final = {
    "GOOGLE_CLOUD_PROJECT": "bench-gateway",
    "FIRESTORE_EMULATOR_HOST": "127.0.0.1:9",
}


def make_http_request(host: str, revision: str) -> bytes:
    """Return the bytes of a call in a revision of the protocol."""
    message = make_call(TOOL, {"text": TEXT})
    headers = {**HEADERS, "host": host, "mcp-protocol-version": revision}
    if revision == MODERN:
        message["params"]["_meta"] = CLIENT_META
        headers |= {"mcp-method": "tools/call", "mcp-name": TOOL}
    body = json.dumps(message).encode()
    headers["content-length"] = str(len(body))
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def send_round(host: str, request: bytes) -> None:
    """Send all calls of a round to a server."""
    calls = (_send_calls(host, request) for _ in range(CONNECTIONS))
    await asyncio.gather(*calls)


async def _send_calls(host: str, request: bytes) -> None:
    name, _, port = host.partition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    for _ in range(CALLS_PER_CONNECTION):
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        size = int(head.partition(b"content-length:")[2].partition(b"\r")[0])
        result = json.loads(await reader.readexactly(size))["result"]
        if result["structuredContent"] != {"text": TEXT}:
            raise RuntimeError(result)
    writer.close()
    await writer.wait_closed()


async def measure(hosts: Mapping[str, str], rounds: int) -> None:
    """Measure all servers in both kinds of revisions."""
    for revision in (MODERN, HANDSHAKE):
        durations = await measure_interleaved(
            _make_measurements(hosts, revision), rounds, warm_up=2
        )
        rows = []
        for name, seconds in durations.items():
            rate = CONNECTIONS * CALLS_PER_CONNECTION / median(seconds)
            rows.append([name, f"{rate:.0f}", f"{compute_ratio(seconds, durations[GATEWAY]):.2f}"])
        columns = ["server", "calls a second", "the gateway's throughput to it"]
        print_table(f"Revision {revision}", columns, rows)


def _make_measurements(hosts: Mapping[str, str], revision: str) -> dict[str, Measurement]:
    def calls(host: str) -> Measurement:
        request = make_http_request(host, revision)
        return make_measurement(lambda: send_round(host, request))

    return {name: calls(host) for name, host in hosts.items()}


def install_fastmcp() -> Path:
    """Return the Python of an environment with FastMCP, created if it does not exist."""
    python = _FASTMCP / "bin" / "python"
    if not python.exists():
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--python", sys.executable, str(_FASTMCP)], check=True)
        packages = ["fastmcp", "httptools", "uvloop"]
        subprocess.run([*uv, "pip", "install", "--python", str(python), *packages], check=True)
    return python


def start_fastmcp(stack: ExitStack, log: Path) -> ServerProcess:
    """Start FastMCP, which stops with the stack, and wait until it answers."""
    script = _SERVERS / "fastmcp_server.py"
    program = Program(script, install_fastmcp(), os.environ, ROOT)
    with bind() as listener:
        process = run(
            stack,
            [str(program.python), str(script), str(listener.fileno())],
            environment=program.environment,
            folder=program.folder,
            sockets=[listener],
            log=log,
        )
        server = ServerProcess(f"http://{format_address(listener)}", process)
    wait_until_serving(server, program)
    return server


def main(rounds: int) -> None:
    """Start the servers and measure them."""
    with ExitStack() as stack:
        log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "servers.log"
        gateway = run_gateway(_SERVERS / "carrel_gateway.py", _UNUSED_DATABASE, log)
        sdk = serve(make_checkout_program(_SERVERS / "official_sdk.py", {}), log=log)
        servers = {
            GATEWAY: stack.enter_context(gateway).gateway,
            "official SDK": stack.enter_context(sdk),
            "FastMCP": start_fastmcp(stack, log),
        }
        hosts = {name: server.url.removeprefix("http://") for name, server in servers.items()}
        asyncio.run(measure(hosts, rounds))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
