"""Runs the Firestore emulator, and exports and imports its databases.

The emulator is one Java archive. Run directly, it needs only one process and starts in half the
time of `gcloud emulators firestore start`.

The emulator keeps its data in memory. Its option `--export-on-exit` writes nothing if a signal ends
the emulator, and otherwise exports only one of several databases. So this module sends requests to
the emulator's service `google.firestore.emulator.v1`, which exports and imports any database by
name.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPException
from typing import IO, TYPE_CHECKING, Final

from infra.file_lock import hold_lock
from infra.local.emulator_programs import EmulatorError
from infra.local.emulator_setup import provide_emulator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOOPBACK: Final = "127.0.0.1"
PROJECT: Final = "carrel-local"
"""The id of the project that local databases belong to. The emulator accepts any."""
START_SECONDS: Final = 60.0
"""The emulator may take this long to start. It usually takes a few seconds."""
REQUEST_SECONDS: Final = 300.0
"""An export or import may take this long. 500 chunks with vectors take about a second."""
_PROBE_BYTES: Final = 2**20
"""To reveal why the emulator could not write, this process writes this many bytes."""

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


class PortTaken(EmulatorError):
    """Another program listens on the emulator's port."""


@contextmanager
def run_emulator(port: int | None = None) -> Iterator[str]:
    """Run the emulator until the block ends or this process dies, and fetch missing programs.

    Args:
        port: The port on the loopback address; by default any free one.

    Yields:
        host:port for `FIRESTORE_EMULATOR_HOST`, once the emulator answers.

    Raises:
        PortTaken: Another program listens on the port.
        EmulatorError: The emulator cannot be fetched, died, or did not answer in time.
    """
    command = provide_emulator()
    with ExitStack() as stack:
        for is_last in (False, False, True):
            log = stack.enter_context(tempfile.TemporaryFile())
            emulator_port = _choose_port(port)
            host = f"{LOOPBACK}:{emulator_port}"
            process = _start([*command, f"--host={LOOPBACK}", f"--port={emulator_port}"], log)
            stack.callback(process.communicate)  # closes the pipe and waits
            try:
                _wait_until_serving(host, process, log)
                break
            except PortTaken:
                # Another program took the free port before the emulator did.
                if port or is_last:
                    raise
        yield host


def export_data(host: str, folder: Path, project: str, database: str = "(default)") -> None:
    """Export a database to `folder`, replacing an earlier export.

    After a crash or on a full disk, either the earlier export or the new one is complete.
    Concurrent exports wait for each other.

    Raises:
        EmulatorError: The export could not be written. The message contains only the reason.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with hold_lock(folder / "lock"):
            _export(host, folder, project, database)
    except OSError as error:
        raise EmulatorError(error.strerror or str(error)) from error
    except HTTPException as error:
        raise EmulatorError(f"The emulator did not answer: {error!r}") from error


def import_data(host: str, folder: Path, project: str, database: str = "(default)") -> bool:
    """Import the export in `folder` into a database, and return whether there was an export.

    The project may differ from the exported one, but the name of the database must be the same.
    """
    exports = find_exports(folder)
    for latest in exports[-1:]:
        metadata = latest.resolve() / f"{latest.name}.overall_export_metadata"
        body = {"export_directory": str(metadata)}
        _send_request(
            host,
            "POST",
            f"projects/{project}:import",
            _make_database_body(project, database) | body,
        )
    return bool(exports)


def _choose_port(port: int | None) -> int:
    """Return the port if it is free, or any free port if it is None.

    Raises:
        PortTaken: Another program listens on the port.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port or 0))
        except OSError as error:
            raise PortTaken(f"The emulator cannot use port {port}: {error}.") from error
        free_port: int = probe.getsockname()[1]
        return free_port


def _start(command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the emulator so that it ends with this process."""
    return subprocess.Popen(  # noqa: S603 - provide_emulator's
        ["/bin/sh", "-c", _EXIT_WITH_PARENT, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        start_new_session=True,  # so that Ctrl-C does not stop it before the export
    )


def _wait_until_serving(host: str, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    """Wait until the emulator answers.

    Raises:
        PortTaken: Another program listens on the port.
        EmulatorError: The emulator died, or did not answer in time.
    """
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            return _send_request(host, "GET", "", seconds=2)
        except (OSError, HTTPException):
            time.sleep(0.05)
    log.seek(0)
    output = log.read().decode(errors="replace")
    if "Address already in use" in output:
        raise PortTaken(f"Another program listens on the emulator's port, {host}.")
    raise EmulatorError(f"The Firestore emulator did not start. Its output:\n{output[-2000:]}")


def _export(host: str, folder: Path, project: str, database: str) -> None:
    """Export a database to a temporary folder, flush it to disk, and rename it.

    The name of an export is a number, which counts up. So the last complete export is current.
    """
    previous_exports = find_exports(folder)
    name = f"{int(previous_exports[-1].name) + 1 if previous_exports else 1:08}"
    temporary = folder.resolve() / "writing"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    body = {"export_directory": str(temporary), "export_name": name}
    try:
        _send_request(
            host,
            "POST",
            f"projects/{project}:export",
            _make_database_body(project, database) | body,
        )
        for path in ((temporary / name), *(temporary / name).rglob("*")):
            _flush(path)
        (temporary / name).rename(folder / name)
    except EmulatorError:
        # The emulator does not report the reason, but a write by this process raises it.
        (temporary / "probe").write_bytes(bytes(_PROBE_BYTES))
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _flush(folder)
    for export in previous_exports:
        shutil.rmtree(export, ignore_errors=True)  # the next export deletes the remaining files


def _flush(path: Path) -> None:
    """Flush a file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def find_exports(folder: Path) -> list[Path]:
    """Return the complete exports in a folder. The last one is current."""
    return sorted(folder.glob("[0-9]*"))


def _make_database_body(project: str, database: str) -> dict[str, str]:
    return {"database": f"projects/{project}/databases/{database}"}


def _send_request(
    host: str,
    method: str,
    path: str,
    body: dict[str, str] | None = None,
    seconds: float = REQUEST_SECONDS,
) -> None:
    """Send a request to the emulator's own service, or an empty path to see whether it answers.

    Raises:
        EmulatorError: The emulator rejected the request.
        OSError: The emulator does not answer.
        HTTPException: The response is not complete.
    """
    connection = HTTPConnection(host, timeout=seconds)
    try:
        connection.request(method, f"/emulator/v1/{path}" if path else "/", json.dumps(body))
        response = connection.getresponse()
        text = response.read().decode()
    finally:
        connection.close()
    if response.status != 200:  # noqa: PLR2004 - OK
        raise EmulatorError(f"The emulator rejected {method} {path}: {response.status} {text}")
