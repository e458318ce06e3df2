"""Stages bundles: writes the source of each function, with only the modules that it imports.

`dist/<function>/` contains the source that the cloud builds, and `dist/bundles/` the same files as
an archive. An archive is named after a hash of its content, so that an unchanged function is not
redeployed. `dist/manifest.json` describes the functions, and is Terraform's input. The manifest is
deleted first and written last, so the bundles are complete if it exists.
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
from infra.build.imports import follow_imports
from infra.build.requirements import find_requirements, lock_requirements
from shared.runtime.capabilities import Capability

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from infra.build.functions import Function
    from infra.build.imports import ImportClosure

DIST: Final = ROOT / "dist"
MANIFEST: Final = "manifest.json"
_BUNDLES: Final = "bundles"
"""The folder of the archives, in `dist` and in the bucket."""
_REQUIREMENTS: Final = "requirements"
"""The folder of locked requirements, which later runs use again."""
_PRESERVED: Final = (_REQUIREMENTS, "laptop")
"""The folders that staging does not delete."""
PROVIDERS: Final = {
    "shared.ai.vertex_embedding": Capability.EMBEDDING,
    "shared.ai.openai_embedding": Capability.EMBEDDING,
    "shared.ai.local_embedding": Capability.EMBEDDING,
    "shared.ai.vertex_generation": Capability.GENERATION,
    "shared.ai.openai_generation": Capability.GENERATION,
}
"""The modules that the composition root imports only for functions with the given capability."""
_LAPTOP: Final = "shared.ai.local_embedding"
"""The module that only bundles for this machine contain."""
_TELEMETRY: Final = "shared.core.span_export"
"""The module that only bundles of deployments with telemetry contain."""
_MODIFIED_AT: Final = (1980, 1, 1, 0, 0, 0)
"""The modification time of all files in archives, so that only their content matters."""


def stage(
    target: Path = DIST,
    *,
    only: Sequence[str] | None = None,
    laptop: bool = False,
    telemetry: bool = False,
) -> dict[str, Any]:
    """Write the bundles and the manifest, and return the manifest.

    Args:
        target: The folder to write to. Bundles of an earlier run are deleted.
        only: The names of the functions to stage; by default all.
        laptop: Whether to include the local embedding provider, which the cloud does not use.
        telemetry: Whether to include the export of spans.

    Raises:
        InvalidInput: A function imports a package that is not declared or not installed.
    """
    target.mkdir(parents=True, exist_ok=True)
    with file_lock.hold_lock(target / "lock"):  # concurrent runs wait
        return _stage(target, only, laptop=laptop, telemetry=telemetry)


def _stage(
    target: Path, only: Sequence[str] | None, *, laptop: bool, telemetry: bool
) -> dict[str, Any]:
    """Write the bundles and the manifest, as `stage` describes, while this process has the lock."""
    selected = [function for function in functions() if only is None or function.name in only]
    bundles = target / _BUNDLES
    (target / MANIFEST).unlink(missing_ok=True)
    _delete_bundles(target)
    bundles.mkdir()
    manifest = {}
    for function in selected:
        folder = target / function.key
        excluded = list_excluded_modules(function, laptop=laptop, telemetry=telemetry)
        imports = follow_imports(function.main, excluded)
        _write_bundle(function, imports, folder, target / _REQUIREMENTS)
        archive = pack(folder, bundles, function.key)
        manifest[function.key] = function.build_manifest_entry(f"{_BUNDLES}/{archive.name}")
    content = {"functions": manifest}
    temporary = target / f"{MANIFEST}.new"
    temporary.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    temporary.replace(target / MANIFEST)
    return content


def _delete_bundles(target: Path) -> None:
    """Delete all folders except `_PRESERVED`, including bundles of functions that are gone."""
    for folder in target.iterdir():
        if folder.is_dir() and folder.name not in _PRESERVED:
            shutil.rmtree(folder)


def _write_bundle(
    function: Function, imports: ImportClosure, folder: Path, requirements_cache: Path
) -> None:
    """Write a function's modules, its `main.py` and its requirements to a folder."""
    for path in imports.files:
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    (folder / "main.py").write_text(function.main, "utf-8")
    requirements = lock_requirements(find_requirements(imports.other_modules), requirements_cache)
    (folder / "requirements.txt").write_text(requirements, "utf-8")
    if "importlib.metadata" in imports.other_modules:  # the function reads Carrel's version
        metadata = folder / "carrel.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Name: carrel\nVersion: {version('carrel')}\n", "utf-8")


def list_excluded_modules(
    function: Function, *, laptop: bool = False, telemetry: bool = False
) -> set[str]:
    """List the modules to leave out of a function's bundle.

    These are the providers of capabilities that the function does not declare, the local embedding
    provider unless `laptop` is set, and the export of spans unless `telemetry` is set.
    """
    unneeded = {
        module
        for module, capability in PROVIDERS.items()
        if capability not in function.capabilities
    }
    unneeded |= set() if laptop else {_LAPTOP}
    return unneeded if telemetry else {*unneeded, _TELEMETRY}


def pack(folder: Path, bundles: Path, key: str, level: int | None = None) -> Path:
    """Pack a folder into an archive whose name depends on the content, not on its compression.

    Args:
        folder: The folder to pack.
        bundles: The folder of the archive.
        key: The prefix of the archive's name.
        level: The compression level of zlib, from 0 to 9; by default, zlib's own choice.
    """
    digest = sha256()
    temporary = bundles / f"{key}.zip"
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder).as_posix()
            content = path.read_bytes()
            # The lengths show where a name and a content end, so that no two folders share a hash.
            digest.update(f"{len(name)} {name} {len(content)} ".encode() + content)
            entry = zipfile.ZipInfo(name, _MODIFIED_AT)
            entry.external_attr = 0o644 << 16  # Unix permissions are in the upper two bytes.
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, level)
    return temporary.rename(bundles / f"{key}-{digest.hexdigest()[:16]}.zip")
