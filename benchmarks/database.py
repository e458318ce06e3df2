"""The database of a benchmark: the one of a local run, empty, in a state folder of its own.

Import this module before any other of Carrel's, since the state folder is read only once.
"""

from __future__ import annotations

import atexit
import os
import sys
from tempfile import TemporaryDirectory
from typing import Final

_PREFIX: Final = "carrel-bench-"
if _PREFIX not in os.environ.get("CARREL_STATE", ""):  # or this is a process of the benchmark's
    if "infra.local.local_database" in sys.modules:
        raise ImportError("A benchmark would write into the state folder of this checkout.")
    _state = TemporaryDirectory(prefix=_PREFIX)
    os.environ["CARREL_STATE"] = _state.name
    os.environ.pop("FIRESTORE_EMULATOR_HOST", None)


def use_database() -> None:
    """Let this process, and the gateways that it starts, use the files of the state folder."""
    from infra.local.local_database import use_local_database

    # Registered before the databases, which are closed first.
    atexit.register(_state.cleanup)
    use_local_database()
