"""The gateways that run on the data of this machine, known by the logs that they keep locked."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING

from infra.file_lock import is_free
from infra.local import local_database

if TYPE_CHECKING:
    from pathlib import Path

_PREFIX = "functions-"


def get_log_file(port: int) -> Path:
    """Return the path of the log of the gateway on a port, which it keeps locked."""
    return local_database.STATE / f"{_PREFIX}{port}.log"


def find_running_port(preferred: int) -> int | None:
    """Return the port of a running gateway: the preferred one, else the lowest, else None."""
    ports = [
        int(number)
        for log in local_database.STATE.glob(f"{_PREFIX}*.log")
        if (number := log.stem.removeprefix(_PREFIX)).isdecimal()
        and not is_free(log, fcntl.LOCK_SH)  # shared, so that two commands do not see each other
    ]
    return preferred if preferred in ports else min(ports, default=None)
