"""The gateway answers requests with no, invalid, insufficient and valid credentials.

The text before the `@` in a credential names a task, which separates the notes of a user.
"""

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.core.caller import Scope
from tests.support.access import MakeKey
from tests.support.gateway_process import RunningGateway
from tests.support.mcp_wire import (
    HANDSHAKE,
    MODERN,
    make_call,
    make_initialize,
    make_request,
    post,
    post_modern,
)
from tests.support.private_requests import SIGN_IN_PATHS

# The tools of the notebook, which the gateways serve.
PUBLIC_TOOLS = {"read_fortune", "read_sign"}
READ_TOOLS = {"read_notes", *PUBLIC_TOOLS}
ALL_TOOLS = {"write_note", *READ_TOOLS}


def make_headers(credential: str) -> dict[str, str | None]:
    return {"authorization": f"Bearer {credential}"}


def parse_challenge(response: httpx2.Response) -> dict[str, str]:
    """Return the parameters of `WWW-Authenticate`."""
    header = response.headers["www-authenticate"]
    assert header.startswith("Bearer ")
    return dict(re.findall(r'(\w+)="([^"]*)"', header))


def list_tools(gateway: RunningGateway, headers: dict[str, str | None] | None = None) -> set[str]:
    """Return the names of the tools that a caller sees."""
    response = post(gateway.endpoint, make_request("tools/list"), headers)
    return {tool["name"] for tool in response.json()["result"]["tools"]}


def call_tool(
    gateway: RunningGateway, credential: str, tool: str, /, **arguments: Any
) -> dict[str, Any]:
    """Call a tool with a credential and return the result."""
    response = post(gateway.endpoint, make_call(tool, arguments), make_headers(credential))
    result: dict[str, Any] = response.json()["result"]
    return result


@pytest.mark.requirement("002-L4")
@pytest.mark.parametrize("query", ["", "?readonly", "?tools=chatgpt", "?tools=unknown"])
@pytest.mark.parametrize("body", [make_initialize(HANDSHAKE[0]), make_request("tools/list")])
def test_a_request_without_a_credential_learns_where_to_sign_in(
    gateway: RunningGateway, body: dict[str, Any], query: str
) -> None:
    response = post(f"{gateway.endpoint}{query}", body)
    assert response.status_code == 401
    assert parse_challenge(response) == {
        "resource_metadata": f"{gateway.url}/.well-known/oauth-protected-resource/mcp",
        "scope": "carrel:curate carrel:read carrel:write",
    }
    assert "Sign in first" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer nonsense"},
        {"authorization": "Bearer eyJhbGciOiJub25lIn0.e30."},  # a JWT without a signature
        {"authorization": "Basic YTpi"},  # user "a" with password "b"
        {"authorization": "Bearer"},
        {"authorization": "Bearer " + "x" * 6_000},
        {"x-api-key": "nonsense"},
        {"x-api-key": "carrel_0123456789ab_" + "k" * 51},  # has the form of a key
        {"authorization": "Bearer me@carrel_0123456789ab_" + "k" * 51},
    ],
)
def test_an_invalid_credential_is_an_invalid_token_error(
    gateway: RunningGateway, open_gateway: RunningGateway, headers: dict[str, str | None]
) -> None:
    selections = [f"{gateway.endpoint}?{query}" for query in ("readonly", "tools=chatgpt")]
    for endpoint in (gateway.endpoint, open_gateway.endpoint, *selections):
        response = post(endpoint, make_request("tools/list"), headers)
        assert response.status_code == 401
        assert parse_challenge(response)["error"] == "invalid_token"


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=st.text(st.characters(min_codepoint=32, max_codepoint=126)).map(str.strip))
def test_random_authorization_headers_are_unauthorized(gateway: RunningGateway, value: str) -> None:
    response = post(gateway.endpoint, make_request("tools/list"), {"authorization": value})
    assert response.status_code == 401


