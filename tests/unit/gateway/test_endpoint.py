"""The MCP endpoint answers as the SDK's own app does, and says what to do about an error.

In the modern revision, each request has an envelope: `params._meta` with the revision and the
capabilities of the client. The headers of the request must agree with it. In the older revisions,
a handshake begins each session.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
import pytest
from mcp.server.lowlevel import Server
from mcp_types import INTERNAL_ERROR
from pydantic import TypeAdapter
from starlette.types import ASGIApp

from functions.gateway.mcp.endpoint import McpEndpoint
from functions.gateway.mcp.prompts import Prompt
from functions.gateway.mcp.server import build_server
from shared.core.errors import INTERNAL_ERROR_MESSAGE
from tests.support.fake_catalog import CATALOG, FakeDispatcher, make_pipeline
from tests.support.mcp_wire import (
    CLIENT_META,
    HANDSHAKE,
    HEADERS,
    MODERN,
    SECURITY,
    make_headers,
    make_initialize,
    make_request,
    post_content,
    post_to,
)

PRIVATE_TEXT: Final = "what-nobody-may-read"
PROMPT: Final = Prompt(
    name="greet", title="Greet", description="Greets.", arguments=(), text=lambda _: "Hello."
)
REQUESTS: Final[dict[str, dict[str, Any]]] = {
    "tools": make_request("tools/list"),
    "a call": make_request("tools/call", name="get_book", arguments={"book_id": "über"}),
    "an unknown tool": make_request("tools/call", name="nope", arguments={}),
    "no name": make_request("tools/call", arguments={}),
    "a name of a wrong type": make_request("tools/call", name=5),
    "arguments of a wrong type": make_request("tools/call", name="get_book", arguments=[1]),
    "prompts": make_request("prompts/list"),
    "a prompt": make_request("prompts/get", name="greet"),
    "an unknown prompt": make_request("prompts/get", name="nope"),
    "resources": make_request("resources/list"),
    "a wrong cursor": make_request("resources/list", cursor="nope"),
    "templates": make_request("resources/templates/list"),
    "a resource": make_request("resources/read", uri="carrel://book/b"),
    "an unknown resource": make_request("resources/read", uri="carrel://nope/b"),
    "completion": make_request(
        "completion/complete",
        ref={"type": "ref/prompt", "name": "greet"},
        argument={"name": "none", "value": ""},
    ),
    "discovery": make_request("server/discover"),
    "a handshake": make_initialize(HANDSHAKE[0]),
    "ping": make_request("ping"),
    "a subscription": make_request("resources/subscribe", uri="carrel://book/b"),
    "an unknown method": make_request("tools/invent"),
    "an id that is a string": make_request("tools/list") | {"id": "a"},
    "an empty id": make_request("tools/list") | {"id": ""},
    "a field of later versions": make_request("tools/list") | {"later": 1},
    "a result beside the method": make_request("tools/list") | {"result": {}},
    "a notification": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}},
    "a response": {"jsonrpc": "2.0", "id": 1, "result": {}},
    "an error": {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "m"}},
}
"""Messages of valid JSON-RPC, also with unknown methods or wrong parameters."""
INVALID_MESSAGES: Final[dict[str, Any]] = {
    "a batch": [make_request("tools/list")],
    "null": None,
    "no version": {"id": 1, "method": "tools/list"},
    "no id": make_request("tools/list") | {"id": None},
    "an id of a wrong type": make_request("tools/list") | {"id": 1.5},
    "an id that is true": make_request("tools/list") | {"id": True},
    "a method of a wrong type": make_request("tools/list") | {"method": 5},
    "params of a wrong type": make_request("tools/list") | {"params": [1]},
    "no method": {"jsonrpc": "2.0", "id": 1},
    "a notification with wrong params": {"jsonrpc": "2.0", "method": "m", "params": 5},
    "an error without an id": {"jsonrpc": "2.0", "error": {"code": 1, "message": "m"}},
}
"""JSON values that are not valid JSON-RPC."""
VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LIST_HEADERS: Final = {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"}
CALL_HEADERS: Final = {
    "mcp-protocol-version": MODERN,
    "mcp-method": "tools/call",
    "mcp-name": "get_book",
}
LISTING: Final = make_request("tools/list", _meta=CLIENT_META)
CALL: Final = make_request("tools/call", name="get_book", _meta=CLIENT_META)
OTHER_VERSION: Final = CLIENT_META | {VERSION_KEY: "2099-01-01"}
VERSION: Final = ("mcp-protocol-version", MODERN)
INVALID_ENVELOPES: Final[dict[str, tuple[dict[str, Any], list[tuple[str, str]]]]] = {
    "no method header": (LISTING, [VERSION]),
    "another method header": (LISTING | {"method": "prompts/list"}, [*LIST_HEADERS.items()]),
    "two method headers": (LISTING, [*LIST_HEADERS.items(), ("mcp-method", "tools/list")]),
    "two versions": (LISTING, [*LIST_HEADERS.items(), VERSION]),
    "no name header": (CALL, [VERSION, ("mcp-method", "tools/call")]),
    "another name header": (
        CALL,
        [*(CALL_HEADERS | {"mcp-name": "get_shelf"}).items()],
    ),
    "a name header in wrong base64": (
        CALL,
        [*(CALL_HEADERS | {"mcp-name": "=?base64?%?="}).items()],
    ),
    "no envelope": (make_request("tools/list"), [*LIST_HEADERS.items()]),
    "no params": ({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, [*LIST_HEADERS.items()]),
    **{
        name: (make_request("tools/list", _meta=meta), [*LIST_HEADERS.items()])
        for name, meta in {
            "an envelope of a wrong type": 5,
            "no version in the envelope": {CAPABILITIES_KEY: {}},
            "no capabilities": {VERSION_KEY: MODERN},
            "another version in the envelope": OTHER_VERSION,
        }.items()
    },
    "an unknown version": (
        make_request("tools/list", _meta=OTHER_VERSION),
        [*(LIST_HEADERS | {"mcp-protocol-version": "2099-01-01"}).items()],
    ),
    "an unknown version without an envelope": (
        make_request("tools/list"),
        [("mcp-protocol-version", "2099-01-01")],
    ),
    "an empty version": (make_request("tools/list"), [("mcp-protocol-version", "")]),
    "a notification of an unknown version": (
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        [("mcp-protocol-version", "2099-01-01")],
    ),
}
"""The body and the headers of requests whose envelope is invalid or differs from the headers."""


def make_server(prompt: Prompt = PROMPT) -> Server[Any]:
    """Make a server whose tools return their arguments."""
    dispatcher = FakeDispatcher(lambda _, arguments: {"arguments": arguments})
    return build_server(CATALOG, make_pipeline(dispatcher), [prompt])


def make_endpoint(prompt: Prompt = PROMPT) -> McpEndpoint:
    """Make an endpoint with that server at all addresses."""
    server = make_server(prompt)
    return McpEndpoint(lambda _query: server, SECURITY)


@asynccontextmanager
async def open_sdk_app() -> AsyncIterator[ASGIApp]:
    """Open the SDK's own app for the same server."""
    app = make_server().streamable_http_app(
        stateless_http=True, json_response=True, transport_security=SECURITY
    )
    async with app.router.lifespan_context(app):
        yield app


