"""The official clients send null, empty texts and JSON in texts, as programs around them do."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from mcp import Client

from functions.gateway.mcp import chatgpt
from functions.gateway.mcp.results import REMARK, REPLAY_REMARK
from infra.build.discovery import tools
from tests.support.gateway_process import RunningGateway
from tests.support.mcp_wire import TOOL_NAMES, make_call, post
from tests.support.typescript_clients import run_client

Call = dict[str, Any]

PLAIN_SEARCH = {"query": "bread", "limit": 2, "filters": {"tags": ["food"]}}
WRAPPED_SEARCHES = [
    {
        "query": "bread",
        "limit": "2",
        "filters": '{"tags": ["food"], "author": ""}',
        "search_cards_only": "false",
        "cursor": "",
        "max_tokens": None,
        "toolCallId": "call_1",
    },
    {
        "query": "bread",
        "limit": " 2.0",
        "filters": {"tags": '["food", null]', "date_range": None, "period": ""},
        "search_cards_only": "False",
        "sessionId": "1",
    },
    {"query": "bread", "limit": 2, "filters": {"tags": "food"}, "mode": ""},
]
SEARCH_CALLS: list[Call] = [
    {"name": "search_kb", "arguments": arguments} for arguments in [PLAIN_SEARCH, *WRAPPED_SEARCHES]
]
NULL_CALLS: list[Call] = [
    {"name": tool.name, "arguments": dict.fromkeys(tool.declaration()["inputSchema"]["properties"])}
    for tool in tools()
    if tool.name in TOOL_NAMES
]
"""A call of every tool with null for each argument, so that no tool changes anything."""
EMPTY_CALLS: list[Call] = [
    call | {"arguments": dict.fromkeys(call["arguments"], "")} for call in NULL_CALLS
]
"""The same with empty texts: a call that names nothing forgets, completes and saves nothing."""
CALLS = SEARCH_CALLS + NULL_CALLS + EMPTY_CALLS


def assert_right(results: Sequence[dict[str, Any]]) -> None:
    """Assert that searches find the same, and that only required arguments are missed."""
    plain, *wrapped = results[: len(SEARCH_CALLS)]
    assert plain["structuredContent"]["results"]
    for result in wrapped:
        assert result["structuredContent"] == plain["structuredContent"]
    for result in results[len(SEARCH_CALLS) :]:
        if result.get("isError"):
            error = json.loads(result["content"][0]["text"])["error"]
            assert error["code"] in {"VALIDATION_ERROR", "invalid_input"}
            assert "valid string" not in error["message"]  # which null is not


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_python_client_may_send_null_and_json_texts(
    inline: RunningGateway, mode: Any
) -> None:
    async with Client(inline.endpoint, mode=mode) as client:
        results = [await client.call_tool(call["name"], call["arguments"]) for call in CALLS]
    assert_right([result.model_dump(by_alias=True, exclude_none=True) for result in results])


@pytest.mark.parametrize("client", ["auto", pytest.param("v1", marks=pytest.mark.slow)])
def test_a_typescript_client_may_send_null_and_json_texts(
    inline: RunningGateway, client: str
) -> None:
    calls = {"CALLS": json.dumps(CALLS)}
    assert_right(run_client("arguments.mjs", inline.endpoint, client, calls)["results"])


def test_a_repeated_call_is_the_same_in_another_form(inline: RunningGateway) -> None:
    forms = (
        {"tasks": [{"title": "Bake"}], "due_date": None},
        {"tasks": '[{"title": "Bake", "due_date": null}]', "toolCallId": "call_2"},
        {"tasks": {"title": "Bake"}},
        {"tasks": [{"title": "Bake", "priority": ""}], "title": "", "due_date": ""},
    )
    key = {"idempotency_key": "one-loaf-in-several-forms"}
    first, *repeated = [
        post_tool(inline, "add_task", form | key)["structuredContent"] for form in forms
    ]
    assert repeated == [first | {REMARK: REPLAY_REMARK}] * 3
    [added] = first["data"]["results"]
    post_tool(inline, "delete_task", {"task_id": added["task"]["task_id"]})


def test_chatgpt_tools_ignore_what_clients_add(inline: RunningGateway) -> None:
    url = f"{inline.endpoint}?tools={chatgpt.GROUP}"
    call = make_call("search", {"query": "bread", "toolCallId": "call_3", "_meta": {}})
    assert not post(url, call).json()["result"]["isError"]


def post_tool(gateway: RunningGateway, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool, and return the result."""
    result: dict[str, Any] = post(gateway.endpoint, make_call(tool, arguments)).json()["result"]
    return result