@pytest.mark.parametrize("name", ["authorization", "x-api-key"])
def test_headers_that_are_not_text_are_unauthorized(gateway: RunningGateway, name: str) -> None:
    response = httpx2.post(
        gateway.endpoint,
        json=make_request("tools/list"),
        headers=[(name.encode(), b"Bearer \xff\xfe\x80")],
    )
    assert response.status_code == 401


@pytest.mark.requirement("002-I2")
def test_a_key_works_in_either_header_and_with_a_task(
    gateway: RunningGateway, make_key: MakeKey
) -> None:
    key = make_key("anna")
    api_key: dict[str, str | None] = {"x-api-key": key}
    for headers in (make_headers(key), api_key, make_headers(f"project-7@{key}")):
        assert list_tools(gateway, headers) == ALL_TOOLS


def test_a_key_in_the_url_is_ignored(gateway: RunningGateway, make_key: MakeKey) -> None:
    key = make_key("anna")
    for name in ("key", "api_key", "access_token", "token"):
        response = post(f"{gateway.endpoint}?{name}={key}", make_request("tools/list"))
        assert response.status_code == 401


@pytest.mark.requirement("003-D9", "003-P4", "003-V6")
def test_only_the_key_decides_the_user(gateway: RunningGateway, make_key: MakeKey) -> None:
    anna, eve = make_key("anna.decides"), make_key("eve.decides")
    call_tool(gateway, anna, "write_note", text="mine")
    for task in ("anna.decides", "users/anna.decides", "../anna.decides"):
        notes = call_tool(gateway, f"{task}@{eve}", "read_notes")
        assert notes["structuredContent"]["texts"] == []
    result = call_tool(gateway, eve, "read_notes", user_id="anna.decides")
    assert result["isError"]


def test_calls_at_once_of_users_with_similar_ids_stay_apart(
    gateway: RunningGateway, make_key: MakeKey
) -> None:
    """All of them use the same idempotency keys and notebooks, some of which resemble ids."""
    keys = {user: make_key(user) for user in ("x", "x.y", "x@y.example", "x+y@y.example")}
    notebooks = ("x.y", "../x", "x/notes")
    callers = list(itertools.product(keys, notebooks))

    def write_and_read(caller: tuple[str, str]) -> list[str]:
        credential, text = f"{caller[1]}@{keys[caller[0]]}", " ".join(caller)
        call_tool(gateway, credential, "write_note", text=text, idempotency_key=caller[1])
        notes = call_tool(gateway, credential, "read_notes")
        return list(notes["structuredContent"]["texts"])

    with ThreadPoolExecutor(len(callers)) as executor:
        assert list(executor.map(write_and_read, callers)) == [[" ".join(c)] for c in callers]


@pytest.mark.parametrize("version", [MODERN, None])
def test_an_insufficient_scope_error_names_all_scopes(
    gateway: RunningGateway, make_key: MakeKey, version: str | None
) -> None:
    key = make_key("reader", scopes=frozenset({Scope.READ}))
    if version:
        response = post_modern(
            gateway.endpoint,
            "tools/call",
            make_headers(key),
            name="write_note",
            arguments={"text": "x"},
        )
    else:
        response = post(gateway.endpoint, make_call("write_note", {"text": "x"}), make_headers(key))
    assert response.status_code == 403
    challenge = parse_challenge(response)
    assert challenge["error"] == "insufficient_scope"
    assert challenge["scope"] == "carrel:read carrel:write"
    assert "needs a credential with the scopes" in response.json()["error"]["message"]
    assert call_tool(gateway, key, "read_notes")["structuredContent"]["texts"] == []


