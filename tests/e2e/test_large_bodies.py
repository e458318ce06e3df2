"""A request up to the limit reaches its tool, and a larger one is rejected with advice."""

import json

import pytest

from functions.gateway.app import MAX_REQUEST_BYTES
from shared.core.settings import Settings
from tests.support.gateway_process import RunningGateway
from tests.support.mcp_wire import MODERN, make_call, post

TOO_LARGE_MESSAGE = (
    "This request is larger than 8,388,608 bytes. Send less in one request: provide long materials"
    ' in several calls with the same task_id, then ask with the scope "task".'
)


def make_body(size: int, letter: str) -> bytes:
    """Return a call of this size in bytes, whose query of these letters the tool rejects."""
    size_without_query = len(json.dumps(make_call("search_kb", {"query": ""}), ensure_ascii=False))
    query = letter * ((size - size_without_query) // len(letter.encode()))
    request = make_call("search_kb", {"query": query})
    return json.dumps(request, ensure_ascii=False).encode().ljust(size)  # the last bytes are spaces


def test_the_largest_materials_fit_a_request() -> None:
    materials = "🧀" * Settings().extract_materials_characters
    message = make_call("extract_key_info", {"query": "cheese", "materials": materials})
    assert len(json.dumps(message, ensure_ascii=False).encode()) < MAX_REQUEST_BYTES


@pytest.mark.parametrize("letter", ["a", "熟", "🧀"])
def test_a_call_as_large_as_allowed_reaches_its_tool(carrel: RunningGateway, letter: str) -> None:
    response = post(carrel.endpoint, make_body(MAX_REQUEST_BYTES, letter))
    assert response.status_code == 200
    result = response.json()["result"]
    assert "search_kb was not run. query: " in result["content"][0]["text"]
    assert result["_meta"]["carrel/receipt"]["milliseconds"] > 0


@pytest.mark.parametrize("version", [MODERN, None])
def test_a_larger_request_gets_advice_to_send_less(
    inline: RunningGateway, version: str | None
) -> None:
    body = make_body(MAX_REQUEST_BYTES + 1, "a")
    response = post(inline.endpoint, body, {"mcp-protocol-version": version})
    assert response.status_code == 413
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32600, "message": TOO_LARGE_MESSAGE},
    }
