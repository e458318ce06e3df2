"""The daemon that runs the local database: it starts with the first client, stops with the last.

Every client, such as `make run` or `carrel stdio`, holds a shared lock on one file. The daemon
waits for the exclusive lock. So no client owns the database: no client that ends, even by a crash,
affects the others or loses data. If the data cannot be saved, the daemon stays until it can.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from infra.file_lock import is_free, locked
from infra.local.autosave import (
    MIN_PAUSE_SECONDS,
    RETRY_SECONDS,
    autosave,
    load_databases,
    save_databases,
)
from infra.local.emulator import LOOPBACK, EmulatorError, PortTaken, run_emulator
from infra.local.processes import is_listening

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

ORPHAN_SECONDS: Final = 15.0
"""The emulator of a killed daemon ends within this time."""
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The files through which clients and the daemon coordinate.

    Attributes:
        path: The folder.
    """

    path: Path

    @property
    def data(self) -> Path:
        """The folder with the saved databases."""
        return self.path / "firestore"

    @property
    def clients(self) -> Path:
        """Locked by the clients together; afterwards by the daemon, until the data is saved."""
        return self.path / "clients"

    @property
    def starting(self) -> Path:
        """Locked by a client while it looks for a daemon and starts one."""
        return self.path / "starting"

    @property
    def daemon(self) -> Path:
        """Locked by the daemon while it lives; contains its process id."""
        return self.path / "keeper"

    @property
    def address(self) -> Path:
        """Contains host:port while the database answers there."""
        return self.path / "serving"

    @property
    def unsaved(self) -> Path:
        """Locked by the daemon from a failed save until the next success; contains the reason."""
        return self.path / "unsaved"

    @property
    def log(self) -> Path:
        """Contains the daemon's errors until a client reports them."""
        return self.path / "keeper.log"

    def has_daemon(self) -> bool:
        """Return whether a daemon is starting, serving or stopping."""
        return not is_free(self.daemon, fcntl.LOCK_SH)

    def has_clients(self) -> bool:
        """Return whether a client exists. Each client has a shared lock."""
        return not is_free(self.clients, fcntl.LOCK_EX) and is_free(self.clients, fcntl.LOCK_SH)

    def serving(self) -> str | None:
        """Return the address if the database answers. A killed daemon leaves its address behind."""
        try:
            host = self.address.read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return host if host and self.has_daemon() else None

    def save_failure(self) -> str | None:
        """Return the error of the last save, or None if the save succeeded."""
        if is_free(self.unsaved, fcntl.LOCK_SH):
            return None
        return self.unsaved.read_text() or "its disk may be full"


def run_daemon(state: StateFolder, port: int) -> None:
    """Run the database until no client is left, and save it before a new client can come.

    Raises:
        EmulatorError: The database did not start.
    """
    with locked(state.daemon), ExitStack() as exclusive:
        _wait_for_orphaned_emulator(state, port)
        state.daemon.write_text(str(os.getpid()))
        try:
            with run_emulator(port) as host, state.unsaved.open("w") as unsaved:
                load_databases(host, state.data)
                _serve(state, host, partial(_try_to_save, state, host, unsaved), exclusive)
        except PortTaken as error:
            raise EmulatorError(f"{error} To use another port, set EMULATOR_PORT.") from error


def _serve(
    state: StateFolder, host: str, try_to_save: Callable[[], bool], exclusive: ExitStack
) -> None:
    signal.signal(signal.SIGCHLD, _fail)
    try:
        state.address.write_text(host)
        pause = MIN_PAUSE_SECONDS
        while True:
            with autosave(try_to_save, pause):
                exclusive.enter_context(locked(state.clients))
            if try_to_save():
                return
            exclusive.close()  # clients may come while the disk is full
            pause = RETRY_SECONDS
            time.sleep(pause)
    except SystemExit as end:
        if not end.code and not try_to_save():  # with a code, the emulator is dead
            sys.exit("Changes since the last save are lost: they could not be saved.")
        raise
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        state.address.unlink(missing_ok=True)


def _try_to_save(state: StateFolder, host: str, unsaved: TextIO) -> bool:
    """Save the data; lock `unsaved` if it fails, else unlock it. Return whether it succeeded."""
    # No signal may interrupt a save.
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        save_databases(host, state.data)
    except EmulatorError as error:
        with suppress(OSError):  # on a full disk, the lock alone reports the failure
            state.unsaved.write_text(str(error))
        fcntl.flock(unsaved, fcntl.LOCK_EX)
        return False
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    fcntl.flock(unsaved, fcntl.LOCK_UN)
    return True


def _wait_for_orphaned_emulator(state: StateFolder, port: int) -> None:
    """Wait until the emulator of a killed daemon has ended, which happens by itself."""
    host = f"{LOOPBACK}:{port}"
    orphaned = state.address.exists() and state.address.read_text() == host
    state.address.unlink(missing_ok=True)  # first, so that no client connects to it
    deadline = time.monotonic() + ORPHAN_SECONDS
    while orphaned and is_listening(host) and time.monotonic() < deadline:
        time.sleep(0.05)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    for stop_signal in _STOP_SIGNALS:
        signal.signal(stop_signal, signal.SIG_IGN)  # a second signal would interrupt the export
    sys.exit()


def _fail(_signal: int, _frame: FrameType | None) -> None:
    # Written here because a failing export may replace the message of the exit.
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
