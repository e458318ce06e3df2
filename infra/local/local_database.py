"""Where a local run keeps what it has, and the one database that all its commands share."""

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

from infra.build.discovery import ROOT
from infra.file_lock import locked
from infra.local.emulator import LOOPBACK, PROJECT, EmulatorError
from infra.local.emulator_daemon import StateFolder
from infra.local.processes import answers
from infra.local.saving import RETRY_SECONDS, save
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLE: Final = ROOT / "infra" / "local" / "sample" / "readwise.json"
STATE: Final = Path(os.environ.get("CARREL_STATE") or ROOT / ".carrel")
"""What a local run leaves behind: the database's contents, and logs."""
HIGHEST_PORT: Final = 65_535
WATCH_SECONDS: Final = 1.0
"""How often to look whether the data could be saved."""
END_SECONDS: Final = 60.0
"""How long whoever ends the database waits until its contents are on disk."""
LONGEST_MESSAGE: Final = 4000
_SECRET_BYTES: Final = 32
_STATE: Final = StateFolder(STATE)


def emulator_port() -> int:
    """Where a database that starts listens; one that runs already is found wherever it listens.

    Raises:
        InvalidInput: EMULATOR_PORT is no port.
    """
    port = os.environ.get("EMULATOR_PORT") or "8686"
    if not port.isdecimal() or not 0 < int(port) <= HIGHEST_PORT:
        raise InvalidInput(
            f"EMULATOR_PORT must be a port from 1 to {HIGHEST_PORT}, such as EMULATOR_PORT=8787."
        )
    return int(port)


def emulator() -> str:
    """host:port of a database that starts.

    Raises:
        InvalidInput: EMULATOR_PORT is no port.
    """
    return f"{LOOPBACK}:{emulator_port()}"


def work_locally() -> None:
    """Point this process at the local run's database, unless another emulator is named.

    Raises:
        InvalidInput: EMULATOR_PORT is no port.
    """
    if "FIRESTORE_EMULATOR_HOST" not in os.environ:
        os.environ["FIRESTORE_EMULATOR_HOST"] = emulator()
        os.environ["GOOGLE_CLOUD_PROJECT"] = PROJECT
        # Whoever interrupts a job here starts it again at once; steps are short without a network.
        os.environ.setdefault("LEASE_SECONDS", "10")


def variables() -> dict[str, str]:
    """What another process must be given to work on the same database."""
    values = {"CARREL_STATE": str(STATE.resolve()), "EMULATOR_PORT": str(emulator_port())}
    return {name: value for name, value in values.items() if os.environ.get(name)}


def share_secret() -> None:
    """Have this process sign and hash as all local runs do, unless it is told its secrets."""
    if not os.environ.get("ACCESS_SECRETS"):
        os.environ["ACCESS_SECRETS"] = json.dumps([local_secret(STATE)])


def local_secret(folder: Path) -> str:
    """The secret of local runs, in `folder`: keys and sign-ins outlive a run by it.

    It is made at random if need be, for this machine's user alone to read.

    Of several processes that start at once, all get the same. A crash leaves it whole or absent.
    """
    path = folder / "secret"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _make_secret(path)
    return path.read_text("ascii").strip()


def _make_secret(path: Path) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".secret-") as file:  # mode 0600
        file.write(secrets.token_urlsafe(_SECRET_BYTES) + "\n")
        file.flush()
        os.fsync(file.fileno())
        with suppress(FileExistsError):  # another process was faster: its secret is the one
            os.link(file.name, path)


@contextmanager
def knowledge_base() -> Iterator[None]:
    """Make sure of the database that this process was pointed at, until the block ends.

    Raises:
        EmulatorError: The local one cannot run, or the emulator that was named does not answer.
    """
    host = os.environ.get("FIRESTORE_EMULATOR_HOST")  # none in the cloud
    if host == emulator():
        with database() as found:
            os.environ["FIRESTORE_EMULATOR_HOST"] = found
            yield
    elif host and not answers(host):
        raise EmulatorError(f"No emulator answers at {host}, which FIRESTORE_EMULATOR_HOST names.")
    else:
        yield


@contextmanager
def database() -> Iterator[str]:
    """Share in the local database until the block ends. It keeps its contents between runs.

    Meanwhile, it is said on standard error when they cannot be saved.

    Yields:
        Its host:port.

    Raises:
        EmulatorError: It cannot run; the message says why.
    """
    STATE.mkdir(parents=True, exist_ok=True)
    with locked(_STATE.clients, fcntl.LOCK_SH):
        with locked(_STATE.starting):
            host = _find_or_start()
        with _watching_saves():
            yield host


