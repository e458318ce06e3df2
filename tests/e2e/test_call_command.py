"""`carrel call` calls a tool, and prints its result or an error that says what to do."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from infra.cli.main import main
from tests.support.gateway_process import ACCESS_SECRET, FilledProject, RunningGateway
from tests.support.knowledge import BAKING


@pytest.fixture
def key(filled_project: FilledProject, monkeypatch: pytest.MonkeyPatch) -> str:
    """A key that the private gateway accepts."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", filled_project.project)
    monkeypatch.setenv("ACCESS_SECRETS", json.dumps([ACCESS_SECRET]))
    command = ["keys", "create", "--user", "ann", "--name", "terminal"]
    return CliRunner().invoke(main, command).stdout.strip()


def run_call(gateway: RunningGateway, *arguments: str) -> Result:
    """Run `carrel call` against a gateway."""
    return CliRunner().invoke(main, ["call", *arguments, "--url", gateway.endpoint])


def test_a_successful_call_prints_the_result_as_json(carrel: RunningGateway) -> None:
    result = run_call(carrel, "search_kb", '{"query": "sourdough starter", "limit": 1}')
    assert result.exit_code == 0
    assert result.stderr == ""
    assert json.loads(result.stdout)["results"][0]["title"] == BAKING.title


def test_a_tool_error_goes_to_standard_error(carrel: RunningGateway) -> None:
    result = run_call(carrel, "search_kb", '{"query": ""}')
    assert result.exit_code == 1
    assert result.stdout == ""
    assert json.loads(result.stderr)["error"]["code"] == "VALIDATION_ERROR"


def test_arguments_that_are_not_an_object_are_rejected(carrel: RunningGateway) -> None:
    for arguments in ("[1]", "5", '"query"', "null"):
        result = run_call(carrel, "search_kb", arguments)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        assert result.stderr.strip()


def test_a_key_comes_from_the_environment(private_gateway: RunningGateway, key: str) -> None:
    result_without_key = run_call(private_gateway, "get_stats")
    assert result_without_key.exit_code == 1
    assert result_without_key.stdout == ""
    for words in ("Sign in first", "carrel keys create", "CARREL_KEY"):
        assert words in result_without_key.stderr

    result = CliRunner(env={"CARREL_KEY": key}).invoke(
        main, ["call", "get_stats", "--url", private_gateway.endpoint]
    )
    assert result.exit_code == 0
    assert result.stderr == ""
    assert json.loads(result.stdout)["chunks"]


@pytest.mark.parametrize("invalid", ["nonsense", f"carrel_0123456789ab_{'x' * 51}", "é", "a\nb"])
def test_an_invalid_key_is_reported_and_not_quoted(
    private_gateway: RunningGateway, invalid: str
) -> None:
    result = CliRunner(env={"CARREL_KEY": invalid}).invoke(
        main, ["call", "get_stats", "--url", private_gateway.endpoint]
    )
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "key" in result.stderr.lower()
    assert "Traceback" not in result.stderr
    assert invalid not in result.stderr


def test_a_key_is_not_sent_unencrypted() -> None:
    result = CliRunner(env={"CARREL_KEY": "k"}).invoke(
        main, ["call", "get_stats", "--url", "http://carrel.example/mcp"]
    )
    assert result.exit_code == 1
    assert "only sent over https" in result.stderr


def test_a_long_text_comes_from_a_file(carrel: RunningGateway, tmp_path: Path) -> None:
    """The text is longer than a command line may be."""
    filler = "The sea is deep and blue. " * 8_000
    (tmp_path / "report.txt").write_text(f"{filler}\n\nThe vault key is in Lisbon.")
    option = f"materials={tmp_path / 'report.txt'}"
    result = run_call(carrel, "extract_key_info", '{"query": "vault key"}', "--file", option)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["contexts"][0] == "The vault key is in Lisbon."


def test_a_missing_file_is_reported(carrel: RunningGateway, tmp_path: Path) -> None:
    option = f"materials={tmp_path / 'nowhere.txt'}"
    result = run_call(carrel, "extract_key_info", '{"query": "key"}', "--file", option)
    assert result.exit_code == 1
    assert "cannot read the text" in result.stderr
