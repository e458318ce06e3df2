"""The function of a tool answers requests, which the tests send instead of the gateway."""

import json
import time
from typing import Any

import httpx2
import pytest

from tests.support.gateway_process import FilledProject, RunningGateway
from tests.support.mcp_wire import make_call, post


def make_call_request(**changes: Any) -> dict[str, Any]:
    """Make a call request as the gateway sends it, with some fields changed."""
    caller = {"user_id": None, "tier": "public"}
    defaults = {"call_id": "c-1", "arguments": {}, "caller": caller, "deadline": time.time() + 60}
    return {**defaults, **changes}


@pytest.fixture
def url(small_functions: RunningGateway) -> str:
    """The URL of the function of `get_chunk`."""
    return small_functions.tools["get_chunk"].url


def test_a_call_request_gets_a_result_and_a_receipt(
    url: str, filled_project: FilledProject
) -> None:
    chunk = filled_project.chunks[0]
    arguments = {"chunk_id": chunk.chunk_id, "include_related": False}
    response = httpx2.post(url, json=make_call_request(arguments=arguments), timeout=60)
    answer = response.json()
    assert response.status_code == 200
    assert answer["result"]["content"] == chunk.content
    assert answer["error"] is None
    assert answer["receipt"]["documents_read"] == 2  # the chunk, and the notes about it
    assert answer["receipt"]["round_trips"] == 1


def test_a_call_reaches_a_tool_through_the_gateway(small_functions: RunningGateway) -> None:
    response = post(
        small_functions.endpoint, make_call("search_kb", {"query": "a sourdough starter"})
    )
    hits = response.json()["result"]["structuredContent"]["results"]
    assert "A sourdough starter needs flour" in hits[0]["snippet"]


@pytest.mark.parametrize(
    "body", [b"", b"{nope", b"[]", b'{"arguments": {}}', b"\xff", b'{"jsonrpc": "2.0"}']
)
def test_invalid_requests_get_a_json_error(url: str, body: bytes) -> None:
    response = httpx2.post(url, content=body, timeout=60)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    assert response.json()["error"]["code"] == "VALIDATION_ERROR"


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [({}, 400, "VALIDATION_ERROR"), ({"chunk_id": "nobody"}, 404, "NOT_FOUND")],
)
def test_an_error_code_has_its_http_status(
    url: str, arguments: dict[str, Any], status: int, code: str
) -> None:
    response = httpx2.post(url, json=make_call_request(arguments=arguments), timeout=60)
    assert response.status_code == status
    assert response.json()["error"]["code"] == code
    assert response.json()["result"] is None


def test_a_call_past_its_deadline_is_not_run(url: str) -> None:
    late_request = make_call_request(arguments={"chunk_id": "a"}, deadline=time.time() - 1)
    response = httpx2.post(url, json=late_request, timeout=60)
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "UNAVAILABLE"
    assert response.json()["receipt"]["documents_read"] == 0


def test_a_get_request_returns_the_health(url: str) -> None:
    response = httpx2.get(url, timeout=60)
    assert response.status_code == 200
    assert response.json() == {"name": "get_chunk", "status": "ok"}


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_content_types_of_web_forms_are_rejected(url: str, content_type: str) -> None:
    body = json.dumps(make_call_request(arguments={"chunk_id": "a"}))
    headers = {"content-type": content_type}
    response = httpx2.post(url, content=body, headers=headers, timeout=60)
    assert response.status_code == 400
