"""A simulated machine: a state folder and a port, for tests of the emulator that programs share.

Programs on one machine share a Firestore emulator, which a daemon starts and stops.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from infra.build.discovery import ROOT
from tests.support.process_end import END_TIMEOUT_SECONDS, wait_for_end

if TYPE_CHECKING:
    from contextlib import ExitStack

    from infra.local.emulator_daemon import StateFolder

SHARE_DATABASE_SCRIPT: Final = """
import sys
from infra.local.local_database import shared_database
with shared_database() as host:
    print(host, flush=True)
    sys.stdin.read()
"""
"""A client of the shared database, which prints the address and waits for the end of its input."""
CARREL: Final = [sys.executable, "-c", "from infra.cli.main import main; main()"]
"""The command `carrel`."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A state folder, a port, and the programs that a test starts with them.

    Attributes:
        state: The state folder.
        environment: The environment of programs, which names the state folder and the port.
        stack: The stack that kills the programs when it is closed.
    """

    state: StateFolder
    environment: dict[str, str]
    stack: ExitStack

    @property
    def port(self) -> str:
        """The port of the emulator."""
        return self.environment["EMULATOR_PORT"]

    def start(self, command: list[str], **environment: str) -> subprocess.Popen[str]:
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

    def start_client(self, **environment: str) -> subprocess.Popen[str]:
        """Start a client of the shared database, which runs until its input is closed."""
        return self.start([sys.executable, "-c", SHARE_DATABASE_SCRIPT], **environment)

    def find_processes(self) -> dict[int, str]:
        """Return the command lines of this machine's daemons and emulators, by process id."""
        patterns = (f"infra.local.emulator_daemon {self.state.path} ", f"--port={self.port}")
        listing = subprocess.check_output(["ps", "-A", "-ww", "-o", "pid=,args="], text=True)
        pids_and_commands = (line.split(maxsplit=1) for line in listing.splitlines())
        return {
            int(pid): command
            for pid, command in pids_and_commands
            if any(pattern in command for pattern in patterns)
        }

    def find_daemons(self) -> list[int]:
        """Return the process ids of the daemons."""
        return [
            pid
            for pid, command in self.find_processes().items()
            if "infra.local.emulator_daemon" in command
        ]

    def find_emulators(self) -> list[int]:
        """Return the process ids of the emulators."""
        processes = self.find_processes().items()
        return [pid for pid, command in processes if "java" in command.split()[0]]

    def wait_until_idle(self) -> None:
        """Wait until no daemon and no emulator is running.

        Raises:
            TimeoutError: A process has not ended.
        """
        while processes := self.find_processes():
            wait_for_end(*processes)


def read_host(client: subprocess.Popen[str]) -> str:
    """Wait until a client has connected, and return the address of its database."""
    assert client.stdout
    host = client.stdout.readline().strip()
    assert host, client.communicate()[1]
    return host


def close_client(client: subprocess.Popen[str]) -> None:
    """Close a client's input and wait until it exits."""
    client.communicate(timeout=END_TIMEOUT_SECONDS)
