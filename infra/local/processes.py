"""Runs functions in separate processes on this machine.

A function is a Cloud Function, the gateway or a tool, as the file `main.py` of its bundle defines
it. A process that this module starts ends with this process, even if this process is killed.
"""

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
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infra.build.discovery import ROOT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

START_SECONDS: Final = 60.0
"""A function may take this long to start, on a busy machine."""
LOOPBACK: Final = "127.0.0.1"
GATEWAY: Final = Path(__file__).with_name("gateway_main.py")
"""The `main.py` of a local gateway."""
launcher = Path(__file__).with_name("serve_function.py")
"""The script that serves a function."""
RUNS_JOBS: Final = "CARREL_RUNS_JOBS"
"""The environment variable by which `carrel up` tells its gateway to run jobs, too. In the gateways
of tests and benchmarks, they would change what is stored, and take time."""


class StartError(Exception):
    """A function could not start: its port is taken, it died, or it did not answer in time."""


@dataclass(frozen=True, slots=True)
class Program:
    """The file of a function, and the environment in which it runs."""

    source: Path
    python: Path
    environment: Mapping[str, str]
    folder: Path


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running function."""

    url: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """Kill the process group without a warning, as a crash would. Then the port is free."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def is_listening(host: str) -> bool:
    """Return whether a program listens at `host`, which has the form name:port."""
    name, _, port = host.rpartition(":")
    try:
        socket.create_connection((name.strip("[]"), int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def is_carrel(port: int) -> bool:
    """Return whether the program that listens on a port answers as a gateway of Carrel."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/health", timeout=5) as response:
            return b'"parts"' in response.read()
    except (OSError, HTTPException):
        return False


def make_checkout_program(
    source: Path, environment: Mapping[str, str], *, excluded: Collection[str] = ()
) -> Program:
    """Make a function's program, which can import anything in the checkout.

    Args:
        source: The path of the function's `main.py`.
        environment: The environment variables to add to this process's own.
        excluded: The names of the environment variables that the function does not inherit.
    """
    inherited = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    variables = {name: value for name, value in inherited.items() if name not in excluded}
    return Program(source, Path(sys.executable), variables, ROOT)


@contextmanager
def serve(
    program: Program,
    *,
    port: int | None = None,
    log: Path | None = None,
    address: str = LOOPBACK,
) -> Iterator[ServerProcess]:
    """Serve a function until the `with` block ends. The block begins when the function answers.

    Args:
        program: The function's program.
        port: The port, by default any free one.
        log: The file for the function's output, by default the output of this process.
        address: The IP address at which it listens.

    Raises:
        StartError: The port is taken, or the process died or does not answer.
    """
    with ExitStack() as stack:
        server = start(stack, program, port=port, log=log, address=address)
        wait_until_serving(server, program)
        yield server


def start(
    stack: ExitStack,
    program: Program,
    *,
    port: int | None = None,
    log: Path | None = None,
    address: str = LOOPBACK,
) -> ServerProcess:
    """Start a function, and stop it when the stack ends. It may not answer yet on return.

    Raises:
        StartError: The port is taken.
    """
    with bind(port or 0, address) as listener:
        process = run(
            stack,
            [str(program.python), "-P", str(launcher), str(listener.fileno()), str(program.source)],
            environment=program.environment,
            folder=program.folder,
            sockets=[listener],
            log=log,
        )
        return ServerProcess(f"http://{format_address(listener)}", process)


def run(  # noqa: PLR0913 - the parameters of a process
    stack: ExitStack,
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    sockets: Sequence[socket.socket],
    log: Path | None,
) -> subprocess.Popen[bytes]:
    """Start a command in a process, and stop it when the stack ends.

    The command must end when its standard input is closed, because that is all that happens to it
    if this process is killed.
    """
    output = stack.enter_context(log.open("ab")) if log else None
    process = subprocess.Popen(  # noqa: S603 - our own
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        start_new_session=True,
        pass_fds=[listener.fileno() for listener in sockets],
    )
    stack.callback(_stop, process)
    return process


def bind(port: int = 0, address: str = LOOPBACK) -> socket.socket:
    """Bind a socket to a port without listening yet. Port 0 selects a free port.

    Raises:
        StartError: The port is taken, or the address is not one of this machine.
    """
    is_ipv6 = ip_address(address).version == 6  # noqa: PLR2004 - the version's name
    listener = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        place = f"Port {port}" if address == LOOPBACK else f"Port {port} at {address}"
        raise StartError(f"{place} cannot be used: {error.strerror}.") from None
    return listener


def format_address(listener: socket.socket) -> str:
    """Return an address as host:port at which this machine reaches a socket."""
    address, port = listener.getsockname()[:2]
    if ip_address(address).is_unspecified:  # it listens at all addresses of the machine
        address = LOOPBACK if listener.family is socket.AF_INET else "::1"
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def wait_until_serving(server: ServerProcess, program: Program) -> None:
    """Wait until a function answers.

    Raises:
        StartError: The process died or takes too long.
    """
    deadline = time.monotonic() + START_SECONDS
    while server.process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{server.url}/robots.txt", timeout=1)  # noqa: S310 - loopback
        except urllib.error.HTTPError:
            return  # the framework serves and answers 404
        except OSError:
            time.sleep(0.05)
    raise StartError(f"{program.source} did not start. Its output says why.")


def terminate_all(processes: Iterable[ServerProcess]) -> None:
    """Send SIGTERM to all functions. They end together, and stopping each takes no more time."""
    for server in processes:
        with suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGTERM)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process group, and kill it if it does not end within five seconds."""
    for stop_signal in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, stop_signal)
            process.wait(timeout=5)
    process.wait()
    if process.stdin:
        process.stdin.close()