async def post_to_both(
    body: object, headers: list[tuple[str, str]]
) -> tuple[httpx2.Response, httpx2.Response]:
    """Post a message to the endpoint and to the SDK's app; return both responses."""
    endpoint = make_endpoint()
    async with open_sdk_app() as app:
        return await post_to(endpoint, body, headers), await post_to(app, body, headers)


def get_rpc_error(response: httpx2.Response) -> dict[str, Any]:
    """Return the JSON-RPC error of a response."""
    return dict(response.json()["error"])


def read_comparable_body(response: httpx2.Response) -> object:
    """Return the body of a response without the words of an error."""
    if not response.content:
        return None
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    if "error" in body:
        body["error"] = {"code": body["error"]["code"], "data": body["error"].get("data") or None}
    return body


@pytest.mark.requirement("000-I4")
@pytest.mark.parametrize("version", [MODERN, *HANDSHAKE])
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_message_gets_the_same_answer_as_from_the_sdk(name: str, version: str) -> None:
    body = REQUESTS[name]
    if version == MODERN and "params" in body:
        body = body | {"params": body["params"] | {"_meta": CLIENT_META}}
    response, sdk_response = await post_to_both(body, make_headers(body, version))
    assert response.status_code == sdk_response.status_code
    assert read_comparable_body(response) == read_comparable_body(sdk_response)


