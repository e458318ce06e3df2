"""`make new-tool` copies a tool, its test and its example, which work as they are."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.build.discovery import ROOT
from shared.core.errors import Conflict, InvalidInput, NotFound
from tests.new_tool import create_tool

COPIED_PATHS = (
    "docs",
    "functions",
    "shared",
    "infra",
    "tests",
    "pyproject.toml",
    "README.md",
    "server.json",
    "firestore.indexes.json",
)
CONTRACTS = ("tools", "functions", "tool_arguments", "tool_calls")
CARREL = "from infra.cli.main import main; main()"
"""A program that runs the command `carrel`."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of this checkout, in which new tools can be created."""
    for name in COPIED_PATHS:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_a_copy_has_only_its_own_name(checkout: Path) -> None:
    tool_file, test_file = create_tool("knowledge/count_words", "delete_task", checkout)
    assert tool_file == checkout / "functions/tools/knowledge/count_words/tool.py"
    assert test_file == checkout / "tests/emulator/knowledge/test_count_words.py"
    text = tool_file.read_text()
    assert 'name="count_words",\n    title="Count words",' in text
    assert "run=count_words," in text
    assert "delete_task" not in text + test_file.read_text()
    assert "mark.requirement" not in test_file.read_text()


@pytest.mark.slow
def test_new_tools_pass_all_checks_and_their_own_tests(checkout: Path) -> None:
    created = [
        *create_tool("tasks/greet_user", root=checkout),
        *create_tool("tasks/pin_task", "delete_task", checkout),
        *create_tool("knowledge/sum_chunks", "get_stats", checkout),
    ]
    files = [file for file in created if file.suffix == ".py"]
    tests = [file for file in files if "tests" in file.parts]
    contracts = [f"tests/contract/test_{name}.py" for name in CONTRACTS]
    for command in (
        ["-m", "ruff", "check", *files],
        ["-m", "ruff", "format", "--check", *files],
        ["-m", "mypy", *files],
        ["-c", CARREL, "generate"],
        ["-m", "pytest", "-q", *tests],
        [
            "-m",
            "pytest",
            "-q",
            "-m",
            "not slow",
            "-k",
            "pin_task or greet_user or sum_chunks",
            *contracts,
        ],
    ):
        process = subprocess.run(
            [sys.executable, *map(str, command)],
            cwd=checkout,
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize(
    "name", ["count_words", "a/count", "a/Count_words", "a/count-words", "../up_there", "a/a_1", ""]
)
def test_an_invalid_name_creates_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="is not GROUP/NAME"):
        create_tool(name, root=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_or_unknown_tool_is_refused() -> None:
    with pytest.raises(Conflict, match="The tool delete_task exists already"):
        create_tool("knowledge/delete_task")
    with pytest.raises(NotFound, match="no tool 'count_sheep'"):
        create_tool("tasks/pin_task", "count_sheep")