def is_served() -> bool:
    """Whether the local database lives."""
    return _STATE.serving() is not None


def await_end() -> None:
    """Wait until the database has ended, unless others share in it.

    Raises:
        EmulatorError: It could not write its contents.
    """
    deadline = time.monotonic() + END_SECONDS
    while _STATE.has_keeper() and not _STATE.has_clients():
        if reason := _STATE.save_failure():
            raise EmulatorError(_unsaved(reason))
        if time.monotonic() > deadline:
            raise EmulatorError(f"The database is still writing its contents to {STATE}.")
        time.sleep(0.05)
    if said := _take_log():
        raise EmulatorError(f"Something went wrong in the local database:\n{said}")


def keep() -> None:
    """Write the local databases' contents to disk now, so that not even a crash loses them.

    Raises:
        EmulatorError: They could not be written; the message says why, and what to do.
    """
    host = _STATE.serving()
    if host and host == os.environ.get("FIRESTORE_EMULATOR_HOST"):
        try:
            save(host, _STATE.data)
        except EmulatorError as error:
            raise EmulatorError(_unsaved(str(error))) from error


def explain(error: OSError) -> str | None:
    """What to do about a full disk or an unusable state folder; None for other errors."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"{error.strerror}: {error.filename or STATE}. Make room there, and try again."
    if not error.filename or not _is_ours(Path(os.fsdecode(error.filename))):
        return None
    reason = "it is a file" if STATE.is_file() else error.strerror
    another = "CARREL_STATE=/another/folder make run"
    return f"Carrel cannot keep its data in {STATE}: {reason}. Name another folder: {another}"


def _is_ours(path: Path) -> bool:
    """Whether a path is the state folder, in it, or a folder that it is in."""
    return path.is_relative_to(STATE) or STATE.is_relative_to(path)


@contextmanager
def _watching_saves() -> Iterator[None]:
    """Say when the data cannot be saved, and when they are saved again, until the block ends."""
    over = threading.Event()
    thread = threading.Thread(target=_watch_saves, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch_saves(over: threading.Event) -> None:
    failing = False
    with suppress(OSError):  # where the folder itself is gone, its next user says so
        while not over.wait(WATCH_SECONDS):
            reason = _STATE.save_failure()
            if reason and not failing:
                click.echo(f"\nWarning: {_unsaved(reason)}", err=True)
            elif failing and not reason:
                click.echo("\nThe local data are saved again.", err=True)
            failing = bool(reason)


def _unsaved(reason: str) -> str:
    """That the data could not be saved, and what to do."""
    return (
        f"The local data could not be saved in {STATE}: {reason}. Make room there, or make it"
        " writable: the database keeps what you put in, and tries again every"
        f" {RETRY_SECONDS:.0f} seconds, even after this command has ended. To give up what is not"
        f" saved: kill {_STATE.keeper.read_text()}"
    )


def _find_or_start() -> str:
    """Where the database answers. A keeper that is ending is waited for, then a new one starts."""
    keeper = None
    while not (host := _STATE.serving()):
        if keeper and keeper.poll() is not None:
            raise EmulatorError(f"The local database did not start.\n{_take_log()}")
        if not keeper and not _STATE.has_keeper():
            keeper = _start_keeper()
        time.sleep(0.05)
    return host


def _start_keeper() -> subprocess.Popen[bytes]:
    arguments = [str(STATE.resolve()), str(emulator_port())]
    command = [sys.executable, "-m", "infra.local.emulator_daemon", *arguments]
    with _STATE.log.open("wb", buffering=0) as log:
        log.write(b" " * LONGEST_MESSAGE)  # or nothing could be said of a full disk
        log.seek(0)
        return subprocess.Popen(  # noqa: S603 - our own module
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # or what ends its client would end it too
        )


def _take_log() -> str:
    """What went wrong in the keeper. It is told once: whoever asks must pass it on."""
    if not _STATE.log.exists():
        return ""
    with _STATE.log.open("r+", encoding="utf-8", errors="replace") as log:
        message = log.read().strip("\0 \n")
        log.truncate(0)
    return message[-LONGEST_MESSAGE:]
