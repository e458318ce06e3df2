"""Runs Google's Firestore emulator, by which tests judge the embedded one.

The emulator is one Java archive. Run directly, it needs only one process and starts in half the
time of `gcloud emulators firestore start`.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPException
from typing import IO, Final

import pytest
from google.cloud.firestore import AsyncClient

from tests.support.emulator_programs import EmulatorError, find_emulator
from tests.support.ports import find_free_port

ORACLE: Final = "GOOGLES_EMULATOR"
"""The environment variable with the address of the emulator that a test run has started."""
START_SECONDS: Final = 60.0
"""The emulator may take this long to start. It usually takes a few seconds."""
_HOST: Final = "127.0.0.1"

# The pipe on standard input ends when this process closes it or dies, even by SIGKILL. A background
# shell waits for that, and then stops the emulator, whose process id is $$.
_EXIT_WITH_PARENT: Final = """
exec 3<&0
(
    trap '' TERM INT HUP
    read -r _ <&3
    kill -TERM $$
    for _ in $(seq 100); do kill -0 $$ || exit; sleep 0.1; done
    kill -KILL $$
) 2>/dev/null &
exec "$@" 3<&- </dev/null
"""


class _PortTaken(EmulatorError):
    """Another program listens on the emulator's port."""


def make_oracle_client(project: str) -> AsyncClient:
    """Make a client of the emulator that this run has started; skip the test if there is none."""
    if ORACLE not in os.environ:
        pytest.skip("Google's emulator is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRESTORE_EMULATOR_HOST", os.environ[ORACLE])
        return AsyncClient(project=project)


@contextmanager
def run_emulator() -> Iterator[str]:
    """Run the emulator until the block ends or this process dies.

    Yields:
        host:port for `FIRESTORE_EMULATOR_HOST`, once the emulator answers.

    Raises:
        EmulatorError: The emulator is missing, died, or did not answer in time.
    """
    command = find_emulator()
    with ExitStack() as stack:
        for is_last in (False, False, True):
            log = stack.enter_context(tempfile.TemporaryFile())
            port = find_free_port()
            process = _start([*command, f"--host={_HOST}", f"--port={port}"], log)
            stack.callback(process.communicate)  # closes the pipe and waits
            try:
                _wait_until_serving(f"{_HOST}:{port}", process, log)
                break
            except _PortTaken:  # another program was faster
                if is_last:
                    raise
        yield f"{_HOST}:{port}"


def _start(command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the emulator so that it ends with this process."""
    return subprocess.Popen(
        ["/bin/sh", "-c", _EXIT_WITH_PARENT, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        start_new_session=True,  # so that Ctrl-C does not stop it before the tests
    )


def _wait_until_serving(host: str, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    """Wait until the emulator answers.

    Raises:
        EmulatorError: The emulator died, or did not answer in time.
    """
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        connection = HTTPConnection(host, timeout=2)
        try:
            connection.request("GET", "/")
            connection.getresponse()
        except (OSError, HTTPException):
            time.sleep(0.05)
        else:
            return
        finally:
            connection.close()
    log.seek(0)
    output = log.read().decode(errors="replace")
    error = _PortTaken if "Address already in use" in output else EmulatorError
    raise error(f"The Firestore emulator did not start. Its output:\n{output[-2000:]}")