@pytest.mark.parametrize(("tool", "argument"), [("search", "query"), ("fetch", "id")])
def test_a_scope_error_names_chatgpts_own_tool(
    url: str, make_key: MakeKey, tool: str, argument: str
) -> None:
    key = make_key("writer", scopes=frozenset({Scope.WRITE}))
    call = make_call(tool, {argument: "x"})
    response = post(f"{url}/mcp?tools=chatgpt", call, make_headers(key))
    assert response.status_code == 403
    message = response.json()["error"]["message"]
    assert message.startswith(f"{tool} needs a credential with the scopes carrel:read")


def test_an_anonymous_call_with_a_price_must_sign_in(open_gateway: RunningGateway) -> None:
    """The response has status 401, because clients look for sign-in there."""
    response = post(open_gateway.endpoint, make_call("read_fortune", {}))
    assert response.status_code == 401
    assert parse_challenge(response)["scope"] == "carrel:read"
    assert "error" not in parse_challenge(response)
    assert "read_fortune costs $0.001 per call. Sign in first" in response.text


def test_an_unknown_tool_is_unknown_to_every_caller(
    gateway: RunningGateway, open_gateway: RunningGateway, make_key: MakeKey
) -> None:
    body = make_call("invent_note", {})
    for response in (
        post(gateway.endpoint, body, make_headers(make_key("anna"))),
        post(open_gateway.endpoint, body),
    ):
        assert response.status_code == 200
        assert "There is no tool" in response.json()["error"]["message"]


@pytest.mark.parametrize("suffix", ["%0A", "%0D", "%00", "/", "%20", ";x", "%2F", "//"])
def test_no_spelling_of_the_path_bypasses_access_control(
    gateway: RunningGateway, suffix: str
) -> None:
    for method in ("tools/list", "prompts/list", "server/discover"):
        assert post(gateway.endpoint + suffix, make_request(method)).status_code in {401, 404}
    stream = {"accept": "text/event-stream"}
    assert httpx2.get(gateway.endpoint + suffix, headers=stream).status_code in {404, 405}


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded", "via", "x-real-ip"])
def test_a_local_gateway_rejects_forwarded_requests(laptop: RunningGateway, header: str) -> None:
    forwarded: dict[str, str | None] = {header: "8.8.8.8"}
    response = post(laptop.endpoint, make_request("tools/list"), forwarded)
    assert response.status_code == 403
    assert "make run ARGS=--sign-in" in response.json()["error"]["message"]
    assert post(laptop.endpoint, make_request("tools/list")).status_code == 200


@pytest.mark.parametrize("path", SIGN_IN_PATHS)
def test_a_local_gateway_offers_no_sign_in(laptop: RunningGateway, path: str) -> None:
    """Clients that look for a sign-in would open a browser for nothing."""
    for response in (httpx2.get(f"{laptop.url}/{path}"), httpx2.post(f"{laptop.url}/{path}")):
        assert response.status_code == 404
        assert "It needs no sign-in." in response.json()["error"]["message"]


def test_a_local_gateway_rejects_credentials_without_sign_in(
    laptop: RunningGateway, make_key: MakeKey
) -> None:
    unknown = post(laptop.endpoint, make_request("tools/list"), make_headers("carrel_nonsense"))
    key = make_key("reader", scopes=frozenset({Scope.READ}))
    forbidden = post(laptop.endpoint, make_call("write_note", {"text": "x"}), make_headers(key))
    for response in (unknown, forbidden):
        assert response.status_code == 403
        assert "www-authenticate" not in response.headers
    assert "You can leave the credential out" in unknown.json()["error"]["message"]


def test_an_anonymous_body_has_a_lower_limit(
    open_gateway: RunningGateway, make_key: MakeKey
) -> None:
    body = make_request("ping", filler="x" * 100_000)
    response = post(open_gateway.endpoint, body)
    assert response.status_code == 413
    assert response.json()["error"]["message"] == (
        "This request is larger than 65,536 bytes. Sign in to send up to 8,388,608 bytes."
    )
    assert post(open_gateway.endpoint, body, make_headers(make_key("anna"))).status_code == 200
