"""Processes that share a state folder: one of them reads a followed folder when it changes."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.local_machine import Machine
from tests.support.mcp_wire import make_call, post
from tests.support.ports import find_free_port
from tests.support.source_files import write_file
from tests.support.stdio_client import StdioClient

pytestmark = pytest.mark.slow

DEADLINE_SECONDS = 120
"""What takes this long does not happen, even on a busy machine."""
NOTES = 150
"""The files that a process reads when it is killed."""


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def save_by_rename(file: Path, text: str) -> None:
    """Replace a file, as editors do."""
    draft = file.with_name(f".{file.name}.swp")
    draft.write_text(text)
    draft.replace(file)


def is_found(port: int, word: str) -> bool:
    """Return whether a search by words of the gateway on a port finds something."""
    call = make_call("search_kb", {"query": word, "mode": "lexical"})
    answer = post(f"http://localhost:{port}/mcp", call).json()
    return bool(answer["result"]["structuredContent"]["results"])


def read_log(machine: Machine, port: int) -> list[dict[str, object]]:
    """Return the lines about jobs in the log of a gateway."""
    lines = (machine.state / f"functions-{port}.log").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["message"] == "job_run"]


def test_what_changes_is_found_in_seconds_and_only_one_process_works(
    machine: Machine, tmp_path: Path
) -> None:
    vault, ports = tmp_path / "vault", (find_free_port(), find_free_port())
    write_file(vault, "tea.md", "Steep green tea at seventy degrees.")
    for port in ports:
        machine.start_run(port=port)
    assert "The folder is followed" in machine.run("ingest", str(vault))
    assert "The folder is followed" not in machine.run("ingest", str(vault))
    wait_until(lambda: any(read_log(machine, port) for port in ports))

    save_by_rename(vault / "tea.md", "Steep black tea at ninety degrees.")
    wait_until(lambda: is_found(ports[1], "ninety"))
    assert not is_found(ports[0], "seventy")
    assert [bool(read_log(machine, port)) for port in ports].count(True) == 1
    assert "when it changes" in machine.run("ingest", "--list")

    output = machine.run("ingest", "--no-watch", str(vault))
    assert output.startswith(f"{vault} is no longer read when it changes.")
    assert "on command" in machine.run("ingest", "--list")


def test_another_process_goes_on_when_one_is_killed(machine: Machine, tmp_path: Path) -> None:
    """It is killed while it reads. The server of a client then reads the rest."""
    vault, port = tmp_path / "vault", find_free_port()
    write_file(vault, "0.md", "Edition 1 of note 0.")
    run, _ = machine.start_run(port=port)
    machine.run("ingest", str(vault))
    wait_until(lambda: read_log(machine, port) != [])
    client = StdioClient(machine)
    for number in range(NOTES):
        write_file(vault, f"{number}.md", f"Edition 2 of note {number} is about tea.")

    def count() -> int:
        return int(client.call("list_sources", {"limit": 1})["total"])

    wait_until(lambda: count() > 1)
    os.kill(run.pid, signal.SIGKILL)
    wait_until(lambda: count() == NOTES)

    def is_searchable() -> bool:
        stats = client.call("get_stats", {})
        return stats["chunks"] == NOTES and not any(stats["waiting"].values())

    wait_until(is_searchable)
