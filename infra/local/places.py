"""Where a local run keeps what it has, and the one database that all its commands share."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infra.deploy.discovery import ROOT
from infra.local.emulator import DATABASES, LOOPBACK, PROJECT, EmulatorError, export_data
from infra.local.file_lock import locked
from infra.local.keeper import StateFolder
from infra.local.processes import answers
from infra.local.secret import local_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLE: Final = ROOT / "infra" / "local" / "sample" / "readwise.json"
STATE: Final = Path(os.environ.get("CARREL_STATE", ROOT / ".carrel"))
"""What a local run leaves behind: the database's contents, and logs."""
EMULATOR_PORT: Final = int(os.environ.get("EMULATOR_PORT", "8686"))
"""Where a database that starts listens; one that runs already is found wherever it listens."""
EMULATOR: Final = f"{LOOPBACK}:{EMULATOR_PORT}"
END_SECONDS: Final = 60.0
"""How long whoever ends the database waits until its contents are on disk."""
LONGEST_MESSAGE: Final = 4000
_STATE: Final = StateFolder(STATE)


def work_locally() -> None:
    """Point this process at the local run's database, unless another emulator is named."""
    if "FIRESTORE_EMULATOR_HOST" not in os.environ:
        os.environ["FIRESTORE_EMULATOR_HOST"] = EMULATOR
        os.environ["GOOGLE_CLOUD_PROJECT"] = PROJECT
        # Whoever interrupts a job here starts it again at once; steps are short without a network.
        os.environ.setdefault("LEASE_SECONDS", "10")


def share_secret() -> None:
    """Have this process sign and hash as all local runs do, unless it is told its secrets."""
    if not os.environ.get("ACCESS_SECRETS"):
        os.environ["ACCESS_SECRETS"] = json.dumps([local_secret(STATE)])


@contextmanager
def knowledge_base() -> Iterator[None]:
    """Make sure of the database that this process was pointed at, until the block ends.

    Raises:
        EmulatorError: The local one cannot run, or the emulator that was named does not answer.
    """
    host = os.environ.get("FIRESTORE_EMULATOR_HOST")  # none in the cloud
    if host == EMULATOR:
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

    Yields:
        Its host:port.

    Raises:
        EmulatorError: It cannot run; the message says why.
    """
    STATE.mkdir(parents=True, exist_ok=True)
    with locked(_STATE.clients, fcntl.LOCK_SH):
        with locked(_STATE.starting):
            host = _find_or_start()
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
        if time.monotonic() > deadline:
            raise EmulatorError(f"The database is still writing its contents to {STATE}.")
        time.sleep(0.05)
    if said := _take_log():
        raise EmulatorError(f"Something went wrong in the local database:\n{said}")


def keep() -> None:
    """Write the local databases' contents to disk now, so that not even a crash loses them."""
    host = _STATE.serving()
    if host and host == os.environ.get("FIRESTORE_EMULATOR_HOST"):
        for name in DATABASES:
            export_data(host, _STATE.data / name, PROJECT, name)


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
    command = [sys.executable, "-m", "infra.local.keeper", str(STATE.resolve()), str(EMULATOR_PORT)]
    with _STATE.log.open("wb") as log:
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
        said = log.read()
        log.truncate(0)
    return said[-LONGEST_MESSAGE:]
