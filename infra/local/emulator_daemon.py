"""The process that keeps the local database: it comes with the first client, goes with the last.

Every client, such as `make run` or `carrel stdio`, holds a shared lock on one file; the keeper
waits for the exclusive one. So no client owns the database: whichever ends first, in whatever
way, takes nothing from the others and loses no data. Where the data cannot be saved, the keeper
stays until they can.
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
from infra.local.emulator import LOOPBACK, EmulatorError, PortTaken, run_emulator
from infra.local.processes import answers
from infra.local.saving import RETRY_SECONDS, SAVE_SECONDS, load, save, saving

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

LAST_BREATH_SECONDS: Final = 15.0
"""How long the emulator of a keeper that was killed may take to end."""
_ENDS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The files through which the clients and the keeper of a database know of one another.

    Attributes:
        path: The folder.
    """

    path: Path

    @property
    def data(self) -> Path:
        """The folder with the database's contents between runs."""
        return self.path / "firestore"

    @property
    def clients(self) -> Path:
        """Locked by all clients together; then by the keeper alone, until the data are kept."""
        return self.path / "clients"

    @property
    def starting(self) -> Path:
        """Locked by a client while it looks for a keeper and starts one."""
        return self.path / "starting"

    @property
    def keeper(self) -> Path:
        """Locked by the keeper for as long as it lives; holds its process id."""
        return self.path / "keeper"

    @property
    def address(self) -> Path:
        """Holds host:port while the database answers there."""
        return self.path / "serving"

    @property
    def unsaved(self) -> Path:
        """Locked by the keeper from a save that failed to one that succeeds; holds the reason."""
        return self.path / "unsaved"

    @property
    def log(self) -> Path:
        """What went wrong in the keeper, until somebody is told."""
        return self.path / "keeper.log"

    def has_keeper(self) -> bool:
        """Whether a keeper lives: starting, serving or ending."""
        return not is_free(self.keeper, fcntl.LOCK_SH)

    def has_clients(self) -> bool:
        """Whether anybody has a share in the lock that the keeper wants alone."""
        return not is_free(self.clients, fcntl.LOCK_EX) and is_free(self.clients, fcntl.LOCK_SH)

    def serving(self) -> str | None:
        """Where the database answers, if it does: a keeper that was killed takes nothing back."""
        try:
            host = self.address.read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return host if host and self.has_keeper() else None

    def save_failure(self) -> str | None:
        """Why the last save failed; None where none did."""
        if is_free(self.unsaved, fcntl.LOCK_SH):
            return None
        return self.unsaved.read_text() or "its disk may be full"


def keep(state: StateFolder, port: int) -> None:
    """Run the database until no client is left; its contents are on disk before any comes again.

    Raises:
        EmulatorError: The database did not start.
    """
    with locked(state.keeper), ExitStack() as alone:
        _outlast_a_killed_keeper(state, port)
        state.keeper.write_text(str(os.getpid()))
        try:
            with run_emulator(port) as host, state.unsaved.open("w") as failing:
                load(host, state.data)
                _serve(state, host, partial(_try_to_save, state, host, failing), alone)
        except PortTaken as error:
            raise EmulatorError(f"{error} EMULATOR_PORT names another.") from error


def _serve(
    state: StateFolder, host: str, try_to_save: Callable[[], bool], alone: ExitStack
) -> None:
    signal.signal(signal.SIGCHLD, _die)
    try:
        state.address.write_text(host)
        pause = SAVE_SECONDS
        while True:
            with saving(try_to_save, pause):
                alone.enter_context(locked(state.clients))
            if try_to_save():
                return
            alone.close()  # clients may come while the data wait for room on the disk
            pause = RETRY_SECONDS
            time.sleep(pause)
    except SystemExit as end:
        if not end.code and not try_to_save():  # with a code, the emulator is dead
            sys.exit("What was put in since the last save is lost: it could not be saved.")
        raise
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        state.address.unlink(missing_ok=True)


def _try_to_save(state: StateFolder, host: str, failing: TextIO) -> bool:
    """Save the data and unlock `failing`, or lock it; tell whether they are saved."""
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)  # what has begun is brought to an end
    try:
        save(host, state.data)
    except EmulatorError as error:
        with suppress(OSError):  # on a full disk, the lock says enough
            state.unsaved.write_text(str(error))
        fcntl.flock(failing, fcntl.LOCK_EX)
        return False
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    fcntl.flock(failing, fcntl.LOCK_UN)
    return True


def _outlast_a_killed_keeper(state: StateFolder, port: int) -> None:
    """Wait for the emulator that it left, which ends by itself."""
    host = f"{LOOPBACK}:{port}"
    left_behind = state.address.exists() and state.address.read_text() == host
    state.address.unlink(missing_ok=True)  # first, or a client would be sent to it
    deadline = time.monotonic() + LAST_BREATH_SECONDS
    while left_behind and answers(host) and time.monotonic() < deadline:
        time.sleep(0.05)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    for end in _ENDS:
        signal.signal(end, signal.SIG_IGN)  # a second one would cut the export short
    sys.exit()


def _die(_signal: int, _frame: FrameType | None) -> None:
    # Not as this process's last word: that will be that nothing can be exported any more.
    sys.stderr.write(
        "The Firestore emulator died. What was put in since it was last saved, some minutes ago,"
        " is lost.\n"
    )
    sys.exit(1)


def _main() -> None:
    for end in _ENDS:
        signal.signal(end, _leave)
    _, state, port = sys.argv
    try:
        keep(StateFolder(Path(state)), int(port))
    except (EmulatorError, HTTPException, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _main()
