"""`carrel stdio`, which Claude Desktop starts by itself, at both eras of the protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from infra.build.discovery import ROOT
from infra.file_lock import locked
from infra.local.emulator_daemon import StateFolder
from tests.support.gateway_process import SECRET
from tests.support.mcp_wire import HANDSHAKE, MODERN, TOOL_NAMES, call, initialize, message
from tests.support.ports import free_port

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from tests.support.gateway_process import Library

COMMAND = [str(Path(sys.executable).with_name("carrel")), "stdio"]
"""As a client's configuration file has it: the command in the virtual environment."""
OTHERS = {"FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT"}
"""Variables that would point a command at the tests' own emulator."""


def environment(library: Library) -> dict[str, str]:
    """What the server needs beside the usual variables."""
    return {
        **library.environment,
        "ACCESS_SECRETS": json.dumps([SECRET]),
        "FIRESTORE_EMULATOR_HOST": os.environ["FIRESTORE_EMULATOR_HOST"],
    }


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("mode", "version"),
    [("auto", MODERN), pytest.param("legacy", HANDSHAKE[0], marks=pytest.mark.slow)],
)
async def test_a_client_that_starts_its_server_searches_and_reads(
    library: Library, mode: str, version: str
) -> None:
    server = StdioServerParameters(
        command=COMMAND[0], args=COMMAND[1:], env=environment(library), cwd=ROOT
    )
    async with Client(server, mode=mode) as client:
        assert client.protocol_version == version
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("search_kb", {"query": "熟成したチーズ 🧀", "limit": 1})
        [hit] = (result.structured_content or {})["results"]
        read = await client.call_tool("get_chunk", {"chunk_id": hit["chunk_id"]})
        failed = await client.call_tool("get_chunk", {"chunk_id": "a/b"})
    assert names == TOOL_NAMES
    assert (read.structured_content or {})["content"] == library.chunks[-1].content
    assert failed.is_error
    assert failed.structured_content is None


def test_nothing_but_protocol_is_written_to_standard_output(library: Library) -> None:
    messages = [
        initialize(HANDSHAKE[0]),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {**call("search_kb", {"query": "bread", "limit": 1}), "id": 2},
        {**call("search_kb", {"query": ""}), "id": 3},
        {**message("no/such"), "id": 4},
    ]
    with subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, **environment(library)},
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        for line in messages:
            process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for line in messages if "id" in line]
        rest, logged = process.communicate(timeout=60)
    assert {answer["id"] for answer in answers} == {1, 2, 3, 4}
    assert tuple(answer["jsonrpc"] for answer in answers) == ("2.0",) * 4
    assert rest == ""
    assert process.returncode == 0
    assert "tool_call" in logged


@pytest.mark.anyio
@pytest.mark.slow
async def test_of_two_clients_the_first_may_end_and_the_second_goes_on(
    tmp_path: Path,
) -> None:
    alone = {"CARREL_STATE": str(tmp_path / "state"), "EMULATOR_PORT": str(free_port())}
    server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=alone, cwd=ROOT)
    leave, left = anyio.Event(), anyio.Event()

    async def first(task_status: TaskStatus[None]) -> None:
        async with Client(server) as client:
            await put_in(tmp_path / "tea.md", alone)
            assert await titles(client) == ["Tea"]
            task_status.started()
            await leave.wait()
        left.set()

    async with anyio.create_task_group() as group:
        await group.start(first)
        async with Client(server) as second:
            assert await titles(second) == ["Tea"]
            leave.set()
            await left.wait()
            assert await titles(second) == ["Tea"]
    await_end_of_database(StateFolder(tmp_path / "state"))


async def put_in(note: Path, where: dict[str, str]) -> None:
    """Put a note in beside the clients that run."""
    await anyio.Path(note).write_text(
        "# Tea\n\nSteep green tea at seventy degrees for two minutes.\n"
    )
    inherited = {key: value for key, value in os.environ.items() if key not in OTHERS}
    await anyio.run_process([COMMAND[0], "ingest", str(note)], env={**inherited, **where})


async def titles(client: Client) -> list[str]:
    """What a client finds about tea."""
    result = await client.call_tool("search_kb", {"query": "how hot for green tea"})
    return [hit["title"] for hit in (result.structured_content or {})["results"]]


def await_end_of_database(state: StateFolder) -> None:
    """Leave nothing behind that the next tests would share the machine with."""
    with locked(state.daemon):  # the keeper holds it as long as it lives
        pass
