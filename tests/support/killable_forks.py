"""Processes that start within milliseconds, report by lines, and are killed at any moment.

A server, which has imported everything and opened nothing, forks them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path


def report(*words: object) -> None:
    """Write a line to the test."""
    sys.stdout.write(f"{' '.join(map(str, words))}\n")
    sys.stdout.flush()


def serve(run: Callable[[str], Coroutine[Any, Any, None]]) -> None:
    """Be the server: start and kill processes, each of which runs its name."""
    pids: dict[str, int] = {}
    for line in sys.stdin:
        order, name = line.split()
        if order == "start":
            pids[name] = os.fork()
            if not pids[name]:
                asyncio.run(run(name))
                os._exit(0)
        else:
            os.kill(pids[name], signal.SIGKILL)
            os.waitpid(pids.pop(name), 0)
        report(order, name)
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)


class Forks:
    """The processes of a server."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        """Start none."""
        assert server.stdin
        assert server.stdout
        self._orders, self._output = server.stdin, server.stdout
        self._unread: deque[list[str]] = deque()

    def start(self, name: str) -> None:
        """Start a process."""
        self._order("start", name)

    def kill(self, name: str, after: float = 0) -> None:
        """Kill a process after some seconds, and return when it has ended."""
        time.sleep(after)
        self._order("kill", name)

    def read(self) -> list[str]:
        """Return the words of the next line that a process has reported."""
        return self._unread.popleft() if self._unread else self._receive()

    def _order(self, *words: str) -> None:
        self._orders.write(f"{' '.join(words)}\n")
        self._orders.flush()
        while (line := self._receive()) != list(words):
            self._unread.append(line)

    def _receive(self) -> list[str]:
        line = self._output.readline()
        assert line, "The processes ended."
        return line.split()


@contextmanager
def run_forks(module: str, folder: Path) -> Iterator[Forks]:
    """Run a module that calls `serve`. What it has started is killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", module, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        yield Forks(server)
