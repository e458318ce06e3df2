"""The wheel of `make dist` contains all files, and runs on a machine without other programs."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from infra.build.discovery import ROOT
from infra.local.install import CONSTRAINTS
from tests.support.local_machine import END_TIMEOUT_SECONDS
from tests.support.ports import find_free_port

pytestmark = pytest.mark.slow

UV: Final = (sys.executable, "-m", "uv")
PACKED_FOLDERS: Final = ("functions", "infra", "shared")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what `.dockerignore` leaves to the image."""
    source, target = (tmp_path_factory.mktemp(name) for name in ("source", "dist"))
    ignored = shutil.ignore_patterns("__pycache__", ".terraform")
    for name in re.findall(r"^!(.+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*command, str(target), "."], cwd=source, check=True)
    [path] = target.glob("carrel-*.whl")
    return path


@pytest.fixture(scope="module")
def package(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the package and nothing of this one."""
    folder = tmp_path_factory.mktemp("package")
    subprocess.run([*UV, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    install = [*UV, "pip", "install", "--quiet", "--python", f"{folder}/bin/python"]
    subprocess.run([*install, "-c", str(CONSTRAINTS), str(wheel)], check=True)
    return folder


@pytest.fixture
def bare_environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has no data and no programs."""
    (tmp_path / "bin").mkdir()
    return {
        "HOME": str(tmp_path / "home"),
        "PATH": str(tmp_path / "bin"),
        "OPENBLAS_NUM_THREADS": "1",
    }


class PackageRun(NamedTuple):
    """A run of the package.

    Attributes:
        url: The URL of the MCP endpoint.
        lines: The lines that the run printed.
    """

    url: str
    lines: list[str]


@pytest.fixture
def run(package: Path, bare_environment: dict[str, str], tmp_path: Path) -> Iterator[PackageRun]:
    """A run of the package, which has started."""
    port = str(find_free_port())
    with subprocess.Popen(
        [f"{package}/bin/carrel", "up", "--port", port],
        cwd=tmp_path,
        env=bare_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Press Ctrl-C to stop." in line:
                break
        yield PackageRun(f"http://localhost:{port}/mcp", lines)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=END_TIMEOUT_SECONDS)


async def test_the_package_runs_on_a_bare_machine_and_answers(
    package: Path, bare_environment: dict[str, str], run: PackageRun, tmp_path: Path
) -> None:
    output = "".join(run.lines)
    assert f"{package}/bin/carrel ingest ~/notes" in output, output
    [configuration_line] = [line for line in run.lines if "mcpServers" in line]
    configuration = json.loads(configuration_line)["mcpServers"]["carrel"]
    assert configuration["command"] == f"{package}/bin/carrel"

    configuration["env"] = bare_environment
    stdio_server = StdioServerParameters(**configuration, cwd=tmp_path)
    for server in (run.url, stdio_server):
        async with Client(server) as client:
            result = await client.call_tool("search_kb", {"query": "why do flaky tests hurt?"})
        hits = (result.structured_content or {})["results"]
        assert "flaky" in hits[0]["snippet"].lower()
    assert list_data_folders(tmp_path) == [tmp_path / "home" / ".carrel"]
    assert list_data_folders(package) == []


def list_data_folders(folder: Path) -> list[Path]:
    """Return the folders below a folder in which Carrel stores data."""
    return list(folder.rglob(".carrel"))


def test_uvx_runs_the_package(wheel: Path) -> None:
    command = [*UV, "tool", "run", "--quiet", "--isolated", "--python", sys.executable]
    options = ["--constraints", str(CONSTRAINTS), "--from", str(wheel), "carrel"]
    output = subprocess.check_output([*command, *options, "--version"], text=True)
    assert output == f"carrel {version('carrel')}\n"
    process = subprocess.run(
        [*command, *options, "init", "claude", "--print"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stderr.endswith(f"Install it first: uv tool install {wheel.as_uri()}\n")


@pytest.mark.parametrize("arguments", [["deploy"], ["generate"]])
def test_commands_that_need_the_repository_say_so(
    package: Path, bare_environment: dict[str, str], arguments: list[str]
) -> None:
    process = subprocess.run(
        [f"{package}/bin/carrel", *arguments],
        env=bare_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 1
    assert "needs Carrel's repository, not only the package" in process.stderr


def test_the_package_contains_all_files_of_the_repository(wheel: Path, package: Path) -> None:
    assert wheel.stat().st_size < 5_000_000
    [installed] = package.glob("lib/python*/site-packages")
    listing = subprocess.check_output(["git", "ls-files", *PACKED_FOLDERS], cwd=ROOT, text=True)
    unpacked = {"infra/terraform/.gitignore", "infra/terraform/carrel.tftest.hcl"}
    names = set(listing.splitlines()) - unpacked
    assert [name for name in names if not (installed / name).exists()] == []
