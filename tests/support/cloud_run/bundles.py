"""What is deployed, on a laptop: the functions' archives unpacked, each with its environment.

Everything lies in `dist/laptop` and is named by its content, made whole or not at all, and left as
it is for a day at least: what runs already goes on with what it started from. Any number of
processes may ask at once.
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
from infra.file_lock import locked
from tests.support.cloud_run.archives import unpack
from tests.support.cloud_run.environments import environment, key_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LAPTOP: Final = DIST / "laptop"
USED_FOR: Final = 24 * 60 * 60
"""Seconds for which whoever asked for something may use it."""
_STAGING: Final = LAPTOP / "staging"
_STAGED: Final = LAPTOP / "staged"
_SOURCES: Final = ("functions/**/*", "shared/**/*", "infra/build/*.py")
_OTHERS: Final = ("constraints.txt", "pyproject.toml")

OWN_ENVIRONMENTS: Final = "CARREL_OWN_ENVIRONMENTS"
"""The variable that has each bundle run in an environment of its own. Runs of slow tests set it."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A function, ready to be served.

    Attributes:
        key: Its name in the cloud.
        name: The name of its tool or job; the gateway's is `gateway`.
        kind: `gateway`, `tool` or `job`.
        archive: What is deployed.
        folder: What is in it.
        python: The interpreter of its environment.
        variables: The settings and secrets that it is given.
        seconds: Until a request is given up.
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
    """The functions with these names, by default all, as they follow from the checkout now.

    Raises:
        InvalidInput: What they import cannot be had.
    """
    LAPTOP.mkdir(parents=True, exist_ok=True)
    with locked(LAPTOP / "lock"):
        entries = _staged()["functions"].items()
        selected = [(key, one) for key, one in entries if names is None or one["name"] in names]
        return {entry["name"]: _bundle(key, entry) for key, entry in selected}


def _staged() -> dict[str, Any]:
    """The manifest of what stands in the checkout, whose archives are at hand."""
    while not (manifest := _STAGED / f"{_state()}.json").exists():
        _pack(manifest)
    content: dict[str, Any] = json.loads(manifest.read_bytes())
    return content


def _pack(manifest: Path) -> None:
    """Pack all functions, unless somebody is writing: then it may be half of old and new."""
    click.echo("Packing the functions, as for the cloud ...", err=True)
    stage(_STAGING, laptop=True)
    if manifest.stem == _state():
        named = _named([*_STAGED.glob("*.json"), _STAGING / MANIFEST])
        shutil.rmtree(_STAGED, ignore_errors=True)
        _STAGED.mkdir()
        (_STAGING / "bundles").rename(_STAGED / "bundles")
        (_STAGING / MANIFEST).rename(manifest)
        prune(LAPTOP, named)


def _named(manifests: Iterable[Path]) -> set[str]:
    """The bundles of manifests."""
    contents = [json.loads(path.read_bytes()) for path in manifests]
    entries = [entry for content in contents for entry in content["functions"].values()]
    return {PurePath(entry["bundle"]).stem for entry in entries}


def _state() -> str:
    """A name for the content of all that decides what is packed."""
    files = (path for pattern in _SOURCES for path in ROOT.glob(pattern))
    files_ = sorted(path for path in files if path.is_file() and "__pycache__" not in path.parts)
    digest = sha256()
    for path in (*files_, *(ROOT / name for name in _OTHERS)):
        digest.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _python_of(requirements: bytes) -> Path:
    """The interpreter of an environment of its own; in a quick run, the one that tests run in."""
    if OWN_ENVIRONMENTS in os.environ:
        return environment(requirements, LAPTOP / "environments")
    return Path(sys.executable)


def _bundle(key: str, entry: dict[str, Any]) -> Bundle:
    archive = _STAGED / entry["bundle"]
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
        python=_python_of(requirements),
        variables=frozenset([*entry["settings"], *entry["secrets"]]),
        seconds=entry["timeout_seconds"],
    )


def prune(laptop: Path, named: Collection[str]) -> None:
    """Delete bundles, environments and files that are not in use, as far as can be known.

    Nobody tells when a process ends. So what was asked for less than a day ago stays; one that runs
    for longer, and has been packed anew twice since, may miss a module that it imports only then.

    Args:
        laptop: The folder of it all, whose lock the caller holds.
        named: The bundles that stay whenever they were asked for.
    """
    _delete_unused(laptop / "unpacked", named)
    required = (laptop / "unpacked").glob("*/requirements.txt")
    _delete_unused(laptop / "environments", {key_of(path.read_bytes()) for path in required})
    for path in (laptop / "files").glob("*"):
        if path.stat().st_nlink == 1:  # it is in no bundle any more
            path.unlink()


def _delete_unused(folders: Path, kept: Collection[str]) -> None:
    for folder in folders.glob("*"):
        if folder.name not in kept and time.time() - folder.stat().st_mtime > USED_FOR:
            doomed = folder.with_suffix(".unfinished")  # nobody takes half of it for the whole
            folder.rename(doomed)
            shutil.rmtree(doomed)
