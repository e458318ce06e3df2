"""Where a local run keeps what it has, and where its database listens for other commands."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from infra.deploy.discovery import ROOT
from infra.local.emulator import PROJECT, export_data, run_emulator

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLE: Final = ROOT / "infra" / "local" / "sample" / "readwise.json"
STATE: Final = Path(os.environ.get("CARREL_STATE", ROOT / ".carrel"))
"""What a local run leaves behind: the database's contents and the functions' log."""
EMULATOR_PORT: Final = int(os.environ.get("EMULATOR_PORT", "8686"))
EMULATOR: Final = f"127.0.0.1:{EMULATOR_PORT}"
_DATA: Final = STATE / "firestore"


def work_locally() -> None:
    """Point this process at the local run's database, unless another emulator is named."""
    if "FIRESTORE_EMULATOR_HOST" not in os.environ:
        os.environ["FIRESTORE_EMULATOR_HOST"] = EMULATOR
        os.environ["GOOGLE_CLOUD_PROJECT"] = PROJECT
        # Whoever interrupts a job here starts it again at once; steps are short without a network.
        os.environ.setdefault("LEASE_SECONDS", "10")


def work_in_the_cloud() -> None:
    """Point this process at the project in GOOGLE_CLOUD_PROJECT."""
    os.environ.pop("FIRESTORE_EMULATOR_HOST", None)


def is_local() -> bool:
    """Whether this process works on the local run's database."""
    return os.environ.get("FIRESTORE_EMULATOR_HOST") == EMULATOR


def answers(host: str) -> bool:
    """Whether somebody listens at `host`, a name and a port."""
    name, _, port = host.rpartition(":")
    try:
        socket.create_connection((name, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


@contextmanager
def database() -> Iterator[None]:
    """Run the local database until the block ends; it keeps its contents between runs."""
    STATE.mkdir(exist_ok=True)
    with run_emulator(port=EMULATOR_PORT, data=_DATA):
        yield


def keep() -> None:
    """Write the local database's contents to disk now, so that not even a crash loses them."""
    export_data(EMULATOR, _DATA / "(default)", PROJECT)
