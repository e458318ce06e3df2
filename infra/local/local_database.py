"""The databases of local runs: files in the state folder, which each process opens itself.

`FIRESTORE_EMULATOR_HOST` names an emulator instead, which keeps nothing when it ends.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING, Final

from infra.folders import DATA, run_command
from infra.local.processes import is_listening
from infra.local.state_disk import find_remote_disk, find_synchronised_folder, read_mounts
from shared.core.errors import Unavailable, Unusable
from shared.core.installation import ROOT
from shared.core.target import Target, TargetKind, choose_target, get_target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.cloud.firestore import AsyncClient

    from infra.local.embedded_firestore.databases import Databases
    from infra.local.embedded_firestore.definitions import Definitions
    from infra.local.state_disk import Mount

PROJECT: Final = "carrel-local"
"""The id of the project that local databases belong to."""
SAMPLE: Final = ROOT / "infra" / "local" / "sample" / "readwise.json"
"""The texts of the sample knowledge base."""
STATE: Final = Path(os.environ.get("CARREL_STATE") or DATA)
"""The folder with the data of local runs: databases, logs and the secret."""
FILES: Final = STATE / "databases" / PROJECT
"""The folder with the files of the databases."""
KNOWLEDGE: Final = FILES / "default.sqlite"
"""The file with the knowledge base and the users' data."""
LOADED_SAMPLE: Final = FILES / "sample"
"""The file that says that the sample was loaded, so that no start loads it again."""
INDEX_FILES: Final = {
    "(default)": ROOT / "infra" / "build" / "firestore.indexes.json",
    "access": ROOT / "infra" / "build" / "access.indexes.json",
}
"""The indexes of each database. The first is a link to the root's, which a wheel lacks."""
LOCAL_DIMENSION: Final = 896
"""The dimension of the local embedding model, whose module takes long to import."""
_NO_WINDOWS: Final = (
    "Carrel does not run on Windows itself, but in its Linux. Install that with `wsl --install`"
    " (WSL 2), and install and start Carrel in its shell, in a folder of Linux, not below /mnt/c."
)
_SECRET_BYTES: Final = 32
"""The secret of local runs has this many random bytes."""


def use_local_database(*, durable: bool = True) -> None:
    """Use the databases of this machine, whatever credentials of a cloud there are.

    Args:
        durable: Whether a write survives a power failure as soon as it is answered. Otherwise, the
            last ones may be lost; all survive the end of the process.

    Raises:
        Conflict: A restore is running.
        Unusable: This is Windows.
    """
    if not find_spec("fcntl"):
        raise Unusable(_NO_WINDOWS)
    if os.environ.get("FIRESTORE_EMULATOR_HOST"):
        choose_target(Target(TargetKind.EMULATOR, _make_emulator_client))
        return
    os.environ["GOOGLE_CLOUD_PROJECT"] = PROJECT
    from infra.local.state_use import use_state  # Windows has no such locks

    use_state(STATE)
    # Local steps are short, so a short lease lets a person soon restart a job they interrupted.
    os.environ.setdefault("LEASE_SECONDS", "10")

    def make_client(project: str, database: str) -> AsyncClient:
        from infra.local.embedded_firestore.errors import DatabaseFileError

        try:
            return _open_databases(durable=durable).make_client(project, database)
        except DatabaseFileError as error:
            cause = error.__cause__
            reason = explain_os_error(cause) if isinstance(cause, OSError) else None
            raise Unusable(reason or str(error)) from error
        except OSError as error:
            raise Unusable(explain_os_error(error) or str(error)) from error

    choose_target(Target(TargetKind.EMBEDDED, make_client))


def open_local_database() -> None:
    """Open all databases now, so that a problem with the files appears at the start.

    Raises:
        Unusable: A database cannot be opened. The message says what to do.
    """
    target = get_target()
    if target and target.make_client:
        for database in INDEX_FILES:
            target.make_client(os.environ.get("GOOGLE_CLOUD_PROJECT", PROJECT), database)


@cache
def _open_databases(*, durable: bool) -> Databases:
    from infra.local.embedded_firestore.databases import Databases

    require_local_disk()
    protect_state()
    databases = Databases(
        FILES.parent,
        lambda database: _read_definitions(INDEX_FILES[database]),
        durable=durable,
    )
    atexit.register(databases.close)
    return databases


def _read_definitions(file: Path) -> Definitions:
    """Read an index file, for vectors of any dimension, which is the embedding model's.

    A new base has all these indexes, for vectors of the local model, from its first text on, so
    that no tool waits for one after a large import.
    """
    from infra.local.embedded_firestore.definitions import Definitions

    definitions = Definitions.read(file, dimension=0)
    eager = set()
    for index, _ in definitions.indexes:
        # A filtered vector search reads the index of all vectors, and that of its filter.
        filters = replace(index, vector=None, dimension=0)
        if filters.fields and definitions.has(filters):
            eager.add(filters)
        if index.vector:
            eager.add(replace(index, fields=(), dimension=LOCAL_DIMENSION))
    return replace(definitions, eager=frozenset(eager))


def _make_emulator_client(project: str, database: str) -> AsyncClient:
    from google.cloud.firestore import AsyncClient

    host = os.environ["FIRESTORE_EMULATOR_HOST"]
    if not is_listening(host):
        raise Unavailable(
            f"The database cannot be reached: no emulator answers at {host}. Start one there, or"
            " unset FIRESTORE_EMULATOR_HOST."
        )
    return AsyncClient(project=project, database=database)


def protect_state() -> None:
    """Create the state folder, and close it and what is in it to other users of the machine.

    Raises:
        Conflict: A restore is running.
    """
    from infra.local.state_use import use_state

    STATE.mkdir(parents=True, exist_ok=True, mode=0o700)
    use_state(STATE)  # before anything is created in it
    FILES.mkdir(parents=True, exist_ok=True)
    for path in (STATE, FILES.parent, FILES, STATE / "secret", *FILES.glob("*.sqlite*")):
        # A log ends with its last process. Another user's folder is theirs to protect.
        with suppress(FileNotFoundError, PermissionError):
            mode = S_IMODE(path.stat().st_mode)
            if mode & 0o077:
                path.chmod(mode & 0o700)


def require_local_disk(mounts: Iterable[Mount] | None = None) -> None:
    """Check that the state folder is on a disk of this machine.

    Raises:
        Unusable: SQLite cannot protect its files there.
    """
    if kind := find_remote_disk(STATE, read_mounts() if mounts is None else mounts):
        raise Unusable(
            f"Carrel cannot store data in {STATE}: it is on a drive of a network or of another"
            f" system ({kind}), where a database that several processes use can be damaged."
            f" {_describe_other_folder()}"
        )


def list_notes() -> list[str]:
    """List what a person should know about the state folder when Carrel starts."""
    notes = []
    if folder := find_synchronised_folder(STATE):
        notes.append(
            f"Warning: {STATE} is in {folder}, which a program seems to synchronise. That can"
            f" damage the database, or bring an older one back. {_describe_other_folder()}"
        )
    return notes


def _describe_other_folder() -> str:
    return (
        f"To use a folder on a disk of this machine: CARREL_STATE=/another/folder {run_command()}."
        " To take your data along, copy the folder there first, while Carrel does not run."
    )


def list_environment_variables() -> dict[str, str]:
    """List the variables that another process must set to use the same database."""
    return {"CARREL_STATE": str(STATE.resolve())} if os.environ.get("CARREL_STATE") else {}


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
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
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
