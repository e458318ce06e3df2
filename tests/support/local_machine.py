"""A state folder and a port of their own for tests of the shared emulator, and its processes."""

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
CARREL: Final = [sys.executable, "-c", "from infra.cli.main import main; main()"]


@dataclass(frozen=True, slots=True)
class Machine:
    """A state folder, a port, and the programs that a test starts with them."""

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
        """Return the daemons and emulators of this machine."""
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
            for pid, args in self.find_processes().items()
            if "infra.local.emulator_daemon" in args
        ]

    def find_emulators(self) -> list[int]:
        """Return the process ids of the emulators."""
        return [pid for pid, args in self.find_processes().items() if "java" in args.split()[0]]

    def wait_until_idle(self) -> None:
        """Wait until no daemon and no emulator is running."""
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
