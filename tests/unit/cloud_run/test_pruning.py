"""The fake Cloud Run deletes unused bundles, environments and files from its cache."""

from __future__ import annotations

import os
import time
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.cloud_run.archives import unpack_archive
from tests.support.cloud_run.bundles import MIN_AGE_SECONDS, delete_unused_bundles
from tests.support.cloud_run.environments import compute_environment_key, install_environment

LONG_AGO = time.time() - MIN_AGE_SECONDS - 60


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Three bundles with environments, which were used long ago."""
    for name in ("now", "before", "older"):
        archive = tmp_path / "archive.zip"
        with ZipFile(archive, "w") as zip_file:
            zip_file.writestr("requirements.txt", name)
            zip_file.writestr("shared/common.py", "")
            zip_file.writestr("main.py", f"NAME = {name!r}")
        unpack_archive(archive, tmp_path / "unpacked" / name, tmp_path / "files")
        archive.unlink()
        os.utime(tmp_path / "unpacked" / name, (LONG_AGO, LONG_AGO))
        environment = tmp_path / "environments" / compute_environment_key(name.encode())
        (environment / "bin").mkdir(parents=True)
        os.utime(environment, (LONG_AGO, LONG_AGO))
    return tmp_path


def list_names(folder: Path) -> set[str]:
    """Return the names in a folder."""
    return {path.name for path in folder.iterdir()}


def list_keys(*requirements: str) -> set[str]:
    """Return the names of environments."""
    return {compute_environment_key(requirement.encode()) for requirement in requirements}


def test_unused_environments_are_deleted(cache: Path) -> None:
    delete_unused_bundles(cache, {"now", "before"})
    assert list_names(cache / "unpacked") == {"now", "before"}
    assert list_names(cache / "environments") == list_keys("now", "before")
    sources = {path.read_text() for path in (cache / "files").glob("*.py")}
    assert sources == {"", "NAME = 'now'", "NAME = 'before'"}
    assert len(list((cache / "files").glob("*.pyc"))) == len(sources)


def test_environments_used_within_a_day_stay(cache: Path) -> None:
    os.utime(cache / "unpacked" / "older")
    delete_unused_bundles(cache, {"now"})
    assert list_names(cache / "unpacked") == {"now", "older"}
    assert list_names(cache / "environments") == list_keys("now", "older")
    assert (cache / "unpacked" / "older" / "main.py").read_text() == "NAME = 'older'"


def test_using_an_environment_renews_it(cache: Path) -> None:
    python = install_environment(b"older", cache / "environments")
    delete_unused_bundles(cache, {"now"})
    assert python.parent.is_dir()
    assert list_names(cache / "unpacked") == {"now"}


def test_unfinished_environments_are_deleted(cache: Path) -> None:
    for folder in ("unpacked", "environments"):
        unfinished_folder = cache / folder / "new.unfinished"
        unfinished_folder.mkdir()
        os.utime(unfinished_folder, (LONG_AGO, LONG_AGO))
    delete_unused_bundles(cache, {"now", "before", "older"})
    assert list_names(cache / "unpacked") == {"now", "before", "older"}
    assert list_names(cache / "environments") == list_keys("now", "before", "older")


def test_an_empty_cache_needs_no_pruning(tmp_path: Path) -> None:
    delete_unused_bundles(tmp_path, set())
    assert list_names(tmp_path) == set()
