"""Starts, shares and saves the local database, which all commands on this machine use.

A daemon runs the database while it has clients, which are processes such as `make run` and
`carrel ingest` (`infra.local.emulator_daemon`). The database is in memory, and is saved to disk.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from infra.file_lock import hold_lock
from infra.folders import DATA, run_command
from infra.local.autosave import RETRY_SECONDS, save_databases
from infra.local.emulator import LOOPBACK, PROJECT
from infra.local.emulator_daemon import StateFolder
from infra.local.emulator_programs import EmulatorError
from infra.local.emulator_setup import provide_emulator
from infra.local.processes import is_listening
from shared.core.errors import InvalidInput
from shared.core.installation import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLE: Final = ROOT / "infra" / "local" / "sample" / "readwise.json"
"""The texts of the sample knowledge base."""
STATE: Final = Path(os.environ.get("CARREL_STATE") or DATA)
"""The folder with the data of local runs: databases, logs and the secret."""
MAX_PORT: Final = 65_535
SAVE_CHECK_SECONDS: Final = 1.0
"""A client checks with this pause whether the data is saved."""
EXIT_SECONDS: Final = 60.0
"""The last client waits this long for the database to be saved."""
MAX_MESSAGE_BYTES: Final = 4000
"""A message quotes at most this many characters of the daemon's log, the last ones."""
_SECRET_BYTES: Final = 32
"""The secret of local runs has this many random bytes."""
_STATE: Final = StateFolder(STATE)


def get_emulator_port() -> int:
    """Return the port for a new database. A running database may use another port.

    Raises:
        InvalidInput: EMULATOR_PORT is not a port.
    """
    port = os.environ.get("EMULATOR_PORT") or "8686"
    if not port.isdecimal() or not 0 < int(port) <= MAX_PORT:
        raise InvalidInput(
            f"EMULATOR_PORT must be a port from 1 to {MAX_PORT}, such as EMULATOR_PORT=8787."
        )
    return int(port)


def get_emulator_address() -> str:
    """Return the host:port for a new database.

    Raises:
        InvalidInput: EMULATOR_PORT is not a port.
    """
    return f"{LOOPBACK}:{get_emulator_port()}"


def use_local_database() -> None:
    """Use the local database, unless FIRESTORE_EMULATOR_HOST names another emulator.

    Raises:
        InvalidInput: EMULATOR_PORT is not a port.
    """
    if "FIRESTORE_EMULATOR_HOST" not in os.environ:
        os.environ["FIRESTORE_EMULATOR_HOST"] = get_emulator_address()
        os.environ["GOOGLE_CLOUD_PROJECT"] = PROJECT
        # A person who interrupts a job can soon restart it, and local steps are short.
        os.environ.setdefault("LEASE_SECONDS", "10")


def list_environment_variables() -> dict[str, str]:
    """List the variables that another process must set to use the same database."""
    values = {"CARREL_STATE": str(STATE.resolve()), "EMULATOR_PORT": str(get_emulator_port())}
    return {name: value for name, value in values.items() if os.environ.get(name)}


def set_local_secrets() -> None:
    """Set ACCESS_SECRETS to the secret of local runs, unless the variable is set."""
    if not os.environ.get("ACCESS_SECRETS"):
        os.environ["ACCESS_SECRETS"] = json.dumps([load_local_secret(STATE)])


def load_local_secret(folder: Path) -> str:
    """Load the secret of local runs, by which keys and sign-ins stay valid between runs.

    If the file in `folder` is missing, it is created with a random secret, readable only by the
    file's owner. Concurrent processes get the same secret. After a crash, the file is either
    complete or missing.
    """
    path = folder / "secret"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _create_secret(path)
    return path.read_text("ascii").strip()


