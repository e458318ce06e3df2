"""A simulated machine: a state folder, and the commands that a test runs with it."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.build.discovery import ROOT
from infra.local.local_database import PROJECT
from tests.support.ports import find_free_port

END_TIMEOUT_SECONDS: Final = 60.0
"""The time after which a process that has not ended is considered to hang."""
CARREL: Final = [sys.executable, "-c", "from infra.cli.main import main; main()"]
"""The command `carrel`."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A state folder, and the programs that a test starts with it.

    Attributes:
        state: The state folder.
        environment: The environment of programs, which names the state folder.
        stack: The stack that kills the programs when it is closed.
    """

    state: Path
    environment: dict[str, str]
    stack: ExitStack

    @property
    def files(self) -> Path:
        """The folder with the files of the databases."""
        return self.state / "databases" / PROJECT

    def start(self, command: Sequence[str], **environment: str) -> subprocess.Popen[str]:
        """Start a program, which is killed when the test ends."""
        process = self.stack.enter_context(
            subprocess.Popen(
                command,
                cwd=ROOT,
                env={**self.environment, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        self.stack.callback(process.kill)
        return process

    def start_run(
        self, *options: str, port: int | None = None, **environment: str
    ) -> tuple[subprocess.Popen[str], str]:
        """Start `carrel up` without the sample, and return it and its output once it answers."""
        command = [*CARREL, "up", "--no-sample", "--port", str(port or find_free_port()), *options]
        run = self.start(command, **environment)
        assert run.stdout
        lines = []
        for line in run.stdout:
            lines.append(line)
            if "Press Ctrl-C to stop." in line:
                return run, "".join(lines)
        raise AssertionError("".join(lines) + run.communicate()[1])

    def run(self, *arguments: str, **environment: str) -> str:
        """Run a command that succeeds, and return its output."""
        process = self.start([*CARREL, *arguments], **environment)
        output, errors = process.communicate(timeout=END_TIMEOUT_SECONDS)
        assert process.returncode == 0, errors
        return output

    def fail(self, *arguments: str, prefix: Sequence[str] = (), **environment: str) -> str:
        """Run a command that fails, and return its error."""
        process = self.start([*prefix, *CARREL, *arguments], **environment)
        message = process.communicate(timeout=END_TIMEOUT_SECONDS)[1]
        assert process.returncode == 1, message
        assert "Traceback" not in message
        return message
