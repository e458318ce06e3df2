"""Bundles: each function with the modules that it imports, and nothing else.

`dist/<function>/` is what the cloud builds, `dist/bundles/` the same as archives named by their
content, so that an unchanged function is not deployed again, and `dist/manifest.json` what
Terraform makes of them. The manifest goes first and comes last: where there is one, all of it is.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from infra import file_lock
from infra.build.discovery import ROOT
from infra.build.functions import functions
from infra.build.imports import import_closure
from infra.build.requirements import lock_requirements, requirements_of
from shared.runtime.capabilities import Capability

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from infra.build.functions import Function
    from infra.build.imports import ImportClosure

DIST: Final = ROOT / "dist"
MANIFEST: Final = "manifest.json"
_BUNDLES: Final = "bundles"
_REQUIREMENTS: Final = "requirements"
_OTHERS: Final = (_REQUIREMENTS, "laptop", "last-good*")
"""Folders that are no earlier run's."""
PROVIDERS: Final = {
    "shared.ai.vertex_embedding": Capability.EMBEDDING,
    "shared.ai.openai_embedding": Capability.EMBEDDING,
    "shared.ai.local_embedding": Capability.EMBEDDING,
    "shared.ai.vertex_generation": Capability.GENERATION,
}
"""Modules that the composition root imports for whoever declares the need, and for nobody else."""
_LAPTOP: Final = "shared.ai.local_embedding"
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
    target.mkdir(parents=True, exist_ok=True)
    with file_lock.locked(target / "lock"):  # others wait
        return _staged(target, only, laptop=laptop)


def _staged(target: Path, only: Sequence[str] | None, *, laptop: bool) -> dict[str, Any]:
    selected = [function for function in functions() if only is None or function.name in only]
    bundles = target / _BUNDLES
    (target / MANIFEST).unlink(missing_ok=True)
    _sweep(target)
    bundles.mkdir()
    manifest = {}
    for function in selected:
        folder = target / function.key
        imports = import_closure(function.main, withheld(function, laptop=laptop))
        _write(function, imports, folder, target / _REQUIREMENTS)
        archive = pack(folder, bundles, function.key)
        manifest[function.key] = function.entry_in_manifest(f"{_BUNDLES}/{archive.name}")
    content = {"functions": manifest}
    fresh = target / f"{MANIFEST}.new"
    fresh.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    fresh.replace(target / MANIFEST)
    return content


def _sweep(target: Path) -> None:
    """Delete what an earlier run left, and one that was killed, of functions that are gone too."""
    kept = {path for name in _OTHERS for path in target.glob(name)}
    for folder in target.iterdir():
        if folder.is_dir() and folder not in kept:
            shutil.rmtree(folder)


def _write(function: Function, imports: ImportClosure, folder: Path, cache: Path) -> None:
    for path in imports.files:
        place = folder / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    (folder / "main.py").write_text(function.main, "utf-8")
    text = lock_requirements(requirements_of(imports.others), cache)
    (folder / "requirements.txt").write_text(text, "utf-8")
    if "importlib.metadata" in imports.others:  # it asks for the version, and nobody installs us
        about = folder / "carrel.dist-info" / "METADATA"
        about.parent.mkdir()
        about.write_text(f"Name: carrel\nVersion: {version('carrel')}\n", "utf-8")


def withheld(function: Function, *, laptop: bool = False) -> set[str]:
    """Providers that it does not need, or that only a laptop has."""
    unneeded = {
        module
        for module, capability in PROVIDERS.items()
        if capability not in function.capabilities
    }
    return unneeded if laptop else {*unneeded, _LAPTOP}


def pack(folder: Path, bundles: Path, key: str, level: int | None = None) -> Path:
    """Pack a folder; the same content is called the same, whatever zlib makes of it.

    Args:
        folder: What to pack.
        bundles: Where to.
        key: How its name begins.
        level: How hard zlib tries, from 0 to 9; by default as it likes.
    """
    digest = sha256()
    unnamed = bundles / f"{key}.zip"
    with zipfile.ZipFile(unnamed, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name, content = path.relative_to(folder).as_posix(), path.read_bytes()
            digest.update(f"{len(name)} {name} {len(content)} ".encode() + content)
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, level)
    return unnamed.rename(bundles / f"{key}-{digest.hexdigest()[:16]}.zip")
