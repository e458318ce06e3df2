"""What is deployed runs where pip alone installed what it requires, as the cloud does."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import httpx2
import pytest

from infra.deploy.stage import stage
from infra.local.cloud import GATEWAY
from infra.local.processes import Program, serve
from tests.e2e.running import SECRET

if TYPE_CHECKING:
    from pathlib import Path

NAMES = (GATEWAY, "get_chunk", "cluster")


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the cloud builds of three functions: not what a laptop runs, which embeds by itself."""
    target = tmp_path_factory.mktemp("staged")
    stage(target, only=NAMES)
    return target


def pip(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pip, as it comes with Python."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def installed(requirements: Path, place: Path) -> Path:
    """The Python of a new environment, into which pip has installed what is required.

    Where pip cannot even have the smallest of it, there is no package index, and nothing to test.
    """
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    lines = requirements.read_text("utf-8").replace("\\\n", " ").splitlines()
    smallest = place / "smallest.txt"
    smallest.write_text(next(line for line in lines if line.startswith("idna==")))
    if pip(python, "download", "--no-deps", "-d", str(place), "-r", str(smallest)).returncode:
        pytest.skip("pip reaches no package index here")
    done = pip(python, "install", "--no-compile", "--require-hashes", "-r", str(requirements))
    assert 0 == done.returncode, done.stderr
    return python


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_is_served_where_pip_alone_installed_what_it_requires(
    name: str, staged: Path, tmp_path: Path
) -> None:
    manifest: dict[str, Any] = json.loads((staged / "manifest.json").read_bytes())["functions"]
    [entry] = [each for each in manifest.values() if each["name"] == name]
    folder = tmp_path / "workspace"
    with ZipFile(staged / entry["bundle"]) as packed:
        packed.extractall(folder)
    environment = {
        "FIRESTORE_EMULATOR_HOST": os.environ["FIRESTORE_EMULATOR_HOST"],
        "ACCESS_SECRETS": json.dumps([SECRET]),
    }
    python = installed(folder / "requirements.txt", tmp_path / "environment")
    program = Program(folder / "main.py", python, environment, folder)
    with serve(program, log=tmp_path / "log") as served:
        path = "/health" if name == GATEWAY else "/"
        answer = httpx2.get(served.url + path, headers={"host": "localhost:8080"}, timeout=30)
    assert ("degraded" if name == GATEWAY else "ok") == answer.json()["status"]
