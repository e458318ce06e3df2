"""`carrel new-tool` writes the files of a new tool, which work as they are."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from infra.build.discovery import ROOT
from infra.build.scaffold import create_tool
from infra.cli.main import main
from shared.core.errors import Conflict, InvalidInput
from shared.runtime.tool import Tool

if TYPE_CHECKING:
    from pathlib import Path

    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

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
CARREL = "from infra.cli.main import main; main()"
"""A program that runs the command `carrel`."""


def load_module(path: Path) -> Any:
    """Import a file that is not on the path, under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"new_{path.parent.name}", path)
    assert spec
    assert spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


@pytest.mark.parametrize("writes", [False, True])
def test_a_new_tool_declares_itself(tmp_path: Path, *, writes: bool) -> None:
    tool_file, *others = create_tool("knowledge/count_words", tmp_path, writes=writes)
    test_file = tmp_path / "tests" / "emulator" / "knowledge" / "test_count_words.py"
    assert others == [test_file]
    tool = load_module(tool_file).TOOL
    assert isinstance(tool, Tool)
    assert tool.name == "count_words"
    assert tool.title == "Count words"
    assert ("idempotency_key" in tool.input.model_fields) is writes


async def test_a_new_tool_runs(tmp_path: Path, ctx: Context) -> None:
    module = load_module(create_tool("knowledge/count_words", tmp_path)[0])
    out = await module.TOOL.run(module.In(name="Ann"), ctx)
    assert out.greeting.startswith("Hello, Ann, it is ")


async def test_a_new_tool_that_writes_can_be_undone(tmp_path: Path, ctx: Context) -> None:
    module = load_module(create_tool("tasks/pin_task", tmp_path, writes=True)[0])
    stored = await module.TOOL.run(module.In(item_id="one", text="A text."), ctx)
    removed = await module.TOOL.run(module.In(**stored.undo.arguments), ctx)
    assert stored.text == "A text."
    assert removed.text is None


@pytest.mark.slow
def test_new_tools_pass_all_checks_and_their_own_tests(checkout: Path) -> None:
    files = [
        *create_tool("tasks/greet_user", checkout),
        *create_tool("tasks/pin_task", checkout, writes=True),
    ]
    tests = [file for file in files if "tests" in file.parts]
    contracts = [f"tests/contract/test_{name}.py" for name in ("tools", "functions")]
    for command in (
        ["-m", "ruff", "check", *files],
        ["-m", "ruff", "format", "--check", *files],
        ["-m", "mypy", *files],
        ["-c", CARREL, "generate"],
        ["-m", "pytest", "-q", *tests],
        ["-m", "pytest", "-q", "-m", "not slow", "-k", "pin_task or greet_user", *contracts],
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
        create_tool(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_tool_is_not_overwritten(tmp_path: Path) -> None:
    create_tool("knowledge/count_words", tmp_path)
    with pytest.raises(Conflict, match="The tool count_words exists already"):
        create_tool("tasks/count_words", tmp_path)


def test_an_invalid_name_is_refused_without_a_traceback() -> None:
    result = CliRunner().invoke(main, ["new-tool", "Nope"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "'Nope' is not GROUP/NAME" in result.stderr
