"""The commands of the README and the documents work as a new user runs them."""

import json
import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from infra.build.discovery import ROOT
from tests.support.ports import find_free_port

START_TIMEOUT_SECONDS = 300
END_OF_WELCOME = "Ctrl-C"
"""The text in the last line that a run prints when it has started."""
UNSET_VARIABLES = {
    "FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT", "MAKEFLAGS", "MAKELEVEL", "MFLAGS",
}  # fmt: skip
"""The variables of a developer's own run, or of the `make` that runs the tests."""


def find_command(document: str, beginning: str) -> str:
    """Return the only command of a document that begins with these words."""
    text = (ROOT / document).read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    commands: list[str] = [line for line in lines if line.startswith(beginning)]
    assert len(commands) == 1, commands
    return commands[0]


RUN_COMMAND = find_command("README.md", "make run")
ADD_COMMAND = find_command("README.md", "claude mcp add")
CALL_COMMAND = find_command("README.md", ".venv/bin/carrel call")
INGEST_COMMAND = find_command("README.md", ".venv/bin/carrel ingest")
EXTRACT_COMMAND = find_command("docs/tools.md", ".venv/bin/carrel call extract_key_info")
EXPORT_COMMAND = find_command("README.md", ".venv/bin/carrel export")
JOB_COMMAND = find_command("docs/deploy.md", ".venv/bin/carrel jobs run")


