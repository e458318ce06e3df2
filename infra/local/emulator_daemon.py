"""The daemon that runs the local database. It starts with the first client and stops with the last.

A client is a process that uses the database, such as `make run` or `carrel stdio`. Every client
holds a shared lock on one file, and the daemon waits for the exclusive lock. So a client that ends,
even by a crash, neither affects other clients nor loses data. The emulator keeps the database in
memory, and the daemon saves it to disk. If that fails, the daemon runs until it succeeds or is
stopped. The names of its files stay, because an older client may look for them.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from infra.file_lock import hold_lock, is_free
from infra.folders import run_command
from infra.local.autosave import (
    MIN_PAUSE_SECONDS,
    RETRY_SECONDS,
    autosave,
    load_databases,
    save_databases,
)
from infra.local.emulator import LOOPBACK, PortTaken, find_exports, run_emulator
from infra.local.emulator_programs import EmulatorError
from infra.local.processes import is_listening

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

ORPHAN_SECONDS: Final = 15.0
"""The emulator of a killed daemon ends by itself within this time."""
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The folder with the saved databases and the files that coordinate the daemon and clients.

    Attributes:
        path: The path of the folder.
    """

    path: Path

    @property
    def data(self) -> Path:
        """The folder with the saved databases."""
        return self.path / "firestore"

    @property
    def clients_lock(self) -> Path:
        """The lock that clients share, and that the daemon holds after them until data is saved."""
        return self.path / "clients"

    @property
    def start_lock(self) -> Path:
        """The lock that a client holds while it looks for a daemon and starts one."""
        return self.path / "starting"

    @property
    def daemon_lock(self) -> Path:
        """The lock that the daemon holds while it lives. The file contains its process id."""
        return self.path / "keeper"

    @property
    def address_file(self) -> Path:
        """The file that contains the host:port of the running database."""
        return self.path / "serving"

    @property
    def unsaved_lock(self) -> Path:
        """The lock that the daemon holds from a failed save until the next successful one.

        The file contains the reason for the failure.
        """
        return self.path / "unsaved"

    @property
    def log(self) -> Path:
        """The file that contains the daemon's errors until a client reports them."""
        return self.path / "keeper.log"

    def get_saved_at(self) -> datetime | None:
        """Return when the knowledge base was last saved, in local time, or None if it never was."""
        exports = find_exports(self.data / "(default)")
        return datetime.fromtimestamp(exports[-1].stat().st_mtime).astimezone() if exports else None

    def has_daemon(self) -> bool:
        """Return whether a daemon is starting, serving or stopping."""
        return not is_free(self.daemon_lock, fcntl.LOCK_SH)

    def has_clients(self) -> bool:
        """Return whether the database has a client."""
        return not is_free(self.clients_lock, fcntl.LOCK_EX) and is_free(
            self.clients_lock, fcntl.LOCK_SH
        )

    def get_address(self) -> str | None:
        """Return the host:port of the running database, or None if no database is running.

        The address file alone does not prove that a database is running, because a killed daemon
        does not delete the file.
        """
        try:
            address = self.address_file.read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return address if address and self.has_daemon() else None

    def get_save_failure(self) -> str | None:
        """Return why the last save failed, or None if it succeeded."""
        if is_free(self.unsaved_lock, fcntl.LOCK_SH):
            return None
        return self.unsaved_lock.read_text() or "its disk may be full"


def run_daemon(state: StateFolder, port: int) -> None:
    """Run the database until no client is connected, and save it before a new client can connect.

    Args:
        state: The state folder.
        port: The port for the database.

    Raises:
        EmulatorError: The database did not start.
    """
    with hold_lock(state.daemon_lock), ExitStack() as no_clients:
        _wait_for_orphaned_emulator(state, port)
        state.daemon_lock.write_text(str(os.getpid()))
        try:
            with run_emulator(port) as address, state.unsaved_lock.open("w") as unsaved_file:
                _load(address, state)
                try_to_save = partial(_try_to_save, state, address, unsaved_file)
                _serve(state, address, try_to_save, no_clients)
        except PortTaken as error:
            command = f"EMULATOR_PORT={port + 1} {run_command()}"
            raise EmulatorError(f"{error} To use another port: {command}") from error


