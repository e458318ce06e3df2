"""Unpacks archives of functions, storing common files only once."""

from __future__ import annotations

import py_compile
import shutil
import sys
import zipfile
from hashlib import sha256
from importlib.util import cache_from_source
from pathlib import Path


def unpack(archive: Path, folder: Path, kept: Path) -> None:
    """Unpack an archive, whole or not at all, and compile its modules.

    Its files are links, which nobody may write to: functions share most of their modules, and
    nearly thirty of them that start at once would compile each anew.

    Args:
        archive: What to unpack.
        folder: Where to; two callers at once must not unpack to the same.
        kept: The folder of what archives hold, on the same disk.
    """
    kept.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    with zipfile.ZipFile(archive) as packed:
        for name in packed.namelist():
            file, place = _file(packed.read(name), kept, Path(name).suffix), unfinished / name
            _link(file, place)
            if place.suffix == ".py":
                _link(_compiled(file), Path(cache_from_source(str(place))))
    unfinished.rename(folder)


def _link(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.hardlink_to(file)


def _file(content: bytes, kept: Path, suffix: str) -> Path:
    path = kept / f"{sha256(content).hexdigest()}{suffix}"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_bytes(content)
        unfinished.rename(path)
    return path


def _compiled(source: Path) -> Path:
    path = source.with_suffix(f".{sys.implementation.cache_tag}.pyc")
    if not path.exists():  # it is written whole or not at all
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(source), str(path), doraise=True, invalidation_mode=unchecked)
    return path
