"""The database of a benchmark: the one of a local run, empty, in a state folder of its own.

Import this module before any other of Carrel's, since the state folder is read only once.
"""

from __future__ import annotations

import atexit
import os
import sys
from tempfile import TemporaryDirectory
from typing import Final

_STATE: Final = TemporaryDirectory(prefix="carrel-bench-")
if "infra.local.local_database" in sys.modules:
    raise ImportError("A benchmark would write into the state folder of this checkout.")
os.environ["CARREL_STATE"] = _STATE.name
os.environ.pop("FIRESTORE_EMULATOR_HOST", None)


def use_database() -> None:
    """Let this process, and the gateways that it starts, use the files of the state folder."""
    from infra.local.local_database import use_local_database

    # Registered before the databases, which are closed first.
    atexit.register(_STATE.cleanup)
    use_local_database()
