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
    unfinished_folder = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished_folder, ignore_errors=True)
    with zipfile.ZipFile(archive) as zip_file:
        for name in zip_file.namelist():
            file, place = (
                _file(zip_file.read(name), kept, Path(name).suffix),
                unfinished_folder / name,
            )
            _link(file, place)
            if place.suffix == ".py":
                _link(_compile(file), Path(cache_from_source(str(place))))
    unfinished_folder.rename(folder)


def _link(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.hardlink_to(file)


def _file(content: bytes, kept: Path, suffix: str) -> Path:
    path = kept / f"{sha256(content).hexdigest()}{suffix}"
    if not path.exists():
        unfinished_file = path.with_suffix(".unfinished")
        unfinished_file.write_bytes(content)
        unfinished_file.rename(path)
    return path


def _compile(source: Path) -> Path:
    path = source.with_suffix(f".{sys.implementation.cache_tag}.pyc")
    if not path.exists():  # it is written whole or not at all
        invalidation_mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(
            str(source), str(path), doraise=True, invalidation_mode=invalidation_mode
        )
    return path
