"""The functions' bundles on this machine: their archives, unpacked, and their environments.

Everything is in `dist/laptop`, named by its content, created atomically, and not changed for at
least a day, so that running functions keep their files. Concurrent processes can use it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import click

from infra.build.bundles import DIST, MANIFEST, stage
from infra.build.discovery import ROOT
from infra.file_lock import hold_lock
from tests.support.cloud_run.archives import unpack
from tests.support.cloud_run.environments import environment, environment_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LAPTOP: Final = DIST / "laptop"
USED_FOR: Final = 24 * 60 * 60
"""A bundle can be used for this many seconds after it was requested."""
_STAGING_FOLDER: Final = LAPTOP / "staging"
_STAGED_FOLDER: Final = LAPTOP / "staged"
_SOURCES: Final = ("functions/**/*", "shared/**/*", "infra/build/*.py")
_PROJECT_FILES: Final = ("constraints.txt", "pyproject.toml")

OWN_ENVIRONMENTS: Final = "CARREL_OWN_ENVIRONMENTS"
"""With this variable, each bundle runs in its own environment. Runs of slow tests set it."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A function that is ready to serve.

    Attributes:
        key: Its name in the cloud.
        name: The name of its tool or job; `gateway` for the gateway.
        kind: `gateway`, `tool` or `job`.
        archive: The deployed archive.
        folder: The unpacked archive.
        python: The interpreter of its environment.
        variables: The names of its settings and secrets.
        seconds: The timeout of a request.
    """

    key: str
    name: str
    kind: str
    archive: Path
    folder: Path
    python: Path
    variables: frozenset[str]
    seconds: float


def bundles(names: Collection[str] | None = None) -> dict[str, Bundle]:
    """Return the bundles of functions with these names, by default all, of the current checkout.

    Raises:
        InvalidInput: A function imports something that is not available.
    """
    LAPTOP.mkdir(parents=True, exist_ok=True)
    with hold_lock(LAPTOP / "lock"):
        entries = _load_manifest()["functions"].items()
        selected_entries = [
            (key, bundle_entry)
            for key, bundle_entry in entries
            if names is None or bundle_entry["name"] in names
        ]
        return {entry["name"]: _bundle(key, entry) for key, entry in selected_entries}


def _load_manifest() -> dict[str, Any]:
    """Return the manifest of the current checkout, whose archives exist."""
    while not (manifest := _STAGED_FOLDER / f"{_state()}.json").exists():
        _pack(manifest)
    content: dict[str, Any] = json.loads(manifest.read_bytes())
    return content


def _pack(manifest: Path) -> None:
    """Pack all functions, and discard the result if the checkout changed meanwhile."""
    click.echo("Packing the functions as for the cloud ...", err=True)
    stage(_STAGING_FOLDER, laptop=True)
    if manifest.stem == _state():
        used_bundles = _bundles_in([*_STAGED_FOLDER.glob("*.json"), _STAGING_FOLDER / MANIFEST])
        shutil.rmtree(_STAGED_FOLDER, ignore_errors=True)
        _STAGED_FOLDER.mkdir()
        (_STAGING_FOLDER / "bundles").rename(_STAGED_FOLDER / "bundles")
        (_STAGING_FOLDER / MANIFEST).rename(manifest)
        prune(LAPTOP, used_bundles)


def _bundles_in(manifests: Iterable[Path]) -> set[str]:
    """Return the bundles of manifests."""
    contents = [json.loads(path.read_bytes()) for path in manifests]
    entries = [entry for content in contents for entry in content["functions"].values()]
    return {PurePath(entry["bundle"]).stem for entry in entries}


def _state() -> str:
    """Return a hash of all files that affect the bundles."""
    files = (path for pattern in _SOURCES for path in ROOT.glob(pattern))
    sources = sorted(path for path in files if path.is_file() and "__pycache__" not in path.parts)
    digest = sha256()
    for path in (*sources, *(ROOT / name for name in _PROJECT_FILES)):
        digest.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _make_environment(requirements: bytes) -> Path:
    """Return the interpreter of a separate environment; in a quick run, that of the tests."""
    if OWN_ENVIRONMENTS in os.environ:
        return environment(requirements, LAPTOP / "environments")
    return Path(sys.executable)


def _bundle(key: str, entry: dict[str, Any]) -> Bundle:
    archive = _STAGED_FOLDER / entry["bundle"]
    folder = LAPTOP / "unpacked" / archive.stem
    if not folder.exists():
        unpack(archive, folder, LAPTOP / "files")
    os.utime(folder)
    requirements = (folder / "requirements.txt").read_bytes()
    return Bundle(
        key=key,
        name=entry["name"],
        kind=entry["kind"],
        archive=archive,
        folder=folder,
        python=_make_environment(requirements),
        variables=frozenset([*entry["settings"], *entry["secrets"]]),
        seconds=entry["timeout_seconds"],
    )


def prune(laptop: Path, used_bundles: Collection[str]) -> None:
    """Delete bundles, environments and files that are probably not in use.

    The end of a process is not recorded. So everything requested in the last day stays. A function
    that runs longer, while its bundle is packed again twice, may fail at a late import.

    Args:
        laptop: The folder, whose lock the caller holds.
        used_bundles: The bundles that stay in any case.
    """
    _delete_unused(laptop / "unpacked", used_bundles)
    requirement_files = (laptop / "unpacked").glob("*/requirements.txt")
    _delete_unused(
        laptop / "environments", {environment_key(path.read_bytes()) for path in requirement_files}
    )
    for path in (laptop / "files").glob("*"):
        if path.stat().st_nlink == 1:  # no bundle contains it any more
            path.unlink()


def _delete_unused(folders: Path, kept: Collection[str]) -> None:
    for folder in folders.glob("*"):
        if folder.name not in kept and time.time() - folder.stat().st_mtime > USED_FOR:
            discarded_folder = folder.with_suffix(
                ".unfinished"
            )  # so that no process uses an incomplete one
            folder.rename(discarded_folder)
            shutil.rmtree(discarded_folder)
