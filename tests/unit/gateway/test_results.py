"""A tool's answer becomes text and structured content for MCP clients, and so do errors.

Some families of tools wrap their answers in an envelope with `success`, `data` and `error`.
"""

import json

import pytest
from mcp_types import TextContent

from functions.gateway.mcp.results import APP_FIELDS, REPLAY_REMARK, to_result
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


@pytest.mark.requirement("002-A4", "002-F8", "002-K2")
def test_text_accompanies_the_structured_result() -> None:
    """Without a text, the result is shown as JSON."""
    for text in (None, "One a."):
        result = to_result(CallAnswer(result={"a": 1}, text=text), PLAIN_TOOL)
        assert not result.is_error
        assert result.structured_content == {"a": 1}
        assert get_text(result.content[0]) == (text or '{"a":1}')


def test_results_and_errors_have_the_envelope_in_text_and_structure() -> None:
    wait = RateLimited("Wait.", retry_after=3)
    parts = []
    for answer in (CallAnswer(result={"a": 1}), *map(CallAnswer.failed, (NotFound("None."), wait))):
        result = to_result(answer, ENVELOPE_TOOL)
        assert json.loads(get_text(result.content[0])) == result.structured_content
        content = result.structured_content or {}
        parts.append((result.is_error, content["data"], content["error"]))
    success, missing, limited = parts
    assert success == (False, {"a": 1}, None)
    assert (missing[0], missing[2]["code"]) == (True, "gone")
    assert (limited[2]["code"], limited[2]["retry_after"]) == ("broken", 3)
    assert limited[2]["details"]["reason"] == "RATE_LIMITED"


def test_replayed_result_is_marked_for_the_model() -> None:
    answer = CallAnswer(result={"a": 1}, receipt=Receipt(replayed=True))
    result = to_result(answer, PLAIN_TOOL)
    [block] = result.content
    assert result.structured_content == {"a": 1, "remark": REPLAY_REMARK}
    assert json.loads(get_text(block)) == result.structured_content
    [block] = to_result(answer.model_copy(update={"text": "One a."}), PLAIN_TOOL).content
    assert get_text(block) == f"One a.\n\n{REPLAY_REMARK}"


def test_fields_for_apps_are_apart_for_clients_with_apps() -> None:
    """And items have no empty lists."""
    tool = make_tool("get_book", for_apps=["a.b", "a.c.d", "e"])
    items = [{"x": 1, "b": 2, "c": {"d": 3, "y": 4}}, {"x": 5, "tags": []}]
    answer = CallAnswer(result={"a": items, "e": 6, "f": []})
    plain, with_apps = (to_result(answer, tool, with_apps=has_apps) for has_apps in (False, True))
    expected = {"a": [{"x": 1, "c": {"y": 4}}, {"x": 5}], "f": []}
    assert plain.structured_content == with_apps.structured_content == expected
    assert APP_FIELDS not in (plain.meta or {})
    assert (with_apps.meta or {})[APP_FIELDS] == {"a": [{"b": 2, "c": {"d": 3}}, {}], "e": 6}