class LocalRun:
    """`make run` with its own ports and folders, and commands in other windows.

    Attributes:
        port: The port of the gateway.
        home: The home folder of the user.
        lines: The lines that the run has printed.
        welcome_printed: Is set when the run has started, or has ended.
        environment: The environment variables of the run.
        process: The process of `make`.
        reader: The thread that collects the output.
    """

    def __init__(self, folder: Path) -> None:
        """Start a run whose data is in this folder."""
        self.port = find_free_port()
        self.home = folder / "home"
        self.home.mkdir()
        self.lines: list[str] = []
        self.welcome_printed = threading.Event()
        self.environment = {
            key: value for key, value in os.environ.items() if key not in UNSET_VARIABLES
        }
        self.environment |= {
            "HOME": str(self.home),
            "CARREL_STATE": str(folder / "Carrel's state"),
        }
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        """Start `make run`, and collect its output in a thread."""
        self.lines.clear()
        self.welcome_printed.clear()
        process = subprocess.Popen(
            [*RUN_COMMAND.split(), f"ARGS=--port {self.port}"],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        self.reader = threading.Thread(target=self.read_output, args=[process])
        self.reader.start()
        return process

    def read_output(self, process: subprocess.Popen[str]) -> None:
        """Collect the output until the last process of the run has ended."""
        assert process.stdout
        with process.stdout:
            for line in process.stdout:
                self.lines.append(line)
                if END_OF_WELCOME in line:
                    self.welcome_printed.set()
        self.welcome_printed.set()

    @property
    def output(self) -> str:
        """What the run has printed."""
        return "".join(self.lines)

    def await_welcome(self) -> None:
        """Wait until the run has started."""
        assert self.welcome_printed.wait(START_TIMEOUT_SECONDS), self.output
        assert END_OF_WELCOME in self.output, self.output

    def find_printed_line(self, words: str) -> str:
        """Return the only printed line that contains these words."""
        [line] = [line for line in self.output.splitlines() if words in line]
        return line.strip()

    def run_printed_line(self, words: str) -> subprocess.CompletedProcess[str]:
        """Run the printed line with these words in a new window, without this run's variables."""
        own_variables = {"CARREL_STATE"}
        environment = {
            key: value for key, value in self.environment.items() if key not in own_variables
        }
        return self.run_in_shell(self.find_printed_line(words), environment)

    def run_in_shell(
        self, command: str, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command, by default with the variables of the run."""
        return subprocess.run(
            ["sh", "-c", command],
            cwd=ROOT,
            env=environment or self.environment,
            text=True,
            check=False,
            capture_output=True,
            timeout=120,
        )

    def run_call(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command that calls a tool of this run, whose port it finds by the state folder."""
        return self.run_in_shell(command)


@pytest.fixture(scope="module")
def local_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRun]:
    """A run that has started."""
    local_run = LocalRun(tmp_path_factory.mktemp("readme"))
    try:
        local_run.await_welcome()
        yield local_run
    finally:
        os.killpg(local_run.process.pid, signal.SIGKILL)
        local_run.process.wait()
        local_run.reader.join()


@pytest.mark.requirement("002-M7", "002-P5", "002-S4")
@pytest.mark.slow
def test_a_run_prints_the_commands_of_the_readme(local_run: LocalRun) -> None:
    output = local_run.output
    assert ADD_COMMAND.replace("8080", str(local_run.port)) in output
    assert CALL_COMMAND in output


@pytest.mark.slow
async def test_the_printed_url_is_the_endpoint(local_run: LocalRun) -> None:
    *_, url = shlex.split(local_run.find_printed_line("claude mcp add"))
    async with Client(url) as client:
        assert "search_kb" in [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.slow
def test_the_printed_call_finds_a_matching_passage(local_run: LocalRun) -> None:
    result = json.loads(local_run.run_printed_line("carrel call").stdout)
    assert len(result["results"]) == 3
    assert "flaky" in result["results"][0]["snippet"].lower()


@pytest.mark.slow
async def test_claude_desktop_finds_the_text_that_ingest_added(local_run: LocalRun) -> None:
    notes = local_run.home / "notes"
    notes.mkdir()
    (notes / "tea.md").write_text("# Tea\n\nSteep green tea at seventy degrees for two minutes.\n")
    assert INGEST_COMMAND in local_run.find_printed_line("carrel ingest")
    completed = local_run.run_printed_line("carrel ingest")
    assert completed.returncode == 0, completed.stderr

    configuration = json.loads(local_run.find_printed_line("mcpServers"))
    server = StdioServerParameters(**configuration["mcpServers"]["carrel"], cwd=local_run.home)
    async with Client(server) as client:
        result = await client.call_tool("search_kb", {"query": "how hot for green tea"})
    assert (result.structured_content or {})["results"][0]["title"] == "Tea"


@pytest.mark.slow
def test_key_passages_of_a_file_are_found(local_run: LocalRun) -> None:
    completed = local_run.run_call(EXTRACT_COMMAND)
    assert completed.returncode == 0, completed.stderr
    assert any("materials erase" in passage for passage in json.loads(completed.stdout)["contexts"])


@pytest.mark.slow
def test_the_export_is_restored_in_an_empty_base(local_run: LocalRun, tmp_path: Path) -> None:
    completed = local_run.run_in_shell(EXPORT_COMMAND)
    assert completed.returncode == 0, completed.stderr

    empty_base = {"CARREL_STATE": str(tmp_path / "state")}
    for command in ("ingest ~/carrel-export", "export ~/second"):
        completed = local_run.run_in_shell(
            f".venv/bin/carrel {command}", local_run.environment | empty_base
        )
        assert completed.returncode == 0, completed.stderr

    for file in ("knowledge-00001.jsonl", "markdown/index.md"):
        export = local_run.home / "carrel-export" / file
        second_export = local_run.home / "second" / file
        assert second_export.read_text("utf-8") == export.read_text("utf-8")


@pytest.mark.slow
def test_a_job_prints_its_cost(local_run: LocalRun) -> None:
    completed = local_run.run_in_shell(JOB_COMMAND)
    assert completed.returncode == 0, completed.stderr
    assert re.search(r"^cluster: .* documents read, .* written\)$", completed.stdout, re.MULTILINE)


@pytest.mark.slow
def test_ctrl_c_ends_all_processes_and_keeps_the_data(local_run: LocalRun) -> None:
    os.killpg(local_run.process.pid, signal.SIGINT)
    local_run.process.wait(timeout=60)
    local_run.reader.join(timeout=60)
    command = ["pgrep", "-f", str(local_run.port)]
    processes = subprocess.run(command, check=False, capture_output=True)
    assert processes.stdout == b""

    local_run.process = local_run.start()
    local_run.await_welcome()
    question = '.venv/bin/carrel call search_kb \'{"query": "how hot for green tea"}\''
    assert json.loads(local_run.run_call(question).stdout)["results"][0]["title"] == "Tea"
