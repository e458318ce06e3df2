"""Who is let in: what clients see that bring nothing, the wrong thing, or too little."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.core.caller import Scope, with_implied_scopes
from tests.support.mcp_wire import HANDSHAKE, MODERN, call, initialize, message, post, post_modern
from tests.support.planted_words import SIGN_IN_PATHS

if TYPE_CHECKING:
    from tests.e2e.access.conftest import MakeKey
    from tests.support.gateway_process import Running

PUBLIC = {"read_fortune", "read_sign"}
READING = {"read_notes", *PUBLIC}
ALL = {"write_note", *READING}


def bearer(key: str) -> dict[str, str | None]:
    return {"authorization": f"Bearer {key}"}


def challenge(response: httpx2.Response) -> dict[str, str]:
    """The parameters of `WWW-Authenticate`."""
    header = response.headers["www-authenticate"]
    assert header.startswith("Bearer ")
    return dict(re.findall(r'(\w+)="([^"]*)"', header))


def tools(running: Running, headers: dict[str, str | None] | None = None) -> set[str]:
    listed = post(running.endpoint, message("tools/list"), headers).json()["result"]["tools"]
    return {tool["name"] for tool in listed}


def called(running: Running, key: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """The result of a call with a key."""
    result: dict[str, Any] = post(running.endpoint, call(tool, arguments), bearer(key)).json()[
        "result"
    ]
    return result


@pytest.mark.parametrize("body", [initialize(HANDSHAKE[0]), message("tools/list")])
def test_without_a_credential_one_is_told_where_to_sign_in(
    gateway: Running, body: dict[str, Any]
) -> None:
    response = post(gateway.endpoint, body)
    assert response.status_code == 401
    assert challenge(response) == {
        "resource_metadata": f"{gateway.url}/.well-known/oauth-protected-resource/mcp",
        "scope": "carrel:read carrel:write",
    }
    assert "Sign in first" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer nonsense"},
        {"authorization": "Bearer eyJhbGciOiJub25lIn0.e30."},
        {"authorization": "Basic YTpi"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer " + "x" * 6_000},
        {"x-api-key": "nonsense"},
        {"x-api-key": "carrel_0123456789ab_" + "k" * 51},
        {"authorization": "Bearer me@carrel_0123456789ab_" + "k" * 51},
    ],
)
def test_an_invalid_credential_is_an_invalid_token_error(
    gateway: Running, open_gateway: Running, headers: dict[str, str | None]
) -> None:
    for running in (gateway, open_gateway):
        response = post(running.endpoint, message("tools/list"), headers)
        assert response.status_code == 401
        assert challenge(response)["error"] == "invalid_token"


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=st.text(st.characters(min_codepoint=32, max_codepoint=126)).map(str.strip))
def test_no_authorization_header_breaks_the_gateway(gateway: Running, value: str) -> None:
    response = post(gateway.endpoint, message("tools/list"), {"authorization": value})
    assert response.status_code == 401


@pytest.mark.parametrize("name", ["authorization", "x-api-key"])
def test_bytes_that_are_no_text_do_not_break_the_gateway(gateway: Running, name: str) -> None:
    response = httpx2.post(
        gateway.endpoint,
        json=message("tools/list"),
        headers=[(name.encode(), b"Bearer \xff\xfe\x80")],
    )
    assert response.status_code == 401


def test_a_key_works_in_either_header_and_with_a_task(gateway: Running, make_key: MakeKey) -> None:
    key = make_key("anna")
    api_key: dict[str, str | None] = {"x-api-key": key}
    for headers in (bearer(key), api_key, bearer(f"project-7@{key}")):
        assert tools(gateway, headers) == ALL


def test_a_key_in_the_url_opens_nothing(gateway: Running, make_key: MakeKey) -> None:
    key = make_key("anna")
    for name in ("key", "api_key", "access_token", "token"):
        response = post(f"{gateway.endpoint}?{name}={key}", message("tools/list"))
        assert response.status_code == 401


def test_a_task_keeps_its_notes_apart(gateway: Running, make_key: MakeKey) -> None:
    key = make_key("tasks")
    for task in ("one", "two"):
        called(gateway, f"{task}@{key}", "write_note", text=task)
    notes = called(gateway, f"one@{key}", "read_notes")
    assert notes["structuredContent"]["texts"] == ["one"]


def test_the_key_decides_the_user_and_no_argument_does(gateway: Running, make_key: MakeKey) -> None:
    anna, eve = make_key("anna.decides"), make_key("eve.decides")
    called(gateway, anna, "write_note", text="mine")
    for identity in ("anna.decides", "users/anna.decides", "../anna.decides"):
        notes = called(gateway, f"{identity}@{eve}", "read_notes")
        assert notes["structuredContent"]["texts"] == []
    refused = called(gateway, eve, "read_notes", user_id="anna.decides")
    assert refused["isError"]


def test_a_key_that_may_not_write_sees_no_tool_that_writes(
    gateway: Running, make_key: MakeKey
) -> None:
    key = make_key("reader", scopes=frozenset({Scope.READ}))
    assert tools(gateway, bearer(key)) == READING


@pytest.mark.parametrize("version", [MODERN, None])
def test_a_tool_that_needs_more_names_all_scopes_it_needs(
    gateway: Running, make_key: MakeKey, version: str | None
) -> None:
    key = make_key("reader", scopes=frozenset({Scope.READ}))
    if version:
        response = post_modern(
            gateway.endpoint, "tools/call", bearer(key), name="write_note", arguments={"text": "x"}
        )
    else:
        response = post(gateway.endpoint, call("write_note", {"text": "x"}), bearer(key))
    assert response.status_code == 403
    header = challenge(response)
    assert header["error"] == "insufficient_scope"
    assert header["scope"] == "carrel:read carrel:write"
    assert "needs a credential with the scopes" in response.json()["error"]["message"]
    assert called(gateway, key, "read_notes")["structuredContent"]["texts"] == []


def test_a_stranger_sees_and_calls_what_is_public(open_gateway: Running) -> None:
    assert tools(open_gateway) == PUBLIC
    result = post(open_gateway.endpoint, call("read_sign", {})).json()["result"]
    assert result["structuredContent"]["texts"] == ["Welcome."]


@pytest.mark.parametrize("tool", ["read_notes", "write_note"])
def test_a_stranger_who_guesses_a_name_is_told_to_sign_in(open_gateway: Running, tool: str) -> None:
    response = post(open_gateway.endpoint, call(tool, {"text": "x"}))
    assert response.status_code == 401
    assert "error" not in challenge(response)
    assert response.json()["error"]["message"] == f"Sign in to call {tool}."


def test_a_stranger_who_calls_what_costs_learns_where_to_sign_in(open_gateway: Running) -> None:
    """By HTTP, which is where clients look for it."""
    response = post(open_gateway.endpoint, call("read_fortune", {}))
    assert response.status_code == 401
    assert challenge(response)["scope"] == "carrel:read"
    assert "error" not in challenge(response)
    assert "read_fortune costs $0.001 per call. Sign in first" in response.text


def test_a_name_that_nobody_knows_is_no_tool_for_anybody(
    gateway: Running, open_gateway: Running, make_key: MakeKey
) -> None:
    body = call("invent_note", {})
    for response in (
        post(gateway.endpoint, body, bearer(make_key("anna"))),
        post(open_gateway.endpoint, body),
    ):
        assert response.status_code == 200
        assert "There is no tool" in response.json()["error"]["message"]


def test_what_is_beside_the_endpoint_needs_no_credential(gateway: Running) -> None:
    assert httpx2.get(f"{gateway.url}/health").status_code == 200
    assert httpx2.get(f"{gateway.url}/nothing").status_code == 404


@pytest.mark.parametrize("ending", ["%0A", "%0D", "%00", "/", "%20", ";x", "%2F", "//"])
def test_no_other_spelling_of_its_address_goes_past_the_guards(
    gateway: Running, ending: str
) -> None:
    for method in ("tools/list", "prompts/list", "server/discover"):
        assert post(gateway.endpoint + ending, message(method)).status_code in {401, 404}
    stream = {"accept": "text/event-stream"}
    assert httpx2.get(gateway.endpoint + ending, headers=stream).status_code in {404, 405}


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-real-ip"])
def test_on_a_laptop_what_came_through_a_proxy_must_sign_in(laptop: Running, header: str) -> None:
    through: dict[str, str | None] = {header: "8.8.8.8"}
    refused = post(laptop.endpoint, message("tools/list"), through)
    assert refused.status_code == 403
    assert "make run ARGS=--sign-in" in refused.json()["error"]["message"]
    assert post(laptop.endpoint, message("tools/list")).status_code == 200


@pytest.mark.parametrize("path", SIGN_IN_PATHS)
def test_on_a_laptop_nothing_offers_a_sign_in(laptop: Running, path: str) -> None:
    """Clients that probe for one would open a browser for nothing."""
    for answer in (httpx2.get(f"{laptop.url}/{path}"), httpx2.post(f"{laptop.url}/{path}")):
        assert answer.status_code == 404
        assert "It needs no sign-in." in answer.json()["error"]["message"]


def test_on_a_laptop_a_bad_credential_starts_no_sign_in(laptop: Running, make_key: MakeKey) -> None:
    unknown = post(laptop.endpoint, message("tools/list"), bearer("carrel_nonsense"))
    key = make_key("reader", scopes=frozenset({Scope.READ}))
    writing = post(laptop.endpoint, call("write_note", {"text": "x"}), bearer(key))
    for refused in (unknown, writing):
        assert refused.status_code == 403
        assert "www-authenticate" not in refused.headers
    assert "You can leave the credential out" in unknown.json()["error"]["message"]


def test_a_strangers_body_is_small(open_gateway: Running, make_key: MakeKey) -> None:
    large = message("ping", filler="x" * 100_000)
    refused = post(open_gateway.endpoint, large)
    assert refused.status_code == 413
    assert refused.json()["error"]["message"] == (
        "This request is larger than 65,536 bytes. Sign in to send up to 8,388,608."
    )
    assert post(open_gateway.endpoint, large, bearer(make_key("anna"))).status_code == 200


def test_who_may_write_may_read(gateway: Running, make_key: MakeKey) -> None:
    key = make_key("writer", scopes=with_implied_scopes(frozenset({Scope.WRITE})))
    assert tools(gateway, bearer(key)) == ALL


def test_a_page_of_any_origin_may_learn_how_to_sign_in(gateway: Running) -> None:
    for path, method in (
        ("/.well-known/oauth-protected-resource/mcp", "GET"),
        ("/.well-known/oauth-authorization-server", "GET"),
        ("/register", "POST"),
        ("/token", "POST"),
    ):
        asked = {
            "origin": "https://inspector.example",
            "access-control-request-method": method,
            "access-control-request-headers": "mcp-protocol-version",
        }
        answer = httpx2.options(f"{gateway.url}{path}", headers=asked)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"
