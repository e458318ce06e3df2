"""What MCP clients get of a tool's answer: words, typed content, errors."""

from __future__ import annotations

import json

from mcp_types import TextContent

from functions.gateway.mcp.results import to_result
from shared.core.errors import NotFound, RateLimited
from shared.runtime.envelope import Envelope
from shared.runtime.messages import CallAnswer, Receipt
from tests.support.fake_catalog import make_tool

FAMILY = Envelope(codes={"NOT_FOUND": "gone"}, fields={}, other="broken")
PLAIN = make_tool("get_book")
WRAPPED = make_tool("get_task", envelope=FAMILY)


def words(content: object) -> str:
    assert isinstance(content, TextContent)
    return content.text


def test_without_words_of_its_own_a_result_is_told_as_json() -> None:
    result = to_result(CallAnswer(result={"a": 1}), PLAIN)
    assert not result.is_error
    assert result.structured_content == {"a": 1}
    assert words(result.content[0]) == '{"a":1}'


def test_words_of_its_own_stand_beside_the_typed_result() -> None:
    result = to_result(CallAnswer(result={"a": 1}, text="One a."), PLAIN)
    assert result.structured_content == {"a": 1}
    assert words(result.content[0]) == "One a."


def test_a_family_s_answer_is_in_its_shape_in_both_places() -> None:
    result = to_result(CallAnswer(result={"a": 1}), WRAPPED)
    assert result.structured_content == {"success": True, "data": {"a": 1}, "error": None}
    assert json.loads(words(result.content[0])) == result.structured_content


def test_a_family_s_error_is_an_error_in_the_family_s_schema() -> None:
    result = to_result(CallAnswer.failed(NotFound("There is none.")), WRAPPED)
    assert result.is_error
    assert (result.structured_content or {})["error"]["code"] == "gone"
    assert json.loads(words(result.content[0])) == result.structured_content


def test_a_refusal_of_the_gateway_s_has_the_family_s_shape_too() -> None:
    result = to_result(CallAnswer.failed(RateLimited("Wait.", retry_after=3)), WRAPPED)
    error = (result.structured_content or {})["error"]
    assert error["code"] == "broken"
    assert error["retry_after"] == 3
    assert error["details"]["reason"] == "RATE_LIMITED"


def test_a_replayed_answer_says_so_to_the_model_too() -> None:
    answer = CallAnswer(result={"a": 1}, receipt=Receipt(replayed=True))
    first, second = to_result(answer, PLAIN).content
    assert words(first) == '{"a":1}'
    assert "succeeded before" in words(second)
