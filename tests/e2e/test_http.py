"""The gateway answers HTTP requests, even those that no client library would send."""

import json
from http.client import HTTPConnection
from typing import Any

import httpx2
import pytest

from functions.gateway.mcp.instructions import INSTRUCTIONS
from tests.support.gateway_process import ALLOWED_ORIGIN, RunningGateway
from tests.support.mcp_wire import (
    CLIENT_META,
    HANDSHAKE,
    HEADERS,
    MODERN,
    TOOL_NAMES,
    make_call,
    make_initialize,
    make_request,
    post,
    post_modern,
)

PING = make_request("ping")
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602


def get_rpc_error(response: httpx2.Response) -> dict[str, Any]:
    """Return the JSON-RPC error of a response."""
    body = response.json()
    assert "result" not in body
    return dict(body["error"])


@pytest.mark.requirement("000-I4")
@pytest.mark.parametrize("version", HANDSHAKE)
def test_every_revision_with_a_handshake_is_supported(inline: RunningGateway, version: str) -> None:
    handshake = post(inline.endpoint, make_initialize(version)).json()["result"]
    assert handshake["protocolVersion"] == version
    assert handshake["serverInfo"]["name"] == "carrel"
    assert handshake["instructions"].startswith(INSTRUCTIONS[:100])

    headers: dict[str, str | None] = {"mcp-protocol-version": version}
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    response = post(inline.endpoint, notification, headers)
    assert response.status_code == 202
    assert response.content == b""

    def get_result(request: dict[str, Any]) -> dict[str, Any]:
        return dict(post(inline.endpoint, request, headers).json()["result"])

    assert get_result(PING) == {}
    tools = get_result(make_request("tools/list"))["tools"]
    assert [tool["name"] for tool in tools] == TOOL_NAMES
    result = get_result(make_call("search_kb", {"query": "bread"}))
    assert result["structuredContent"]["results"]


def test_an_unknown_revision_gets_the_newest_with_a_handshake(inline: RunningGateway) -> None:
    handshake = post(inline.endpoint, make_initialize("1999-01-01")).json()["result"]
    assert handshake["protocolVersion"] == HANDSHAKE[0]


def test_a_server_is_discovered_without_a_handshake(carrel: RunningGateway) -> None:
    result = post_modern(carrel.endpoint, "server/discover").json()["result"]
    assert result["supportedVersions"] == [MODERN]
    assert result["capabilities"].keys() == {"tools", "prompts", "resources", "completions"}
    assert result["ttlMs"] == 300_000
    assert result["cacheScope"] == "private"


@pytest.mark.requirement("000-I4", "003-P2")
def test_a_response_is_one_json_object_without_a_session(carrel: RunningGateway) -> None:
    response = post(carrel.endpoint, make_initialize(HANDSHAKE[0]))
    assert response.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in response.headers


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE[0], None])
def test_a_very_deeply_nested_body_is_rejected(inline: RunningGateway, version: str | None) -> None:
    response = post(inline.endpoint, b"[" * 100_000, {"mcp-protocol-version": version})
    assert response.status_code == 400
    assert get_rpc_error(response)["code"] == INVALID_REQUEST
    assert "nested too deeply" in get_rpc_error(response)["message"]


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_another_content_type_is_rejected_with_a_hint(
    inline: RunningGateway, content_type: str | None
) -> None:
    response = post(inline.endpoint, b'{"jsonrpc":"2.0"}', {"content-type": content_type})
    assert response.status_code == 415
    assert "Content-Type: application/json" in get_rpc_error(response)["message"]


def test_a_content_type_may_name_its_charset(inline: RunningGateway) -> None:
    headers: dict[str, str | None] = {"content-type": "application/json; charset=utf-8"}
    assert post(inline.endpoint, PING, headers).status_code == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
def test_another_method_than_post_is_rejected_with_a_hint(
    carrel: RunningGateway, method: str
) -> None:
    headers = {"accept": "text/event-stream"}
    response = httpx2.request(method, carrel.endpoint, headers=headers, timeout=60)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert "add its URL to an MCP client" in get_rpc_error(response)["message"]


