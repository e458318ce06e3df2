"""Packs and unpacks the bundles of functions, and installs their environments on this machine.

All files are in `dist/laptop`, which concurrent processes can use. They are named by their content
and created atomically. The bundles of the last two checkouts stay, because functions may be running
from them; environments stay until `make clean`.
"""

import json
import os
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any, Final

import click

from infra.build.bundles import DIST, MANIFEST, stage
from infra.build.discovery import ROOT
from infra.file_lock import hold_lock
from tests.support.cloud_run.archives import unpack_archive
from tests.support.cloud_run.environments import install_environment, link_environment

LAPTOP: Final = DIST / "laptop"
"""The folder of all files."""
_STAGING_FOLDER: Final = LAPTOP / "staging"
_STAGED_FOLDER: Final = LAPTOP / "staged"
_SOURCES: Final = ("functions/**/*", "shared/**/*", "infra/build/*.py")
_PROJECT_FILES: Final = ("constraints.txt", "pyproject.toml")
OWN_ENVIRONMENTS: Final = "CARREL_OWN_ENVIRONMENTS"
"""The variable that, if set, runs each bundle in its own Python environment.

`make test-slow` sets it.
"""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A function that is ready to serve.

    Attributes:
        key: The function's name in the cloud.
        name: The name of the tool or job; `gateway` for the gateway.
        kind: `gateway`, `tool` or `job`.
        archive: The deployed archive.
        folder: The unpacked archive.
        python: The interpreter of the function's environment.
        variables: The names of the function's settings and secrets.
        seconds: The timeout of a request to the function.
    """

    key: str
    name: str
    kind: str
    archive: Path
    folder: Path
    python: Path
    variables: frozenset[str]
    seconds: float


def pack_bundles(names: Collection[str] | None = None) -> dict[str, Bundle]:
    """Return the current checkout's bundles of these functions, by default of all functions.

    Raises:
        InvalidInput: A function imports something that is not available.
    """
    LAPTOP.mkdir(parents=True, exist_ok=True)
    with hold_lock(LAPTOP / "lock"):
        entries = _load_manifest()["functions"].items()
        return {
            entry["name"]: _unpack_bundle(key, entry)
            for key, entry in entries
            if names is None or entry["name"] in names
        }


def _load_manifest() -> dict[str, Any]:
    """Return the manifest of the current checkout, after packing its functions if necessary."""
    while not (manifest := _STAGED_FOLDER / f"{_hash_checkout()}.json").exists():
        _pack(manifest)
    content: dict[str, Any] = json.loads(manifest.read_bytes())
    return content


def _pack(manifest: Path) -> None:
    """Pack all functions, and discard the result if the checkout has changed since."""
    click.echo("Packing the functions as for the cloud ...", err=True)
    stage(_STAGING_FOLDER, laptop=True, telemetry=True)
    if manifest.stem == _hash_checkout():
        used_bundles = _read_bundles([*_STAGED_FOLDER.glob("*.json"), _STAGING_FOLDER / MANIFEST])
        shutil.rmtree(_STAGED_FOLDER, ignore_errors=True)
        _STAGED_FOLDER.mkdir()
        (_STAGING_FOLDER / "bundles").rename(_STAGED_FOLDER / "bundles")
        (_STAGING_FOLDER / MANIFEST).rename(manifest)
        _delete_unused_bundles(used_bundles)


def _read_bundles(manifests: Iterable[Path]) -> set[str]:
    """Return the names of the bundles in manifests, without suffix."""
    contents = [json.loads(path.read_bytes()) for path in manifests]
    entries = [entry for content in contents for entry in content["functions"].values()]
    return {PurePath(entry["bundle"]).stem for entry in entries}


def _hash_checkout() -> str:
    """Return a hash of all files that affect the bundles."""
    files = (path for pattern in _SOURCES for path in ROOT.glob(pattern))
    sources = sorted(path for path in files if path.is_file() and "__pycache__" not in path.parts)
    digest = sha256()
    for path in (*sources, *(ROOT / name for name in _PROJECT_FILES)):
        digest.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _make_environment(requirements: bytes) -> Path:
    """Return the interpreter of an environment; in quick test runs, all bundles share one."""
    if OWN_ENVIRONMENTS in os.environ:
        return install_environment(requirements, LAPTOP / "environments")
    return link_environment(LAPTOP / "environments")


def _unpack_bundle(key: str, entry: dict[str, Any]) -> Bundle:
    """Return the bundle of a manifest's entry, after unpacking it if necessary."""
    archive = _STAGED_FOLDER / entry["bundle"]
    folder = LAPTOP / "unpacked" / archive.stem
    if not folder.exists():
        unpack_archive(archive, folder, LAPTOP / "files")
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


def _delete_unused_bundles(used_bundles: Collection[str]) -> None:
    """Delete other bundles, and the files that none contains any more."""
    for folder in (LAPTOP / "unpacked").glob("*"):
        if folder.name not in used_bundles:
            # Renamed first: a partly deleted folder must not have a name of a bundle.
            discarded_folder = folder.with_suffix(".unfinished")
            folder.rename(discarded_folder)
            shutil.rmtree(discarded_folder)
    for path in (LAPTOP / "files").glob("*"):
        if path.stat().st_nlink == 1:
            path.unlink()
