"""Unpacks the archives of functions, and stores files that they share only once."""

import py_compile
import shutil
import sys
import zipfile
from hashlib import sha256
from importlib.util import cache_from_source
from pathlib import Path


def unpack_archive(archive: Path, folder: Path, file_store: Path) -> None:
    """Unpack an archive and compile its modules; the folder appears only when it is complete.

    The unpacked files are hard links into the file store, and must not be written to. Functions
    share most of their modules: without the store, nearly thirty functions that start together
    would each compile the same modules.

    Args:
        archive: The archive to unpack.
        folder: The folder to create. Two concurrent callers must not name the same one.
        file_store: The folder with the content of all archives, on the same disk.
    """
    file_store.mkdir(parents=True, exist_ok=True)
    unfinished_folder = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished_folder, ignore_errors=True)
    with zipfile.ZipFile(archive) as zip_file:
        for name in zip_file.namelist():
            stored_file = _store(zip_file.read(name), file_store, Path(name).suffix)
            path = unfinished_folder / name
            _link(stored_file, path)
            if path.suffix == ".py":
                _link(_compile(stored_file), Path(cache_from_source(str(path))))
    unfinished_folder.rename(folder)


def _link(stored_file: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.hardlink_to(stored_file)


def _store(content: bytes, file_store: Path, suffix: str) -> Path:
    """Store a file under the hash of its content, if it is not there yet."""
    path = file_store / f"{sha256(content).hexdigest()}{suffix}"
    if not path.exists():
        unfinished_file = path.with_suffix(".unfinished")
        unfinished_file.write_bytes(content)
        unfinished_file.rename(path)
    return path


def _compile(source: Path) -> Path:
    path = source.with_suffix(f".{sys.implementation.cache_tag}.pyc")
    if not path.exists():  # py_compile writes atomically, so an existing file is complete
        # Checked, because a fault that somebody plants in an unpacked bundle must show.
        invalidation_mode = py_compile.PycInvalidationMode.CHECKED_HASH
        py_compile.compile(
            str(source), str(path), doraise=True, invalidation_mode=invalidation_mode
        )
    return path
