"""A machine where nothing ran yet, for tests that run commands on it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from infra.build.discovery import ROOT
from tests.support.process_end import PATIENCE, await_end

if TYPE_CHECKING:
    from contextlib import ExitStack

    from infra.local.emulator_daemon import StateFolder

SHARE_AND_WAIT: Final = """
import sys
from infra.local.local_database import database
with database() as host:
    print(host, flush=True)
    sys.stdin.read()
"""
CARREL: Final = [sys.executable, "-c", "from infra.cli.main import main; main()"]


@dataclass(frozen=True, slots=True)
class Machine:
    """A state folder and a port of its own, and the programs that a test starts there."""

    state: StateFolder
    environment: dict[str, str]
    stack: ExitStack

    @property
    def port(self) -> str:
        return self.environment["EMULATOR_PORT"]

    def start(self, command: list[str], **environment: str) -> subprocess.Popen[str]:
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

    def share(self, **environment: str) -> subprocess.Popen[str]:
        return self.start([sys.executable, "-c", SHARE_AND_WAIT], **environment)

    def processes(self) -> dict[int, str]:
        """The keepers and emulators that live here."""
        signs = (f"infra.local.emulator_daemon {self.state.path} ", f"--port={self.port}")
        listing = subprocess.check_output(["ps", "-A", "-ww", "-o", "pid=,args="], text=True)
        found = (line.split(maxsplit=1) for line in listing.splitlines())
        return {int(pid): args for pid, args in found if any(sign in args for sign in signs)}

    def keepers(self) -> list[int]:
        return [
            pid for pid, args in self.processes().items() if "infra.local.emulator_daemon" in args
        ]

    def emulators(self) -> list[int]:
        return [pid for pid, args in self.processes().items() if "java" in args.split()[0]]

    def await_nothing(self) -> None:
        while left := self.processes():
            await_end(*left)


def host_of(client: subprocess.Popen[str]) -> str:
    """Where a client found the database, once it has."""
    assert client.stdout
    host = client.stdout.readline().strip()
    assert host, client.communicate()[1]
    return host


def end(client: subprocess.Popen[str]) -> None:
    """Let a client end in its own time."""
    client.communicate(timeout=PATIENCE)
