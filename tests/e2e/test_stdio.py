"""A client such as Claude Desktop starts `carrel stdio` and calls its tools."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskStatus
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from infra.build.discovery import ROOT
from tests.support.gateway_process import ACCESS_SECRET, FilledProject
from tests.support.mcp_wire import (
    HANDSHAKE,
    MODERN,
    TOOL_NAMES,
    make_call,
    make_initialize,
    make_request,
)

COMMAND = [str(Path(sys.executable).with_name("carrel")), "stdio"]
"""The command of the virtual environment, as a client's configuration names it."""
EMULATOR_VARIABLES = {"FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT"}
"""The variables that would point a command at the tests' own emulator."""


def make_server_variables(filled_project: FilledProject) -> dict[str, str]:
    """Return the variables that the server needs in addition to the usual ones."""
    return {
        **filled_project.environment,
        "ACCESS_SECRETS": json.dumps([ACCESS_SECRET]),
        "FIRESTORE_EMULATOR_HOST": os.environ["FIRESTORE_EMULATOR_HOST"],
    }


@pytest.mark.requirement("002-C2", "002-C3", "002-I3", "002-M7", "002-P4", "004-T4.1")
@pytest.mark.parametrize(
    ("mode", "version"),
    [("auto", MODERN), pytest.param("legacy", HANDSHAKE[0], marks=pytest.mark.slow)],
)
async def test_a_client_that_starts_its_server_searches_and_reads(
    filled_project: FilledProject, mode: str, version: str
) -> None:
    server = StdioServerParameters(
        command=COMMAND[0], args=COMMAND[1:], env=make_server_variables(filled_project), cwd=ROOT
    )
    async with Client(server, mode=mode) as client:
        assert client.protocol_version == version
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("search_kb", {"query": "熟成したチーズ 🧀", "limit": 1})
        [hit] = (result.structured_content or {})["results"]
        chunk = await client.call_tool("get_chunk", {"chunk_id": hit["chunk_id"]})
        error = await client.call_tool("get_chunk", {"chunk_id": "a/b"})
    assert names == TOOL_NAMES
    assert (chunk.structured_content or {})["content"] == filled_project.chunks[-1].content
    assert error.is_error
    assert error.structured_content is None


@pytest.mark.requirement("000-CR3")
def test_only_protocol_messages_are_written_to_standard_output(
    filled_project: FilledProject,
) -> None:
    messages = [
        make_initialize(HANDSHAKE[0]),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {**make_call("search_kb", {"query": "bread", "limit": 1}), "id": 2},
        {**make_call("search_kb", {"query": ""}), "id": 3},
        {**make_request("no/such"), "id": 4},
    ]
    with subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, **make_server_variables(filled_project)},
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        for message in messages:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
        requests = [message for message in messages if "id" in message]
        responses = [json.loads(process.stdout.readline()) for _ in requests]
        remaining_output, log = process.communicate(timeout=60)
    assert {response["id"] for response in responses} == {1, 2, 3, 4}
    assert [response["jsonrpc"] for response in responses] == ["2.0"] * 4
    assert remaining_output == ""
    assert process.returncode == 0
    assert "tool_call" in log


@pytest.mark.slow
async def test_a_second_client_outlives_the_first(tmp_path: Path) -> None:
    """Each opens the same files, and sees what others write."""
    variables = {"CARREL_STATE": str(tmp_path / "state")}
    server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=variables, cwd=ROOT)
    may_leave, has_left = anyio.Event(), anyio.Event()

    async def run_first_client(task_status: TaskStatus[None]) -> None:
        async with Client(server) as client:
            await ingest_note(tmp_path / "tea.md", variables)
            assert await find_titles(client) == ["Tea"]
            task_status.started()
            await may_leave.wait()
        has_left.set()

    async with anyio.create_task_group() as group:
        await group.start(run_first_client)
        async with Client(server) as second_client:
            assert await find_titles(second_client) == ["Tea"]
            may_leave.set()
            await has_left.wait()
            assert await find_titles(second_client) == ["Tea"]


async def ingest_note(note: Path, variables: dict[str, str]) -> None:
    """Ingest a note while clients are running."""
    await anyio.Path(note).write_text(
        "# Tea\n\nSteep green tea at seventy degrees for two minutes.\n"
    )
    inherited = {key: value for key, value in os.environ.items() if key not in EMULATOR_VARIABLES}
    await anyio.run_process([COMMAND[0], "ingest", str(note)], env={**inherited, **variables})


async def find_titles(client: Client) -> list[str]:
    """Return the titles that a client finds about tea."""
    result = await client.call_tool("search_kb", {"query": "how hot for green tea"})
    return [hit["title"] for hit in (result.structured_content or {})["results"]]
