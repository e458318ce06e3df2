"""Start and stop of local runs. The framework has no lifespan hook: the first request starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
import httpx2
import pytest

from infra.build.discovery import ROOT
from tests.support.gateway_process import run_deployed_gateway
from tests.support.mcp_wire import HEADERS, call, message, post
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


LISTING = message("tools/list")
CARREL = [sys.executable, "-c", "from infra.cli.main import main; main()"]
OTHERS = {"FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT", "ACCESS_SECRETS"}
"""With these variables, a command would use the database of the tests."""


def machine(folder: Path) -> dict[str, str]:
    """The environment of a machine without data."""
    ours = {"CARREL_STATE": str(folder / "state"), "EMULATOR_PORT": str(free_port())}
    return {name: value for name, value in os.environ.items() if name not in OTHERS} | ours


@contextmanager
def up(port: int, environment: dict[str, str], *options: str) -> Iterator[str]:
    """Run `carrel up` until the block ends; yield its output once it answers."""
    command = [*CARREL, "up", "--no-sample", "--port", str(port), *options]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if "Press Ctrl-C to stop." in line:
                    break
            yield "".join(lines)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


def carrel(environment: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    """Run another command; return its exit code, output and errors."""
    done = subprocess.run(
        [*CARREL, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def run_printed_line(output: str, words: str) -> str:
    """Run a printed line as in a new window, and return its output."""
    [line] = [line for line in output.splitlines() if words in line]
    ours = {*OTHERS, "CARREL_STATE", "EMULATOR_PORT"}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.check_output(["sh", "-c", line], cwd=ROOT, env=environment, text=True)


def listing(port: int, **headers: str) -> int:
    """The status of a `tools/list` request."""
    sent = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.post(f"http://localhost:{port}/mcp", json=LISTING, headers=sent).status_code


@pytest.mark.anyio
async def test_concurrent_first_requests_are_all_answered(log: Path) -> None:
    statuses: list[int] = []
    with run_deployed_gateway({}, log) as running:

        async def ask(client: httpx2.AsyncClient) -> None:
            response = await client.post(running.endpoint, json=LISTING, headers=HEADERS)
            statuses.append(response.status_code if response.json()["result"]["tools"] else 0)

        async with httpx2.AsyncClient(timeout=60) as client, anyio.create_task_group() as group:
            for _ in range(16):
                group.start_soon(ask, client)
    assert statuses == [200] * 16


def test_a_gateway_stops_cleanly_on_sigterm(log: Path) -> None:
    with run_deployed_gateway({}, log) as running:
        httpx2.post(running.endpoint, json=LISTING, headers=HEADERS)
        os.killpg(running.gateway.process.pid, signal.SIGTERM)
        assert running.gateway.process.wait(timeout=60) == 0


@pytest.mark.slow
def test_a_local_run_needs_no_sign_in_and_says_so(tmp_path: Path) -> None:
    port = free_port()
    with up(port, machine(tmp_path) | {"PUBLIC_ACCESS": "false"}) as lines:
        assert "There is no sign-in: every program on this machine may read and write" in lines
        assert "ARGS=--sign-in" in lines
        assert listing(port) == 200
        assert listing(port, x_api_key="carrel_nonsense") == 403


@pytest.mark.slow
def test_a_run_of_functions_answers_calls(tmp_path: Path) -> None:
    """Each tool is a process of its own there; nothing is packed or installed for it."""
    port = free_port()
    with up(port, machine(tmp_path), "--topology", "functions") as lines:
        assert "Starting each tool in its own process" in lines
        response = post(f"http://localhost:{port}/mcp", call("list_sources", {}))
        assert response.json()["result"]["structuredContent"]["sources"] == []


@pytest.mark.slow
def test_a_run_with_sign_in_says_how_to_make_a_key(tmp_path: Path) -> None:
    port, environment = free_port(), machine(tmp_path)
    inherited = {"LOCAL_USER": "somebody", "PUBLIC_ACCESS": "true"}
    with up(port, environment | inherited, "--sign-in") as lines:
        for words in ("Clients need a credential", "keys create", "sign-in page"):
            assert words in lines
        assert listing(port) == 401
        key = run_printed_line(lines, "keys create")
        assert listing(port, x_api_key=key.strip()) == 200
        _, processes, _ = carrel(environment, "keys", "list")
        carrel(environment, "keys", "revoke", processes.splitlines()[1].split()[0])
        assert listing(port, x_api_key=key.strip()) == 401


@pytest.mark.slow
def test_a_key_outlives_a_database_that_is_killed_right_after(tmp_path: Path) -> None:
    port, environment = free_port(), machine(tmp_path)
    with up(port, environment, "--sign-in"):
        _, key, _ = carrel(environment, "keys", "create", "--user", "ann", "--name", "test")
        os.kill(keeper(tmp_path / "state"), signal.SIGKILL)
    with up(port, environment, "--sign-in"):
        assert listing(port, x_api_key=key.strip()) == 200


def keeper(state: Path) -> int:
    """The process id of the database daemon."""
    processes = subprocess.check_output(["ps", "-A", "-ww", "-o", "pid=,args="], text=True)
    [line] = [
        line for line in processes.splitlines() if f"infra.local.emulator_daemon {state} " in line
    ]
    return int(line.split()[0])
