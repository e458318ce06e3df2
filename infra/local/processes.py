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
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

START_SECONDS: Final = 60.0
LOOPBACK: Final = "127.0.0.1"
launcher = Path(__file__).with_name("serve_function.py")
"""The script that serves a function. Tests put one here that records queries, too."""


class NotStarted(Exception):
    """A function died, or did not answer in time, before it served its first request."""


@dataclass(frozen=True, slots=True)
class Program:
    """A function, and what runs it.

    Attributes:
        source: Its `main.py`.
        python: The interpreter.
        environment: All variables that it is given.
        folder: The working directory.
    """

    source: Path
    python: Path
    environment: Mapping[str, str]
    folder: Path


@dataclass(frozen=True, slots=True)
class Served:
    """A function that answers.

    Attributes:
        url: Where.
        process: The server, which leads its process group.
    """

    url: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """End it at once, as a crash would; its port is free then."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def answers(host: str) -> bool:
    """Whether somebody listens at `host`, a name and a port."""
    name, _, port = host.rpartition(":")
    try:
        socket.create_connection((name, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def in_checkout(source: Path, environment: Mapping[str, str]) -> Program:
    """A function that imports whatever it likes of the checkout, with variables beside our own."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return Program(source, Path(sys.executable), variables, ROOT)


@contextmanager
def serve(
    program: Program, *, port: int | None = None, log: Path | None = None
) -> Iterator[Served]:
    """Serve a function until the block ends; it has started when the block begins.

    Args:
        program: What to serve.
        port: Where to listen; by default wherever there is room.
        log: The file that takes what it prints; by default it prints where this process does.

    Raises:
        NotStarted: It died or does not answer.
    """
    with ExitStack() as stack:
        served = start(stack, program, port=port, log=log)
        await_answer(served, program)
        yield served


def start(
    stack: ExitStack, program: Program, *, port: int | None = None, log: Path | None = None
) -> Served:
    """Let a function start, which ends with the stack; it answers soon.

    Raises:
        NotStarted: Somebody else has the port.
    """
    with bound(port or 0) as listener:
        process = run(
            stack,
            [str(program.python), "-P", str(launcher), str(listener.fileno()), str(program.source)],
            environment=program.environment,
            folder=program.folder,
            sockets=[listener],
            log=log,
        )
        return Served(f"http://{address(listener)}", process)


def run(  # noqa: PLR0913 - a process is a process
    stack: ExitStack,
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    sockets: Sequence[socket.socket],
    log: Path | None,
) -> subprocess.Popen[bytes]:
    """Run a program of our own until the stack ends: its standard input is open so long."""
    output = stack.enter_context(log.open("ab")) if log else None
    process = subprocess.Popen(  # noqa: S603 - our own
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        start_new_session=True,
        pass_fds=[each.fileno() for each in sockets],
    )
    stack.callback(_end, process)
    return process


def bound(port: int = 0) -> socket.socket:
    """A socket that has this port and does not listen yet; 0: wherever there is room.

    Raises:
        NotStarted: Somebody else has it.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except OSError as error:
        listener.close()
        raise NotStarted(f"Nothing can listen on port {port}: {error.strerror}.") from None
    return listener


def address(listener: socket.socket) -> str:
    """host:port."""
    return f"{LOOPBACK}:{listener.getsockname()[1]}"


def await_answer(served: Served, program: Program) -> None:
    """Wait until a function answers.

    Raises:
        NotStarted: It died, or takes too long.
    """
    deadline = time.monotonic() + START_SECONDS
    while served.process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{served.url}/robots.txt", timeout=1)  # noqa: S310 - loopback
        except urllib.error.HTTPError:
            return  # the framework's own 404: it serves
        except OSError:
            time.sleep(0.05)
    raise NotStarted(f"{program.source} did not start: see what it printed.")


def end_soon(processes: Iterable[Served]) -> None:
    """Tell functions to end, all at once: their stack waits for them, one after the other."""
    for served in processes:
        with suppress(ProcessLookupError):
            os.killpg(served.process.pid, signal.SIGTERM)


def _end(process: subprocess.Popen[bytes]) -> None:
    for end in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, end)
            process.wait(timeout=5)
    process.wait()
    if process.stdin:
        process.stdin.close()
