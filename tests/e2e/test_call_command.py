"""`carrel call`: one call at a terminal, with an exit code that scripts can trust."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

from infra.cli import main
from tests.e2e.wire import TOOL_NAMES
from tests.knowledge import BAKING

if TYPE_CHECKING:
    from click.testing import Result

    from tests.e2e.running import Running


def called(running: Running, *arguments: str) -> Result:
    """What `carrel call` does."""
    return CliRunner().invoke(main, ["call", *arguments, "--url", running.endpoint])


def test_a_good_call_prints_the_result_as_json(carrel: Running) -> None:
    result = called(carrel, "search_kb", '{"query": "sourdough starter", "limit": 1}')
    assert (0, "") == (result.exit_code, result.stderr)
    assert BAKING.title == json.loads(result.stdout)["results"][0]["title"]


def test_a_tool_error_goes_to_standard_error(carrel: Running) -> None:
    result = called(carrel, "search_kb", '{"query": ""}')
    assert (1, "") == (result.exit_code, result.stdout)
    assert "VALIDATION_ERROR" == json.loads(result.stderr)["error"]["code"]


def test_arguments_may_be_left_out(carrel: Running) -> None:
    result = called(carrel, "get_chunk")
    assert 1 == result.exit_code
    assert {"chunk_id": "required, but missing"} == json.loads(result.stderr)["error"]["details"]


def test_an_unknown_tool_is_answered_with_the_tools_there_are(carrel: Running) -> None:
    result = called(carrel, "find_all")
    assert (1, "") == (result.exit_code, result.stdout)
    assert f"The tools are: {', '.join(TOOL_NAMES)}." in result.stderr


def test_arguments_that_are_no_object_are_refused_in_words(carrel: Running) -> None:
    for arguments in ("[1]", "5", '"query"', "null"):
        result = called(carrel, "search_kb", arguments)
        assert (1, "") == (result.exit_code, result.stdout)
        assert "Traceback" not in result.stderr
        assert result.stderr.strip()
