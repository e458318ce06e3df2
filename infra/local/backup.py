"""Backups of the base of this machine: its databases and its secret, in one archive.

The archive is a tar file. Its first member, `carrel-backup.json`, has the version of the format and
the hash of each other member, whose names are paths in the state folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from io import BytesIO
from typing import TYPE_CHECKING, Final, NamedTuple

from infra.file_lock import hold_lock_or_refuse
from infra.local import local_database
from infra.local.embedded_firestore.copies import copy_files
from infra.local.embedded_firestore.errors import DatabaseFileError
from infra.local.embedded_firestore.files import check_file
from infra.local.state_use import UNPACKING, put_in_place, replace_state
from shared.core.errors import Conflict, InvalidInput, NotFound, Unusable
from shared.core.installation import carrel

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

FORMAT: Final = 1
MANIFEST: Final = "carrel-backup.json"
_MAX_MANIFEST_BYTES: Final = 100_000
_FOREIGN: Final = "is not a backup of Carrel, or is damaged. Nothing was restored."
_NAME: Final = re.compile(
    rf"databases/{local_database.PROJECT}/([a-z0-9-]+\.sqlite|{local_database.LOADED_SAMPLE.name})"
    "|secret"
)
"""The names of members. Nothing else is unpacked, whatever an archive says."""


class Restored(NamedTuple):
    """A base that was restored.

    Attributes:
        created: When the backup was made.
        former: The folder with the base that was here before, or None if there was none.
    """

    created: datetime
    former: Path | None


def write_backup(target: Path) -> None:
    """Write a new archive, with the databases as they are at one moment.

    Other processes go on writing. If this one is killed, no archive appears, and the next backup
    deletes what is left of it.

    Raises:
        Conflict: The file exists, or another backup is being made.
        NotFound: There is no database, or no folder for the file.
        Unusable: A database is damaged, or of a later version.
    """
    databases = sorted(local_database.FILES.glob("*.sqlite"))
    if not databases:
        raise NotFound(f"There is no database in {local_database.STATE} yet.")
    target = target.resolve()
    if not target.parent.is_dir():
        raise NotFound(f"There is no folder {target.parent}. Create it first.")
    if target.exists():
        raise Conflict(f"{target} exists already. Give another name.")
    # The copies are made here, because SQLite cannot open them on a network drive.
    copies = local_database.STATE / ".backing-up"
    copies.mkdir(mode=0o700, exist_ok=True)
    base, unfinished = copies / "base", target.with_name(f".{target.name}.carrel-new")
    with hold_lock_or_refuse(copies, "Another backup is being made. Try again when it has ended."):
        shutil.rmtree(base, ignore_errors=True)
        try:
            _copy_base(databases, base)
            unfinished.unlink(missing_ok=True)
            unfinished.touch(mode=0o600, exist_ok=False)
            _write_archive(base, unfinished)
            unfinished.rename(target)
            with suppress(OSError):  # some drives cannot flush a folder, and the archive is whole
                _flush(target.parent)
        except OSError as error:  # of a write it names no file, and the disks may differ
            raise OSError(error.errno, error.strerror, error.filename or str(target)) from error
        finally:
            unfinished.unlink(missing_ok=True)
            shutil.rmtree(base, ignore_errors=True)


def _copy_base(databases: list[Path], folder: Path) -> None:
    """Copy everything that a backup contains into a folder, under the names of members."""
    files = folder / local_database.FILES.relative_to(local_database.STATE)
    files.mkdir(parents=True)
    try:
        copy_files(databases, files)
        for copy in files.iterdir():
            check_file(copy)
    except DatabaseFileError as error:
        message = str(error).replace(str(files), str(local_database.FILES))
        raise Unusable(message) from error
    for path in (local_database.LOADED_SAMPLE, local_database.STATE / "secret"):
        if path.exists():
            shutil.copyfile(path, folder / path.relative_to(local_database.STATE))


def _write_archive(folder: Path, archive: Path) -> None:
    members = {
        str(path.relative_to(folder)): path
        for path in sorted(folder.rglob("*"))
        if _NAME.fullmatch(str(path.relative_to(folder)))
    }
    manifest = {
        "carrel_backup": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "sha256": {name: _hash(path) for name, path in members.items()},
    }
    content = json.dumps(manifest, indent=1).encode()
    with tarfile.open(archive, "w") as tar:
        tar.addfile(_describe(MANIFEST, len(content)), BytesIO(content))
        for name, path in members.items():
            with path.open("rb") as member:
                tar.addfile(_describe(name, path.stat().st_size), member)
    _flush(archive)


def _flush(path: Path) -> None:
    """Write a file, or the names in a folder, from memory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, sha256).hexdigest()


def _describe(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, int(time.time())
    return info


def restore_backup(archive: Path, *, replace: bool) -> Restored:
    """Put the base of an archive into the state folder.

    It is there as a whole or not at all. The base that was there is kept in a folder beside it.

    Raises:
        Conflict: There is a base, and it may not be replaced, or another process uses the folder.
        InvalidInput: The archive is damaged, of a later version, or none of Carrel's.
        Unusable: The state folder is not on a disk of this machine.
    """
    state, files = local_database.STATE, local_database.FILES
    local_database.require_local_disk()
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with replace_state(state):
        if not replace and any(files.glob("*.sqlite")):
            raise Conflict(
                f"{state} holds a base already. To put it aside, in a folder beside the restored"
                f" one, add --replace. To keep both, restore into another folder:"
                f" CARREL_STATE=/another/folder {carrel('restore')} {archive}"
            )
        new = state / UNPACKING
        new.mkdir(mode=0o700)
        try:
            created = _unpack(archive, new)
            os.sync()
            unpacked = new.rename(state / f"restored-{time.strftime('%Y%m%d-%H%M%S')}")
            former = put_in_place(unpacked)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    local_database.protect_state()
    return Restored(created, former)


def _unpack(archive: Path, folder: Path) -> datetime:
    """Unpack and check an archive, and return when it was made."""
    damaged = f"{archive} is damaged, so nothing was restored. Use another backup."
    try:
        with _open_archive(archive) as tar:
            manifest = _read_manifest(archive, tar)
            hashes = manifest["sha256"]
            for name in hashes:
                path = folder / name
                member = tar.extractfile(name)
                if not _NAME.fullmatch(name) or member is None:
                    raise InvalidInput(damaged)
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                with path.open("xb") as file:
                    os.fchmod(file.fileno(), 0o600)
                    shutil.copyfileobj(member, file)
                if _hash(path) != hashes[name]:
                    raise InvalidInput(damaged)
                if path.suffix == ".sqlite":
                    check_file(path)
            return datetime.fromisoformat(manifest["created"])
    except (tarfile.TarError, EOFError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(damaged) from error
    except DatabaseFileError as error:
        message = str(error).replace(f"{folder}/", f"{archive}: ")
        raise InvalidInput(f"{message} Nothing was restored.") from error


def _open_archive(archive: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(archive, "r:")
    except tarfile.ReadError as error:
        raise InvalidInput(f"{archive} {_FOREIGN}") from error


def _read_manifest(archive: Path, tar: tarfile.TarFile) -> dict[str, Any]:
    first = tar.next()
    content = tar.extractfile(first) if first and first.name == MANIFEST else None
    if content is None:
        raise InvalidInput(f"{archive} {_FOREIGN}")
    manifest: dict[str, Any] = json.loads(content.read(_MAX_MANIFEST_BYTES))
    if manifest["carrel_backup"] > FORMAT:
        raise InvalidInput(
            f"{archive} was written by a later version of Carrel. Update, and restore again."
        )
    return manifest
