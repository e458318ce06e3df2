"""A message that names a `carrel` command names it as this installation is called."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from infra.build.discovery import ROOT
from infra.cli.main import main
from shared.core import installation
from shared.core.installation import carrel, carrel_deploy, carrel_on_deployment
from shared.core.target import choose_target

COMMANDS = "|".join(main.list_commands(click.Context(main)))
BARE_COMMAND = re.compile(rf"(?<![\w/.-])carrel (--cloud )?({COMMANDS})\b")
DESCRIBING_KEYWORDS = {"description", "help"}
"""The arguments that published schemas and documents show, which say the same everywhere."""
NAME_OF_A_KEY = ROOT / "infra" / "cloud" / "smoke_key.py"
"""The file where `carrel deploy` is the name of a key."""
FILES = [
    path
    for folder in ("functions", "shared", "infra/cli", "infra/cloud", "infra/local")
    for path in sorted((ROOT / folder).rglob("*.py"))
] + [ROOT / "infra" / "doctor.py"]


def list_messages(path: Path) -> Iterator[str]:
    """Yield the strings of a file that are neither docstrings nor descriptions."""
    tree = ast.parse(path.read_text("utf-8"))
    ignored: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            ignored.add(node.value)
        if isinstance(node, ast.keyword) and node.arg in DESCRIBING_KEYWORDS:
            ignored |= {*ast.walk(node.value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in ignored:
            yield node.value


def test_no_message_has_a_command_that_cannot_be_pasted() -> None:
    messages = [
        f"{path.relative_to(ROOT)}: {message}"
        for path in FILES
        for message in list_messages(path)
        if BARE_COMMAND.search(message) and path != NAME_OF_A_KEY
    ]
    assert messages == []


@pytest.fixture(autouse=True)
def unchosen_target() -> None:
    """Let the environment decide what the database is."""
    choose_target(None)


def test_a_clone_names_its_own_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", "localhost:1")
    assert carrel("jobs list") == ".venv/bin/carrel jobs list"
    assert carrel_on_deployment("jobs list") == ".venv/bin/carrel --cloud jobs list"
    assert carrel_deploy() == ".venv/bin/carrel deploy"


def test_a_process_of_a_deployment_names_the_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no program beside a function. Its operator has a clone, which deployed it."""
    monkeypatch.delenv("FIRESTORE_EMULATOR_HOST", raising=False)
    monkeypatch.setattr(installation, "IS_CHECKOUT", False)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    assert carrel("jobs list") == ".venv/bin/carrel --cloud jobs list"


def test_a_package_that_is_not_on_path_is_named_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", "localhost:1")
    monkeypatch.setattr(installation, "IS_CHECKOUT", False)
    monkeypatch.setattr("sys.prefix", str(tmp_path / "my environment"))
    program = tmp_path / "my environment" / "bin" / "carrel"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    monkeypatch.setenv("PATH", "")
    assert carrel("sources") == f"'{program}' sources"
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "my environment"))
    monkeypatch.setenv("PATH", str(program.parent))
    assert carrel("sources") == "carrel sources"
