"""The `carrel` command, where nothing has to run for it: what it refuses, and what it writes."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from infra.build.scaffold import create_tool
from infra.cli.main import main
from infra.local.emulator import PROJECT
from infra.local.local_database import emulator
from shared.core.errors import Conflict, InvalidInput
from shared.runtime.invocation import parse_arguments
from shared.runtime.tool import Tool
from tests.support.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def carrel(*arguments: str) -> Result:
    """What the command does."""
    return CliRunner().invoke(main, arguments)


def loaded(path: Path) -> Any:
    """A module from a file that is not on the path."""
    spec = importlib.util.spec_from_file_location("made_tool", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_arguments_that_are_not_json_are_refused_before_a_call() -> None:
    result = carrel("call", "search_kb", "{query: 1}")
    assert (1, "") == (result.exit_code, result.stdout)
    assert "ARGUMENTS is not JSON" in result.stderr


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity"])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    result = CliRunner().invoke(main, ["call", "update_task", f'{{"description": {number}}}'])
    assert (1, True) == (result.exit_code, f"{number} is not a finite number" in result.stderr)


def test_a_call_where_nothing_listens_says_how_to_start_it() -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    result = carrel("call", "search_kb", "{}", "--url", url)
    assert (1, "") == (result.exit_code, result.stdout)
    assert f"Nothing answers at {url}. Start it with `make run`, or name" in result.stderr


@pytest.mark.parametrize("command", ["up", "doctor"])
@pytest.mark.parametrize("port", ["0", "99999"])
def test_a_port_out_of_range_is_refused_in_words(command: str, port: str) -> None:
    result = carrel(command, "--port", port)
    assert 2 == result.exit_code
    assert f"Invalid value for '--port': {port} is not in the range 1<=x<=65535." in result.stderr


def test_a_job_without_a_database_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    host = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", host)
    result = carrel("jobs", "run", "embed")
    assert 1 == result.exit_code
    assert f"No emulator answers at {host}, which FIRESTORE_EMULATOR_HOST names." in result.stderr


def test_the_generated_files_are_up_to_date() -> None:
    result = carrel("generate", "--check")
    assert (0, "") == (result.exit_code, result.output)


def test_without_an_environment_commands_find_the_local_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("FIRESTORE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT", "LEASE_SECONDS"):
        monkeypatch.setenv(name, "")  # so that what the command sets is taken back
        monkeypatch.delenv(name)
    carrel("generate", "--check")
    found = (os.environ["FIRESTORE_EMULATOR_HOST"], os.environ["GOOGLE_CLOUD_PROJECT"])
    assert (emulator(), PROJECT) == found


def test_a_new_tool_declares_itself_and_takes_its_arguments(tmp_path: Path) -> None:
    tool_file, *others = create_tool("knowledge/count_words", root=tmp_path)
    test_file = tmp_path / "tests" / "emulator" / "knowledge" / "test_count_words.py"
    assert [test_file] == others
    tool = loaded(tool_file).TOOL
    assert isinstance(tool, Tool)
    assert ("count_words", "Count words") == (tool.name, tool.title)
    assert "name" in tool.declaration()["inputSchema"]["properties"]
    assert "Ann" == parse_arguments(tool.input, {"name": "Ann"}, tool.name).model_dump()["name"]


@pytest.mark.anyio
async def test_a_new_tools_handler_runs(tmp_path: Path, ctx: Any) -> None:
    made = loaded(create_tool("knowledge/count_words", root=tmp_path)[0])
    out = await made.TOOL.run(made.In(name="Ann"), ctx)
    assert out.greeting.startswith("Hello, Ann, it is ")


@pytest.mark.parametrize(
    "name", ["count_words", "a/count", "a/Count_words", "a/count-words", "../up_there", "a/a_1", ""]
)
def test_a_name_without_a_group_or_of_another_form_makes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="a group and a name"):
        create_tool(name, root=tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_a_tool_is_not_made_twice(tmp_path: Path) -> None:
    create_tool("knowledge/count_words", root=tmp_path)
    with pytest.raises(Conflict, match="a tool count_words already"):
        create_tool("tasks/count_words", root=tmp_path)


def test_a_name_that_is_refused_is_refused_in_words() -> None:
    result = carrel("new-tool", "Nope")
    assert (1, "") == (result.exit_code, result.stdout)
    assert "'Nope' is not a group and a name" in result.stderr
