"""Processes that start within milliseconds, report line by line, and are killed at any moment.

A server, which has imported everything and opened nothing, forks them.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from infra.build.discovery import ROOT

FAILED: Final = "failed"
"""The first word of the line that a process reports before it ends with an error."""


def report(*words: object) -> None:
    """Write the words as one line, which the test reads."""
    sys.stdout.write(f"{' '.join(map(str, words))}\n")
    sys.stdout.flush()


def serve(run: Callable[[str], Coroutine[Any, Any, None]]) -> None:
    """Start and kill processes as the lines of stdin say: `start NAME` and `kill NAME`.

    Args:
        run: What each process runs, given its name.
    """
    pids: dict[str, int] = {}
    for line in sys.stdin:
        command, name = line.split()
        if command == "start":
            pids[name] = os.fork()
            if not pids[name]:
                try:
                    asyncio.run(run(name))
                    os._exit(0)
                except BaseException:
                    report(FAILED, name)
                    raise
        else:
            os.kill(pids[name], signal.SIGKILL)
            os.waitpid(pids.pop(name), 0)
        report(command, name)
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)


class Forks:
    """Starts and kills the processes that a server forks."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        """Use a running server, which has started no process yet."""
        assert server.stdin
        assert server.stdout
        self._commands, self._output = server.stdin, server.stdout
        self._unread: deque[list[str]] = deque()

    def start(self, name: str) -> None:
        """Start a process."""
        self._send("start", name)

    def kill(self, name: str, after: float = 0) -> None:
        """Kill a process after some seconds, and return when it has ended."""
        time.sleep(after)
        self._send("kill", name)

    def read(self) -> list[str]:
        """Return the words of the next line that a process has reported."""
        return self._unread.popleft() if self._unread else self._receive()

    def _send(self, *words: str) -> None:
        self._commands.write(f"{' '.join(words)}\n")
        self._commands.flush()
        while (line := self._receive()) != list(words):
            self._unread.append(line)

    def _receive(self) -> list[str]:
        line = self._output.readline()
        words = line.split()
        assert words, "The server has ended."
        assert words[0] != FAILED, f"{words[1]} failed."
        return words


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
