"""`make run` installs every module that a run imports, and reports its progress."""

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from infra.build.discovery import ROOT
from infra.build.requirements import find_requirements
from infra.local.constraints import CONSTRAINTS, count_distributions, format_constraints
from infra.local.install import PipProgress, track_progress
from tests.support.process_end import END_TIMEOUT_SECONDS

OWN_FOLDERS: Final = ("functions", "infra", "shared")
FAKE_UV: Final = """#!/bin/sh
echo "$@"
exit $UV_STATUS
"""
FAKE_PIP: Final = """
print("Collecting numpy>=2 (from carrel==0.1.0)")
print("  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl.metadata (62 kB)")
print("Requirement already satisfied: click>=8 in ./lib (from carrel==0.1.0)")
print("  Using cached httpx2-2.16.2-py3-none-any.whl (97 kB)")
print("Processing /mirror/scipy-1.17.1-cp311-manylinux_2_28_x86_64.whl (from carrel==0.1.0)")
print("Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl (16.9 MB)")
print("Successfully installed numpy-2.4.6")
"""
"""Prints what pip prints, with and without an index that serves metadata separately."""
CHATTY_PIP: Final = """
print("Installing collected packages: numpy, scipy", flush=True)
print("WARNING: one of very many\\n" * 100_000)
"""
FAILING_PIP: Final = """
import sys
sys.exit("ERROR: No matching distribution found for numpy>=2")
"""
WAITING_PIP: Final = """
import sys
print("Installing collected packages: numpy, scipy", flush=True)
sys.stdin.read()
"""


@contextmanager
def run_installation(folder: Path, pip: str) -> Iterator[subprocess.Popen[str]]:
    """Run the installation with this module as pip, in a process group as a terminal does."""
    (folder / "pip.py").write_text(pip)
    with subprocess.Popen(
        [sys.executable, "-m", "infra.local.install"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder), "PATH": f"{folder}/bin:/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def find_imported_modules(path: Path) -> Iterator[str]:
    """Yield all modules that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield str(node.module)


def test_every_imported_module_is_installed() -> None:
    files = {path for name in OWN_FOLDERS for path in (ROOT / name).rglob("*.py")}
    modules = {module for path in files for module in find_imported_modules(path)}
    other_modules = {module for module in modules if module.partition(".")[0] not in OWN_FOLDERS}
    names = {line.partition(">")[0] for line in find_requirements(other_modules)}
    assert {"click", "uvicorn", "onnxruntime", "scikit-learn"} <= names
    assert not {"mypy", "playwright", "pytest"} & names


def test_constraints_of_a_run_precede_those_of_tests() -> None:
    text = format_constraints({"pytest": "9", "Click": "8", "anyio": "4"}, {"Click", "anyio"})
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines == ["anyio==4", "Click==8", "pytest==9"]
    run_count, all_count = count_distributions(is_dev=False), count_distributions(is_dev=True)
    assert 0 < run_count < all_count
    assert all_count == CONSTRAINTS.read_text().count("==")


def test_pip_with_much_output_is_not_blocked(tmp_path: Path) -> None:
    with run_installation(tmp_path, CHATTY_PIP) as process:
        output, errors = process.communicate(timeout=END_TIMEOUT_SECONDS)
    assert process.returncode == 0
    assert errors == ""
    assert "Installing packages: 0 of 2" in output


@pytest.mark.parametrize("status", [0, 2])
def test_uv_installs_if_it_is_on_path_and_otherwise_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uv").write_text(FAKE_UV)
    (tmp_path / "bin" / "uv").chmod(0o755)
    monkeypatch.setenv("UV_STATUS", str(status))
    with run_installation(tmp_path, FAKE_PIP) as process:
        output, _ = process.communicate(timeout=END_TIMEOUT_SECONDS)
    assert process.returncode == 0
    assert f"pip install --python {sys.executable} -c {CONSTRAINTS} -e {ROOT}\n" in output
    assert ("uv failed, see above. Trying pip ..." in output) == bool(status)


def test_a_failed_installation_says_what_to_do(tmp_path: Path) -> None:
    with run_installation(tmp_path, FAILING_PIP) as process:
        _, errors = process.communicate(timeout=END_TIMEOUT_SECONDS)
    assert process.returncode == 1
    assert errors.startswith("ERROR: No matching distribution found for numpy>=2\n")
    assert "set HTTPS_PROXY" in errors


def test_ctrl_c_ends_an_installation_with_a_message(tmp_path: Path) -> None:
    with run_installation(tmp_path, WAITING_PIP) as process:
        assert process.stdout
        assert any("Installing packages" in line for line in process.stdout)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=END_TIMEOUT_SECONDS)
    message = "\nThe installation was interrupted. Run the same command again to finish it.\n"
    assert process.returncode == 130
    assert errors == message


def test_each_fetched_package_is_counted_once() -> None:
    command = [sys.executable, "-c", FAKE_PIP]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pip:
        steps = list(track_progress(pip, total=90))
    assert steps == [
        PipProgress("Choosing packages", 1, 90, ": numpy"),
        PipProgress("Fetching packages", 1, 90, ": click"),
        PipProgress("Fetching packages", 2, 90, ": httpx2 (97 kB)"),
        PipProgress("Fetching packages", 3, 90, ": scipy"),
        PipProgress("Fetching packages", 4, 90, ": numpy (16.9 MB)"),
    ]
