"""Bundles: each function with the modules that it imports, and nothing else.

`dist/<function>/` is what the cloud builds, `dist/bundles/` the same as archives named by their
content, so that an unchanged function is not deployed again, and `dist/manifest.json` what
Terraform makes of them.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from infra.deploy.discovery import ROOT
from infra.deploy.functions import functions
from infra.deploy.imports import reach
from infra.deploy.requirements import locked, requirements_of
from infra.deploy.settings_read import settings_read
from shared.needs import Need

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from infra.deploy.functions import Function
    from infra.deploy.imports import Reach

DIST: Final = ROOT / "dist"
MANIFEST: Final = "manifest.json"
_PROVIDERS: Final = {
    "shared.ai.vertex_embedding": Need.EMBEDDING,
    "shared.ai.openai_embedding": Need.EMBEDDING,
    "shared.ai.local_embedding": Need.EMBEDDING,
    "shared.ai.vertex_generation": Need.GENERATION,
}
_LAPTOP: Final = "shared.ai.local_embedding"
_MAIN: Final = '''\
"""The entry point of `{name}`."""

from {entry} import handle

__all__ = ["handle"]
'''
_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)
"""The time that archives know of files: their content alone decides what an archive is called."""


def stage(
    target: Path = DIST, *, only: Sequence[str] | None = None, laptop: bool = False
) -> dict[str, Any]:
    """Write the bundles and the manifest, and return that.

    Args:
        target: Where to; what stands there of an earlier run goes.
        only: The names of the functions that are wanted; by default all.
        laptop: Whether they are to embed by themselves, as a laptop does: the cloud does not.

    Raises:
        InvalidInput: What a function imports cannot be had.
    """
    wanted = [each for each in functions() if only is None or each.name in only]
    bundles = target / "bundles"
    shutil.rmtree(bundles, ignore_errors=True)
    bundles.mkdir(parents=True)
    manifest = {}
    for function in wanted:
        folder = target / function.key
        shutil.rmtree(folder, ignore_errors=True)
        found = reach(function.entry, _withheld(function, laptop=laptop))
        _write(function, found, folder, target / "requirements")
        archive = _archive(folder, bundles, function.key)
        read = settings_read(found)
        manifest[function.key] = function.entry_in_manifest(f"bundles/{archive.name}", read)
    content = {"functions": manifest}
    (target / MANIFEST).write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    return content


def _write(function: Function, found: Reach, folder: Path, kept: Path) -> None:
    for path in found.files:
        place = folder / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    main = _MAIN.format(name=function.name, entry=function.entry)
    (folder / "main.py").write_text(main, "utf-8")
    text = locked(requirements_of(found.others), kept)
    (folder / "requirements.txt").write_text(text, "utf-8")
    if "importlib.metadata" in found.others:  # it asks for the version, and nobody installs us
        about = folder / "carrel.dist-info" / "METADATA"
        about.parent.mkdir()
        about.write_text(f"Name: carrel\nVersion: {version('carrel')}\n", "utf-8")


def _withheld(function: Function, *, laptop: bool) -> set[str]:
    """Providers that it does not need, or that only a laptop has."""
    unneeded = {module for module, need in _PROVIDERS.items() if need not in function.needs}
    return unneeded if laptop else {*unneeded, _LAPTOP}


def _archive(folder: Path, bundles: Path, key: str) -> Path:
    """Pack a folder; the same content makes the same bytes."""
    unnamed = bundles / f"{key}.zip"
    with zipfile.ZipFile(unnamed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _LONG_AGO)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    digest = sha256(unnamed.read_bytes()).hexdigest()[:16]
    return unnamed.rename(bundles / f"{key}-{digest}.zip")
