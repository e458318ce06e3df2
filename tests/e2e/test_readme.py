"""The README's first screen, done as a new user does it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from typing import TYPE_CHECKING

import click
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from infra.build.discovery import ROOT
from infra.cli.main import main
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = [block.strip() for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)]
RUN, ADD, CALL, INGEST, EXTRACT, JOB, SIGN_IN, KEY = COMMANDS[:8]
OF_MAKE = [line for block in COMMANDS for line in block.splitlines() if line.startswith("make ")]
START_SECONDS = 300


class Running:
    """`make run`, and how to run a command of the README beside it."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.home = folder / "home"
        self.home.mkdir()
        self.lines: list[str] = []
        self.is_welcome = threading.Event()
        # Ports and folders of its own: the developer's run goes on undisturbed.
        self.environment = {key: value for key, value in os.environ.items() if key not in OTHERS}
        self.environment |= {
            "HOME": str(self.home),
            "EMULATOR_PORT": str(free_port()),
            "CARREL_STATE": str(folder / "Carrel's state"),
        }
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        self.lines.clear()
        self.is_welcome.clear()
        process = subprocess.Popen(
            [*RUN.split(), f"ARGS=--port {self.port}"],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        self.reader = threading.Thread(target=self.read, args=[process])
        self.reader.start()
        return process

    def read(self, process: subprocess.Popen[str]) -> None:
        """Keep what it prints, until nobody is left to print."""
        assert process.stdout
        with process.stdout:
            for line in process.stdout:
                self.lines.append(line)
                if "Ctrl-C ends it." in line:
                    self.is_welcome.set()
        self.is_welcome.set()

    def said(self) -> str:
        return "".join(self.lines)

    def await_welcome(self) -> None:
        assert self.is_welcome.wait(START_SECONDS), self.said()
        assert "Ctrl-C ends it." in self.said(), self.said()

    def printed(self, words: str) -> str:
        """The line to paste that holds these words."""
        [line] = [line for line in self.said().splitlines() if words in line]
        return line.strip()

    def paste(self, words: str) -> subprocess.CompletedProcess[str]:
        """Run a line that was printed as in a new window, which knows nothing of this run."""
        ours = {"EMULATOR_PORT", "CARREL_STATE"}
        environment = {key: value for key, value in self.environment.items() if key not in ours}
        return self.shell(self.printed(words), environment)

    def shell(
        self, command: str, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", command],
            cwd=ROOT,
            env=environment or self.environment,
            text=True,
            check=False,
            capture_output=True,
            timeout=120,
        )

    def call(self, command: str) -> subprocess.CompletedProcess[str]:
        return self.shell(f"{command} --url http://localhost:{self.port}/mcp")


OTHERS = {"FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    started = Running(tmp_path_factory.mktemp("readme"))
    try:
        started.await_welcome()
        yield started
    finally:
        os.killpg(started.process.pid, signal.SIGKILL)
        started.process.wait()
        started.reader.join()


@pytest.mark.slow
def test_the_run_prints_what_the_readme_says(running: Running) -> None:
    said = running.said()
    assert ADD.replace("8080", str(running.port)) in said
    assert f"{CALL} --url http://localhost:{running.port}/mcp" in said


@pytest.mark.anyio
@pytest.mark.slow
async def test_the_url_to_paste_is_that_of_the_endpoint(running: Running) -> None:
    *_, url = running.printed("claude mcp add").split()
    async with Client(url) as client:
        assert "search_kb" in [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.slow
def test_the_call_to_paste_finds_something_about_its_question(running: Running) -> None:
    found = json.loads(running.paste("carrel call").stdout)
    assert len(found["results"]) == 3
    assert "flaky" in found["results"][0]["snippet"].lower()


@pytest.mark.anyio
@pytest.mark.slow
async def test_what_the_pasted_ingest_puts_in_desktop_finds(running: Running) -> None:
    notes = running.home / "notes"
    notes.mkdir()
    (notes / "tea.md").write_text("# Tea\n\nSteep green tea at seventy degrees for two minutes.\n")
    assert INGEST in running.printed("carrel ingest")
    told = running.paste("carrel ingest")
    assert told.returncode == 0, told.stderr
    configured = json.loads(running.printed("mcpServers"))["mcpServers"]["carrel"]
    server = StdioServerParameters(**configured, cwd=running.home)
    async with Client(server) as client:
        found = await client.call_tool("search_kb", {"query": "how hot for green tea"})
    assert "Tea" == (found.structured_content or {})["results"][0]["title"]


@pytest.mark.slow
def test_the_key_passages_of_a_file_are_found(running: Running) -> None:
    told = running.call(EXTRACT)
    assert told.returncode == 0, told.stderr
    assert any("materials erase" in each for each in json.loads(told.stdout)["contexts"])


@pytest.mark.slow
def test_a_job_runs_and_says_what_it_cost(running: Running) -> None:
    told = running.shell(JOB)
    assert told.returncode == 0, told.stderr
    assert re.search(r"^cluster: .* documents read, .* written\)$", told.stdout, re.MULTILINE)


@pytest.mark.slow
def test_a_wrong_call_says_what_to_do(running: Running) -> None:
    told = running.call(".venv/bin/carrel call search_kb '{\"limit\": 0}'")
    error = json.loads(told.stderr)["error"]
    assert told.returncode == 1
    assert error["code"] == "VALIDATION_ERROR"
    assert error["details"].keys() == {"limit"}


def test_the_commands_of_make_are_its_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {command.split()[1] for command in OF_MAKE}
    assert {"run", "deploy", "test"} <= named <= targets


def test_the_commands_of_carrel_are_there() -> None:
    lines = [line for block in COMMANDS for line in block.splitlines()]
    said = [line.split()[1:] for line in lines if line.startswith(".venv/bin/carrel ")]
    for words in said:
        group: click.Command = main
        for word in (word for word in words if not word.startswith("-")):
            if not isinstance(group, click.Group):
                break
            assert word in group.commands, words
            group = group.commands[word]


@pytest.mark.slow
def test_interrupting_ends_everything_and_keeps_what_was_put_in(
    running: Running,
) -> None:
    os.killpg(running.process.pid, signal.SIGINT)
    running.process.wait(timeout=60)
    running.reader.join(timeout=60)
    ours = f"{running.port}|{running.environment['EMULATOR_PORT']}"
    left = subprocess.run(["pgrep", "-f", ours], check=False, capture_output=True)
    assert left.stdout == b""
    running.process = running.start()
    running.await_welcome()
    question = '.venv/bin/carrel call search_kb \'{"query": "how hot for green tea"}\''
    assert json.loads(running.call(question).stdout)["results"][0]["title"] == "Tea"
