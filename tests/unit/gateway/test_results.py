"""A tool's answer becomes text and structured content for MCP clients, and so do errors.

Some families of tools wrap their answers in an envelope with `success`, `data` and `error`.
"""

from __future__ import annotations

import json

import pytest
from mcp_types import TextContent

from functions.gateway.mcp.results import to_result
from shared.core.errors import NotFound, RateLimited
from shared.runtime.envelope import Envelope
from shared.runtime.messages import CallAnswer, Receipt
from tests.support.fake_catalog import make_tool

FAMILY = Envelope(codes={"NOT_FOUND": "gone"}, fields={}, other="broken")
PLAIN_TOOL = make_tool("get_book")
ENVELOPE_TOOL = make_tool("get_task", envelope=FAMILY)


def get_text(content: object) -> str:
    """Return the text of a block, which must be a text block."""
    assert isinstance(content, TextContent)
    return content.text


def test_result_without_text_is_shown_as_json() -> None:
    result = to_result(CallAnswer(result={"a": 1}), PLAIN_TOOL)
    assert not result.is_error
    assert result.structured_content == {"a": 1}
    assert get_text(result.content[0]) == '{"a":1}'


@pytest.mark.requirement("002-A4", "002-F8", "002-K2")
def test_text_accompanies_the_structured_result() -> None:
    result = to_result(CallAnswer(result={"a": 1}, text="One a."), PLAIN_TOOL)
    assert result.structured_content == {"a": 1}
    assert get_text(result.content[0]) == "One a."


def test_result_has_the_envelope_in_text_and_structure() -> None:
    result = to_result(CallAnswer(result={"a": 1}), ENVELOPE_TOOL)
    assert result.structured_content == {"success": True, "data": {"a": 1}, "error": None}
    assert json.loads(get_text(result.content[0])) == result.structured_content


def test_error_has_the_envelope_of_its_family() -> None:
    result = to_result(CallAnswer.failed(NotFound("There is none.")), ENVELOPE_TOOL)
    assert result.is_error
    assert (result.structured_content or {})["error"]["code"] == "gone"
    assert json.loads(get_text(result.content[0])) == result.structured_content


def test_error_of_the_gateway_has_the_envelope() -> None:
    result = to_result(CallAnswer.failed(RateLimited("Wait.", retry_after=3)), ENVELOPE_TOOL)
    error = (result.structured_content or {})["error"]
    assert error["code"] == "broken"
    assert error["retry_after"] == 3
    assert error["details"]["reason"] == "RATE_LIMITED"


def test_replayed_result_is_marked_for_the_model() -> None:
    answer = CallAnswer(result={"a": 1}, receipt=Receipt(replayed=True))
    result_block, remark_block = to_result(answer, PLAIN_TOOL).content
    assert get_text(result_block) == '{"a":1}'
    assert "succeeded before" in get_text(remark_block)