@pytest.mark.parametrize("host", ["evil.example", "localhost:1", "127.0.0.1:1"])
def test_another_host_is_rejected(carrel: RunningGateway, host: str) -> None:
    assert post(carrel.endpoint, PING, {"host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", f"{ALLOWED_ORIGIN}.evil.example"]
)
def test_another_origin_is_rejected(carrel: RunningGateway, origin: str) -> None:
    assert post(carrel.endpoint, PING, {"origin": origin}).status_code == 403


def test_own_allowed_and_absent_origins_are_accepted(carrel: RunningGateway) -> None:
    for origin in (carrel.url, ALLOWED_ORIGIN, None):
        assert post(carrel.endpoint, PING, {"origin": origin}).status_code == 200


PROTOCOL_HEADERS = "authorization, last-event-id, mcp-method, mcp-name, mcp-protocol-version"


@pytest.mark.parametrize(("method", "status"), [("POST", 200), ("GET", 405), ("DELETE", 405)])
def test_an_allowed_origin_may_read_the_answer(
    carrel: RunningGateway, method: str, status: int
) -> None:
    """A client in a browser opens a stream and ends its session; only 405 says there is none."""
    headers = {
        "origin": ALLOWED_ORIGIN,
        "access-control-request-method": method,
        "access-control-request-headers": PROTOCOL_HEADERS,
    }
    preflight = httpx2.options(carrel.endpoint, headers=headers)
    assert preflight.status_code == 200
    assert method in preflight.headers["access-control-allow-methods"]
    assert preflight.headers["access-control-allow-headers"] == PROTOCOL_HEADERS
    response = httpx2.request(
        method,
        carrel.endpoint,
        headers={**HEADERS, "origin": ALLOWED_ORIGIN},
        content=json.dumps(PING) if method == "POST" else None,
    )
    assert response.status_code == status
    for answer in (preflight, response):
        assert answer.headers["access-control-allow-origin"] == ALLOWED_ORIGIN


def test_the_case_of_a_host_means_nothing(inline: RunningGateway) -> None:
    host = inline.url.partition("://")[2].replace("127.0.0.1", "LocalHost")
    assert post(inline.endpoint, PING, {"host": host}).status_code == 200


def test_another_origin_may_not_send_a_preflight_request(carrel: RunningGateway) -> None:
    headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    response = httpx2.options(carrel.endpoint, headers=headers)
    assert response.status_code == 400
    assert response.headers.get("access-control-allow-origin") is None
    assert "ALLOWED_ORIGINS" in get_rpc_error(response)["message"]


def test_no_redirect_quotes_a_host(carrel: RunningGateway) -> None:
    response = httpx2.post(f"{carrel.endpoint}/", headers={"host": "evil.example"})
    assert response.status_code in {404, 415}
    assert "location" not in response.headers


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE[0]])
def test_header_values_may_have_white_space_around_them(
    carrel: RunningGateway, version: str
) -> None:
    host = carrel.url.removeprefix("http://")
    headers = {
        **HEADERS,
        "host": host,
        "origin": carrel.url,
        "mcp-protocol-version": version,
        "mcp-method": "tools/call",
        "mcp-name": "get_stats",
    }
    body = make_request("tools/call", name="get_stats", arguments={}, _meta=CLIENT_META)
    connection = HTTPConnection(host, timeout=60)  # httpx2 would remove the white space
    padded_headers = {name: f"\t {value} \t" for name, value in headers.items()}
    connection.request("POST", "/mcp", json.dumps(body), padded_headers)
    response = connection.getresponse()
    message = json.loads(response.read())
    connection.close()
    assert response.status == 200
    assert message["result"]["structuredContent"]


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE[0]])
@pytest.mark.parametrize(("other", "status"), [(None, 200), ("2099-01-01", 400)])
def test_a_proxy_may_join_two_equal_version_headers(
    inline: RunningGateway, version: str, other: str | None, status: int
) -> None:
    headers: dict[str, str | None] = {
        "mcp-protocol-version": f"{version}, {other or version}",
        "mcp-method": "tools/list",
    }
    body = make_request("tools/list", _meta=CLIENT_META)
    assert post(inline.endpoint, body, headers).status_code == status


def test_an_unknown_path_is_not_found(carrel: RunningGateway) -> None:
    assert httpx2.get(f"{carrel.url}/nothing", timeout=60).status_code == 404
