"""Functions as processes of their own, on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from infra.deploy.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

START_SECONDS: Final = 60.0
END_SECONDS: Final = 5.0
LOOPBACK: Final = "127.0.0.1"


class NotStarted(Exception):
    """A function died, or did not answer in time, before it served its first request."""


@dataclass(frozen=True, slots=True)
class Served:
    """A function that answers.

    Attributes:
        url: Where.
        process: The server; its process group holds its workers.
    """

    url: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """End it and its workers at once, as a crash would; its port is free then."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        _await_room(int(self.url.rpartition(":")[2]))


def answers(host: str) -> bool:
    """Whether somebody listens at `host`, a name and a port."""
    name, _, port = host.rpartition(":")
    try:
        socket.create_connection((name, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


@contextmanager
def serve(
    source: Path,
    environment: Mapping[str, str],
    *,
    port: int | None = None,
    log: Path | None = None,
) -> Iterator[Served]:
    """Serve the function in `source` until the block ends; it has started when the block begins.

    Args:
        source: Its `main.py`.
        environment: Variables to add to this process's own.
        port: Where to listen; by default wherever there is room.
        log: The file that takes what it prints; by default it prints where this process does.

    Raises:
        NotStarted: It died or does not answer.
    """
    with ExitStack() as stack:
        served = _started(stack, source, environment, port or 0, log)
        _await_answer(served, source)
        yield served


@contextmanager
def serve_tools(
    names: Sequence[str], environment: Mapping[str, str], *, log: Path | None = None
) -> Iterator[dict[str, Served]]:
    """Serve each tool as the cloud does: one function, one process. They start together."""
    sources = {name: ROOT / "functions" / "tools" / name / "main.py" for name in names}
    with ExitStack() as stack:
        served = {
            name: _started(stack, source, environment, 0, log) for name, source in sources.items()
        }
        for name, source in sources.items():
            _await_answer(served[name], source)
        yield served


def _started(
    stack: ExitStack, source: Path, environment: Mapping[str, str], port: int, log: Path | None
) -> Served:
    """A server that has a port, and will answer there soon; 0: wherever there is room.

    Raises:
        NotStarted: Somebody else has the port.
    """
    output = stack.enter_context(log.open("ab")) if log else None
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
        except OSError as error:
            raise NotStarted(f"Port {port} is taken: {error.strerror}.") from None
        process = _start(source, environment, listener.fileno(), output)
        stack.callback(_end, process)
        return Served(f"http://{LOOPBACK}:{listener.getsockname()[1]}", process)


def _start(
    source: Path, environment: Mapping[str, str], descriptor: int, output: IO[bytes] | None
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "infra.local.serve_function"]
    return subprocess.Popen(  # noqa: S603 - our own module
        [*command, str(descriptor), str(source)],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        start_new_session=True,
        pass_fds=[descriptor],
    )


def _await_room(port: int) -> None:
    """Workers hold the port for some milliseconds longer than who started them lives."""
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((LOOPBACK, port))
            return
        time.sleep(0.005)


def _await_answer(served: Served, source: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while served.process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{served.url}/robots.txt", timeout=1)  # noqa: S310 - loopback
        except urllib.error.HTTPError:
            return  # the framework's own 404: it serves
        except OSError:
            time.sleep(0.05)
    raise NotStarted(f"{source} did not start: see what it printed.")


def _end(process: subprocess.Popen[bytes]) -> None:
    for end in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, end)
            process.wait(timeout=5)
    process.wait()
    if process.stdin:
        process.stdin.close()
