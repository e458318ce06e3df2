"""A deployed gateway and a local run, `carrel up`, start and stop.

Cloud Functions call no hook when a process starts, so the first request starts the gateway.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from infra.build.discovery import ROOT
from tests.support.gateway_process import run_deployed_gateway
from tests.support.mcp_wire import HEADERS, make_call, make_request, post
from tests.support.ports import find_free_port

LIST_TOOLS = make_request("tools/list")
CARREL = [sys.executable, "-c", "from infra.cli.main import main; main()"]
DATABASE_VARIABLES = {"FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT", "ACCESS_SECRETS"}
"""The variables with which a command would use the database of the tests."""


def make_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a machine without data."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in DATABASE_VARIABLES
    }
    return {**inherited, "CARREL_STATE": str(folder / "state")}


@contextmanager
def run_up(port: int, environment: dict[str, str], *options: str) -> Iterator[str]:
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


def run_carrel(environment: dict[str, str], *arguments: str) -> str:
    """Run another command; return its output."""
    command = [*CARREL, *arguments]
    return subprocess.check_output(command, cwd=ROOT, env=environment, text=True, timeout=60)


def run_printed_line(output: str, words: str) -> str:
    """Run a printed line as in a new window, and return its output."""
    [line] = [line for line in output.splitlines() if words in line]
    unset = {*DATABASE_VARIABLES, "CARREL_STATE"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.check_output(["sh", "-c", line], cwd=ROOT, env=environment, text=True)


def get_list_status(port: int, key: str | None = None) -> int:
    """Return the status of a `tools/list` request with this key, or without one."""
    return post(f"http://localhost:{port}/mcp", LIST_TOOLS, {"x-api-key": key}).status_code


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


@pytest.mark.slow
def test_a_local_run_needs_no_sign_in_and_says_so(tmp_path: Path) -> None:
    port = find_free_port()
    with run_up(port, make_environment(tmp_path) | {"PUBLIC_ACCESS": "true"}) as output:
        assert "There is no sign-in: every program on this machine may read and write" in output
        assert "ARGS=--sign-in" in output
        response = post(f"http://localhost:{port}/mcp", make_call("save_note", {"text": "A note."}))
        note = response.json()["result"]["structuredContent"]
        assert note["readable_by"] == "everyone who may use this knowledge base"
        assert get_list_status(port) == 200
        assert get_list_status(port, "carrel_nonsense") == 403


@pytest.mark.slow
def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    command = [*CARREL, "up", "--no-sample", "--port", str(find_free_port())]

    def start(**variables: str) -> str:
        variables = environment | variables
        run = subprocess.run(
            command, cwd=ROOT, env=variables, check=False, stderr=subprocess.PIPE, text=True
        )
        assert run.returncode == 1
        return run.stderr

    folder = tmp_path / "state" / "databases" / "carrel-local"
    folder.mkdir(parents=True)
    (folder / "default.sqlite").write_bytes(b"no database" * 100)
    assert "DISABLED_TOOLS names unknown tools: zyzzyva." in start(DISABLED_TOOLS='["zyzzyva"]')
    assert "default.sqlite is damaged" in start()


@pytest.mark.slow
def test_a_run_of_functions_answers_calls(tmp_path: Path) -> None:
    """Each tool runs in its own process, without being packed or installed."""
    port = find_free_port()
    with run_up(port, make_environment(tmp_path), "--topology", "functions") as output:
        assert "Starting each tool in its own process" in output
        response = post(f"http://localhost:{port}/mcp", make_call("list_sources", {}))
        assert response.json()["result"]["structuredContent"]["sources"] == []


@pytest.mark.slow
def test_a_run_with_sign_in_says_how_to_make_a_key(tmp_path: Path) -> None:
    port = find_free_port()
    environment = make_environment(tmp_path)
    inherited = {"LOCAL_USER": "somebody", "PUBLIC_ACCESS": "true"}
    with run_up(port, environment | inherited, "--sign-in") as output:
        for words in ("Clients need a credential", "keys create", "sign-in page"):
            assert words in output
        assert get_list_status(port) == 401
        run_printed_line(output, "accounts role")
        key = run_printed_line(output, "keys create").strip()
        assert get_list_status(port, key) == 200

        _, row = run_carrel(environment, "keys", "list").splitlines()
        key_id = row.split()[0]
        run_carrel(environment, "keys", "revoke", key_id)
        assert get_list_status(port, key) == 401