def _create_secret(path: Path) -> None:
    """Write a random secret to a temporary file, and link it to the path unless that exists."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".secret-") as file:  # mode 0600
        file.write(secrets.token_urlsafe(_SECRET_BYTES) + "\n")
        file.flush()
        os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was faster, and its secret is used
            os.link(file.name, path)


@contextmanager
def connected_database() -> Iterator[None]:
    """Ensure that the database at FIRESTORE_EMULATOR_HOST answers until the block ends.

    Raises:
        EmulatorError: The local database cannot run, or another emulator does not answer.
    """
    host = os.environ.get("FIRESTORE_EMULATOR_HOST")  # not set in the cloud
    if host == get_emulator_address():
        with shared_database() as running_host:
            os.environ["FIRESTORE_EMULATOR_HOST"] = running_host
            yield
    elif host and not is_listening(host):
        raise EmulatorError(
            f"No emulator answers at {host}. Start one there, or unset FIRESTORE_EMULATOR_HOST."
        )
    else:
        yield


@contextmanager
def shared_database() -> Iterator[str]:
    """Use the local database until the block ends, and start it if necessary.

    Failures to save the database during the block are reported on standard error.

    Yields:
        The host:port of the database.

    Raises:
        EmulatorError: The database cannot run.
    """
    STATE.mkdir(parents=True, exist_ok=True)
    with hold_lock(_STATE.clients_lock, fcntl.LOCK_SH):
        with hold_lock(_STATE.start_lock):
            host = _find_or_start_daemon()
        with _report_save_failures():
            yield host


def is_running() -> bool:
    """Return whether the local database is running."""
    return _STATE.get_address() is not None


def wait_for_exit() -> None:
    """Wait until the database has stopped, unless it has other clients.

    Raises:
        EmulatorError: The data could not be saved.
    """
    deadline = time.monotonic() + EXIT_SECONDS
    while _STATE.has_daemon() and not _STATE.has_clients():
        if reason := _STATE.get_save_failure():
            raise EmulatorError(_format_save_failure(reason))
        if time.monotonic() > deadline:
            raise EmulatorError(f"The database is still being saved in {STATE}.")
        time.sleep(0.05)
    if errors := _pop_log():
        raise EmulatorError(f"The local database reported an error:\n{errors}")


def save_now() -> None:
    """Save the local databases now, so that a crash loses nothing.

    Raises:
        EmulatorError: The changes could not be saved. The message says what to do.
    """
    host = _STATE.get_address()
    if host and host == os.environ.get("FIRESTORE_EMULATOR_HOST"):
        try:
            save_databases(host, _STATE.data)
        except EmulatorError as error:
            raise EmulatorError(_format_save_failure(str(error))) from error


def explain_os_error(error: OSError) -> str | None:
    """Explain a full disk or an unusable state folder, or return None for other errors."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"{error.strerror}: {error.filename or STATE}. Free some space and try again."
    if not error.filename or not _is_related(Path(os.fsdecode(error.filename))):
        return None
    reason = "it is a file" if STATE.is_file() else error.strerror
    command = f"CARREL_STATE=/another/folder {run_command()}"
    return f"Carrel cannot store data in {STATE}: {reason}. To use another folder: {command}"


def _is_related(path: Path) -> bool:
    """Return whether a path is the state folder, inside it, or one of its parents."""
    return path.is_relative_to(STATE) or STATE.is_relative_to(path)


@contextmanager
def _report_save_failures() -> Iterator[None]:
    """Report failures to save, and recoveries from them, until the block ends."""
    stop = threading.Event()
    thread = threading.Thread(target=_watch_saves, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _watch_saves(stop: threading.Event) -> None:
    """Print a warning when saving begins to fail, and a message when it succeeds again."""
    is_failing = False
    with suppress(OSError):  # if the folder is gone, its next use reports that
        while not stop.wait(SAVE_CHECK_SECONDS):
            reason = _STATE.get_save_failure()
            if reason and not is_failing:
                click.echo(f"\nWarning: {_format_save_failure(reason)}", err=True)
            elif is_failing and not reason:
                click.echo("\nThe local data is saved again.", err=True)
            is_failing = bool(reason)


def _format_save_failure(reason: str) -> str:
    """Format the message about data that could not be saved."""
    return (
        f"The local data could not be saved in {STATE}: {reason}. Free some space, or make the"
        " folder writable. The database keeps your changes in memory and retries every"
        f" {RETRY_SECONDS:.0f} seconds, even after this command has ended. To discard them: kill"
        f" {_STATE.daemon_lock.read_text()}"
    )


def _find_or_start_daemon() -> str:
    """Return the host:port of the database, and start a daemon if none is running."""
    daemon = None
    while not (host := _STATE.get_address()):
        if daemon and daemon.poll() is not None:
            raise EmulatorError(f"The local database did not start.\n{_pop_log()}")
        if not daemon and not _STATE.has_daemon():
            provide_emulator()  # here, because the daemon's output does not reach the terminal
            daemon = _start_daemon()
        time.sleep(0.05)
    return host


def _start_daemon() -> subprocess.Popen[bytes]:
    """Start the daemon, whose output goes to the log."""
    arguments = [str(STATE.resolve()), str(get_emulator_port())]
    command = [sys.executable, "-m", "infra.local.emulator_daemon", *arguments]
    with _STATE.log.open("wb", buffering=0) as log:
        log.write(b" " * MAX_MESSAGE_BYTES)  # reserves space for messages about a full disk
        log.seek(0)
        return subprocess.Popen(  # noqa: S603 - our own module
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # so that signals to the client do not reach it
        )


def _pop_log() -> str:
    """Return the daemon's errors and clear the log. The caller must report the errors."""
    if not _STATE.log.exists():
        return ""
    with _STATE.log.open("r+", encoding="utf-8", errors="replace") as log:
        message = log.read().strip("\0 \n")
        log.truncate(0)
    return message[-MAX_MESSAGE_BYTES:]
