"""`make run` installs every module that a run imports."""

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
from infra.local.install import CONSTRAINTS
from tests.support.local_machine import END_TIMEOUT_SECONDS

OWN_FOLDERS: Final = ("functions", "infra", "shared")
FAKE_UV: Final = """#!/bin/sh
echo "$@"
exit $UV_STATUS
"""
FAKE_PIP: Final = ""
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
        assert any("Installing collected" in line for line in process.stdout)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=END_TIMEOUT_SECONDS)
    message = "\nThe installation was interrupted. Run the same command again to finish it.\n"
    assert process.returncode == 130
    assert errors.endswith(message)
