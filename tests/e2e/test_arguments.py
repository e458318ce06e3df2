"""If arguments are invalid, the error says what to correct, and no document is read."""

import json
from typing import Any

import httpx2
import pytest

from functions.gateway.mcp.results import RECEIPT
from infra.build.discovery import tools
from tests.support.gateway_process import RunningGateway
from tests.support.mcp_wire import (
    CLIENT_META,
    HANDSHAKE,
    MODERN,
    TOOL_NAMES,
    make_call,
    make_request,
    post,
    post_modern,
)

INVALID_REQUEST, INVALID_PARAMS = -32600, -32602
"""Error codes of JSON-RPC."""
INFINITE = "1e999"
"""A JSON number that overflows to infinity. No client library would write it."""

VISIBLE_TOOLS = [tool for tool in tools() if tool.name in TOOL_NAMES]

# For each invalid field of the arguments, the last item contains words of its error.
INVALID_CALLS: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("search_kb", {}, {"query": "required"}),
    ("search_kb", {"query": "q", "filters": {"tag": "a"}}, {"filters.tag": "filters takes tags"}),
    ("search_kb", {"query": "q", "tag": "a"}, {"tag": "did you mean filters.tags?"}),
    ("search_kb", {"query": "q", "filters": {"limit": 1}}, {"filters.limit": "mean limit?"}),
    ("search_kb", {"query": "q", "filters": {"tags": "a, b"}}, {"filters.tags": '["a", "b"]'}),
    (
        "search_kb",
        {"query": "q", "filters": {"date_range": {"from": "2026-01-01"}}},
        {"filters.date_range.from": "filters.date_range takes start, end"},
    ),
    (
        "get_chunk",
        {"chunk_id": "../a", "related_limit": 21, "depth": 1},
        {"chunk_id": "copy it", "related_limit": "20", "depth": "not a parameter"},
    ),
]


@pytest.mark.requirement("000-E3", "004-N2")
@pytest.mark.parametrize(("tool", "arguments", "expected"), INVALID_CALLS)
def test_invalid_arguments_are_reported_field_by_field(
    carrel: RunningGateway, tool: str, arguments: dict[str, Any], expected: dict[str, str]
) -> None:
    result = post(carrel.endpoint, make_call(tool, arguments)).json()["result"]
    error = json.loads(result["content"][0]["text"])["error"]
    receipt = result["_meta"][RECEIPT]
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert error["code"] == "VALIDATION_ERROR"
    assert error["details"].keys() == expected.keys()
    for name, text in expected.items():
        assert text in error["details"][name]
    assert f"call {tool} again" in error["message"]
    assert receipt["documents_read"] == 0
    assert receipt["round_trips"] == 0


@pytest.mark.parametrize("arguments", [[1], "query", 5])
def test_arguments_other_than_an_object_are_a_protocol_error(
    carrel: RunningGateway, arguments: object
) -> None:
    for response in (
        post(carrel.endpoint, make_call("search_kb", arguments)),
        post_modern(carrel.endpoint, "tools/call", name="search_kb", arguments=arguments),
    ):
        assert response.json()["error"]["code"] == INVALID_PARAMS


def test_an_unknown_tool_is_a_short_protocol_error(carrel: RunningGateway) -> None:
    error = post(carrel.endpoint, make_call("x" * 5_000, {})).json()["error"]
    assert error["code"] == INVALID_PARAMS
    assert f"The tools are: {', '.join(TOOL_NAMES)}." in error["message"]
    assert len(error["message"]) < 600


@pytest.mark.parametrize(
    "query",
    [
        "x" * 2_000,
        "\u0000",
        "🧀" * 500,
        "\u202e\ufeff",
        'timeout "error',
        "DO NOT USE FIND /",
        "(a OR *",
    ],
)
def test_any_text_can_be_searched_for(carrel: RunningGateway, query: str) -> None:
    arguments = {"query": query, "limit": 1}
    result = post(carrel.endpoint, make_call("search_kb", arguments)).json()["result"]
    assert len(result["structuredContent"]["results"]) == 1


def post_call(gateway: RunningGateway, version: str, tool: str, arguments: str) -> httpx2.Response:
    """Post a call with raw JSON as its arguments, even JSON that no library would write."""
    params: dict[str, Any] = {"name": tool, "arguments": "?"}
    headers: dict[str, str | None] = {"mcp-protocol-version": version}
    if version == MODERN:
        params["_meta"] = CLIENT_META
        headers |= {"mcp-method": "tools/call", "mcp-name": tool}
    body = json.dumps(make_request("tools/call", **params)).replace('"?"', arguments)
    return post(gateway.endpoint, body.encode(), headers)


def call_tool(gateway: RunningGateway, version: str, tool: str, arguments: str) -> dict[str, Any]:
    """Return the result of a call with raw arguments, without its receipt."""
    result: dict[str, Any] = post_call(gateway, version, tool, arguments).json()["result"]
    del result["_meta"]
    return result


def make_nested_lists(levels: int) -> str:
    """Return nested lists as JSON."""
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("levels", [200, 900])
@pytest.mark.parametrize("version", [MODERN, *HANDSHAKE])
def test_arguments_too_deep_to_parse_are_rejected(
    inline: RunningGateway, version: str, levels: int
) -> None:
    """The parser fails before the gateway can check arguments."""
    arguments = f'{{"query": {make_nested_lists(levels)}}}'
    response = post_call(inline, version, "search_kb", arguments)
    error = response.json()["error"]
    assert response.status_code == 400
    assert error["code"] == INVALID_REQUEST
    assert "nested too deeply: an argument may have at most 32 levels" in error["message"]
    assert "JSON" not in error["message"]


@pytest.mark.parametrize(
    ("topology", "tool", "arguments"),
    [
        ("small_functions", "search_kb", '{"query": "bread", "limit": 1e-320}'),
        ("small_functions", "search_kb", f'{{"query": "bread", "limit": {10**400}}}'),
        ("small_functions", "search_kb", '{"query": "bread", "filters": {"tags": [[[]]]}}'),
        ("small_functions", "get_chunk", '{"chunk_id": null}'),
        *(
            pytest.param("functions", tool, arguments, marks=pytest.mark.slow)
            for tool, arguments in (
                ("update_task", f'{{"task_id": "1", "description": {INFINITE}}}'),
                ("list_tasks", f'{{"priority": {INFINITE}}}'),
                ("list_tasks", '{"limit": 2.0}'),
                ("list_tasks", '{"limit": 1e300}'),
                ("list_tasks", '{"limit": -0.0, "query": "\\u0000"}'),
                *((tool.name, f'{{"any": {INFINITE}}}') for tool in VISIBLE_TOOLS),
            )
        ),
    ],
)
def test_both_topologies_treat_unusual_arguments_alike(
    request: pytest.FixtureRequest, inline: RunningGateway, topology: str, tool: str, arguments: str
) -> None:
    functions = request.getfixturevalue(topology)
    for version in (MODERN, HANDSHAKE[0]):
        expected = call_tool(inline, version, tool, arguments)
        assert call_tool(functions, version, tool, arguments) == expected