def _load(address: str, state: StateFolder) -> None:
    """Load the saved databases into the emulator.

    Raises:
        EmulatorError: The emulator cannot load them. The message says what to do.
    """
    try:
        load_databases(address, state.data)
    except EmulatorError as error:
        raise EmulatorError(
            f"The data in {state.data} cannot be loaded: it is damaged, or a newer emulator saved"
            f" it. To set it aside and start empty: mv {state.path} {state.path}.old\n{error}"
        ) from error


def _serve(
    state: StateFolder, address: str, try_to_save: Callable[[], bool], no_clients: ExitStack
) -> None:
    """Serve clients until the last one has ended and everything is saved.

    Args:
        state: The state folder.
        address: The host:port of the database.
        try_to_save: Saves the data, and returns whether that succeeded.
        no_clients: Holds the clients' lock exclusively from the end of the last client until the
            daemon ends, so that no client connects in between.
    """
    signal.signal(signal.SIGCHLD, _fail)
    try:
        state.address_file.write_text(address)
        pause = MIN_PAUSE_SECONDS
        while True:
            with autosave(try_to_save, pause):
                no_clients.enter_context(hold_lock(state.clients_lock))
            if try_to_save():
                return
            no_clients.close()  # clients may connect while the disk is full
            pause = RETRY_SECONDS
            time.sleep(pause)
    except SystemExit as end:
        if not end.code and not try_to_save():  # an exit code means that the emulator is dead
            sys.exit("Changes since the last save are lost: they could not be saved.")
        raise
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        state.address_file.unlink(missing_ok=True)


def _try_to_save(state: StateFolder, address: str, unsaved_file: TextIO) -> bool:
    """Save the data, and return whether that succeeded. After a failure, the file is locked."""
    # No stop signal may interrupt a save. The death of the emulator still does.
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        save_databases(address, state.data)
    except EmulatorError as error:
        with suppress(OSError):  # on a full disk, the lock alone reports the failure
            state.unsaved_lock.write_text(str(error))
        fcntl.flock(unsaved_file, fcntl.LOCK_EX)
        return False
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    fcntl.flock(unsaved_file, fcntl.LOCK_UN)
    return True


def _wait_for_orphaned_emulator(state: StateFolder, port: int) -> None:
    """Wait until the emulator of a killed daemon has ended, which happens by itself."""
    address = f"{LOOPBACK}:{port}"
    may_run = state.address_file.exists() and state.address_file.read_text() == address
    state.address_file.unlink(missing_ok=True)  # first, so that no client connects to it
    deadline = time.monotonic() + ORPHAN_SECONDS
    while may_run and is_listening(address) and time.monotonic() < deadline:
        time.sleep(0.05)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    """End the daemon after a signal. `_serve` saves the data."""
    for stop_signal in _STOP_SIGNALS:
        signal.signal(stop_signal, signal.SIG_IGN)  # a second signal would interrupt the save
    sys.exit()


def _fail(_signal: int, _frame: FrameType | None) -> None:
    """End the daemon after its emulator has died."""
    # The message is written here, because a failed save may replace the exit's own message.
    sys.stderr.write(
        "The Firestore emulator died. Changes since the last save, some minutes ago, are lost.\n"
    )
    sys.exit(1)


def _main() -> None:
    for stop_signal in _STOP_SIGNALS:
        signal.signal(stop_signal, _stop)
    _, state, port = sys.argv
    try:
        run_daemon(StateFolder(Path(state)), int(port))
    except (EmulatorError, HTTPException, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _main()