@pytest.mark.parametrize("name", INVALID_MESSAGES)
async def test_an_invalid_message_has_the_error_code_of_the_sdk(name: str) -> None:
    response, sdk_response = await post_to_both(INVALID_MESSAGES[name], [*LIST_HEADERS.items()])
    assert response.status_code == 400
    assert sdk_response.status_code == 400
    assert get_rpc_error(response)["code"] == get_rpc_error(sdk_response)["code"]
    assert "Send one object" in get_rpc_error(response)["message"]


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE[0]])
@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"a": 1,}'])
async def test_invalid_json_has_the_error_code_of_the_sdk(body: bytes, version: str) -> None:
    response, sdk_response = await post_to_both(body, [("mcp-protocol-version", version)])
    assert response.status_code == 400
    assert sdk_response.status_code == 400
    assert get_rpc_error(response)["code"] == get_rpc_error(sdk_response)["code"]
    assert get_rpc_error(response)["message"].endswith("Correct it and send it again.")


@pytest.mark.parametrize("name", INVALID_ENVELOPES)
async def test_an_invalid_envelope_has_the_sdks_error_and_advice(name: str) -> None:
    body, headers = INVALID_ENVELOPES[name]
    response, sdk_response = await post_to_both(body, headers)
    expected = get_rpc_error(sdk_response)
    assert response.status_code == sdk_response.status_code == 400
    assert response.json()["id"] == sdk_response.json()["id"]
    assert get_rpc_error(response)["code"] == expected["code"]
    assert get_rpc_error(response).get("data") == expected.get("data")
    assert get_rpc_error(response)["message"].startswith(f"{expected['message']}. ")
    assert get_rpc_error(response)["message"].endswith(".")


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE[0]])
@pytest.mark.parametrize(
    ("header", "status", "advice"),
    [
        ({"accept": "text/html"}, 406, "Send the header Accept"),
        ({"host": "evil.example"}, 421, "Use the URL"),
        ({"origin": "https://evil.example"}, 403, "ALLOWED_ORIGINS"),
    ],
)
async def test_a_wrong_header_has_the_status_of_the_sdk(
    version: str, header: dict[str, str], status: int, advice: str
) -> None:
    content = json.dumps(make_request("tools/list", _meta=CLIENT_META)).encode()
    request_headers = [
        *(HEADERS | dict(make_headers(make_request("tools/list"), version)) | header).items()
    ]
    async with open_sdk_app() as app:
        sdk_response = await post_content(app, content, request_headers)
    response = await post_content(make_endpoint(), content, request_headers)

    assert response.status_code == status
    assert sdk_response.status_code == status
    assert advice in get_rpc_error(response)["message"]


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE[0]])
@pytest.mark.parametrize(
    "fault",
    [
        lambda _: str(int(PRIVATE_TEXT)),
        lambda _: str(TypeAdapter(int).validate_python(PRIVATE_TEXT)),
    ],
    ids=["ValueError", "ValidationError"],
)
async def test_an_error_in_a_handler_is_an_internal_error(
    fault: Any, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt = Prompt(name="greet", title="Greet", description="Greets.", arguments=(), text=fault)
    body = make_request("prompts/get", name="greet", _meta=CLIENT_META)
    endpoint = make_endpoint(prompt)
    response = await post_to(endpoint, body, make_headers(body, version))
    [line] = [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    assert response.status_code == 200
    assert response.json()["id"] == 1
    assert get_rpc_error(response) == {"code": INTERNAL_ERROR, "message": INTERNAL_ERROR_MESSAGE}
    assert line["message"] == "fault"
    assert line["method"] == "prompts/get"
    assert PRIVATE_TEXT not in json.dumps(line)


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE[0]])
async def test_invalid_parameters_are_named(version: str) -> None:
    body = make_request("tools/call", arguments={}, _meta=CLIENT_META)
    response = await post_to(make_endpoint(), body, make_headers(body, version))
    problem = "tools/call was not run. params.name: Field required."
    assert get_rpc_error(response)["message"] == f"{problem} Correct this and send it again."
