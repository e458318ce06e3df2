"""A marker word planted in every part of a request that a client controls."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2

from tests.support.gateway_process import MARK
from tests.support.mcp_wire import HANDSHAKE, MODERN, call, initialize, message, post, post_modern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.gateway_process import RunningGateway

FORGED = f"carrel_0123456789ab_{MARK * 7}"
"""An access key that was never issued."""
DEEP = 150
"""A depth of nested JSON that is close to the accepted maximum."""
SIGN_IN_PATHS = (
    "authorize",
    "register",
    "token",
    "revoke",
    "consent",
    "signin/google",
    ".well-known/oauth-authorization-server",
    ".well-known/oauth-authorization-server/mcp",
    ".well-known/oauth-protected-resource",
    ".well-known/oauth-protected-resource/mcp",
)
"""The paths of the gateway's sign-in."""
PATHS = (*SIGN_IN_PATHS, "health", "mcp")
"""The paths that the gateway serves."""
FIELDS = (
    *("client_id", "client_secret", "code", "code_verifier", "code_challenge", "state", "ticket"),
    *("redirect_uri", "refresh_token", "token", "scope", "resource", "key", "grant_type"),
    *("response_type", "csrf", "id_token", "error", "error_description"),
)
"""The parameters and form fields that are sent to these paths."""


def plant(gateway: RunningGateway) -> str:
    """Send the marker in every part of requests, and return the text of all responses."""
    senders = (
        calls,
        _call_methods,
        _send_bodies,
        _send_headers,
        _request_addresses,
        _call_functions,
    )
    texts = [response.text for send in senders for response in send(gateway)]
    return "".join([*texts, _send_invalid_http(gateway)])


def calls(gateway: RunningGateway) -> Iterator[httpx2.Response]:
    """Send the marker in tool calls."""
    endpoint = gateway.endpoint
    response = post(endpoint, call("search_kb", {"query": f"the {MARK}"}))
    yield response
    result = response.json().get("result", {})
    for hit in result.get("structuredContent", {}).get("results", []):
        yield post(endpoint, call("get_chunk", {"chunk_id": hit["chunk_id"]}))
    invalid_calls: list[tuple[str, Any]] = [
        ("search_kb", {"query": MARK, MARK: MARK}),
        ("search_kb", {"query": MARK, "idempotency_key": MARK}),
        ("search_kb", {"query": MARK * 500}),
        ("search_kb", {"query": {MARK: MARK}}),
        ("search_kb", {"query": MARK, "limit": MARK}),
        ("search_kb", {"query": MARK, "cursor": MARK}),
        ("search_kb", {"query": MARK, "filters": {MARK: [MARK]}}),
        ("search_kb", {"query": MARK, "filters": {"tags": [MARK]}}),
        ("search_kb", MARK),
        ("get_chunk", {"chunk_id": MARK}),
        ("get_chunk", {"chunk_id": f"{MARK}/{MARK}"}),
        ("complete_name", {"kind": MARK, "prefix": MARK}),
        (MARK, {}),
        (MARK, {MARK: MARK}),
    ]
    for name, arguments in invalid_calls:
        yield post(endpoint, call(name, arguments))
        yield post_modern(endpoint, "tools/call", name=name, arguments=arguments)


def _call_methods(gateway: RunningGateway) -> Iterator[httpx2.Response]:
    prompt = {"type": "ref/prompt"}
    template = {"type": "ref/resource"}
    requests: list[tuple[str, dict[str, Any]]] = [
        ("resources/read", {"uri": f"carrel://chunk/{MARK}"}),
        ("resources/read", {"uri": f"{MARK}://{MARK}?{MARK}#{MARK}"}),
        ("resources/list", {"cursor": MARK}),
        ("resources/subscribe", {"uri": MARK}),
        ("tools/list", {"cursor": MARK}),
        ("prompts/get", {"name": MARK, "arguments": {MARK: MARK}}),
        ("prompts/get", {"name": "explore_topic", "arguments": {"topic": MARK, MARK: MARK}}),
        ("completion/complete", _make_completion(prompt | {"name": "explore_topic"}, "tag")),
        ("completion/complete", _make_completion(prompt | {"name": MARK}, MARK)),
        (
            "completion/complete",
            _make_completion(template | {"uri": "carrel://chunk/{chunk_id}"}, "x"),
        ),
        ("completion/complete", _make_completion(template | {"uri": MARK}, MARK)),
        ("logging/setLevel", {"level": MARK}),
        ("ping", {MARK: MARK}),
        (MARK, {MARK: MARK}),
        (f"notifications/{MARK}", {MARK: MARK}),
    ]
    for method, params in requests:
        yield post(gateway.endpoint, message(method, **params))
        yield post_modern(gateway.endpoint, method, **params)
        notification = {"jsonrpc": "2.0", "method": method, "params": params}
        yield post(gateway.endpoint, notification)
        yield post(gateway.endpoint, notification, {"mcp-protocol-version": MODERN})
    handshake = initialize(HANDSHAKE[0])
    handshake["params"] |= {"clientInfo": {"name": MARK, "version": MARK, MARK: MARK}}
    yield post(gateway.endpoint, handshake)
    yield post(gateway.endpoint, initialize(MARK))


def _make_completion(ref: dict[str, str], argument: str) -> dict[str, Any]:
    return {"ref": ref, "argument": {"name": argument, "value": MARK}}


def _send_bodies(gateway: RunningGateway) -> Iterator[httpx2.Response]:
    bodies: list[bytes] = [
        f'{{"{MARK}'.encode(),
        f'["{MARK}"]'.encode(),
        f'"{MARK}"'.encode(),
        MARK.encode(),
        MARK.encode() + b"\xff\xfe",
        f'{{"jsonrpc": "2.0", "method": "{MARK}"}}'.encode(),
        json.dumps({"jsonrpc": "2.0", "id": MARK, "method": MARK}).encode(),
        json.dumps({"jsonrpc": "2.0", "id": MARK, "result": {MARK: MARK}}).encode(),
        json.dumps({"jsonrpc": MARK, "id": 1, "method": "ping"}).encode(),
        json.dumps([message("ping", **{MARK: MARK})]).encode(),
        json.dumps(message(MARK, _meta=MARK)).encode(),
        json.dumps(message("ping", _meta={"progressToken": MARK, "traceparent": MARK})).encode(),
        json.dumps(call("search_kb", {"query": "\ud83d" + MARK})).encode(),
        json.dumps(call("search_kb", {MARK: float("nan")})).encode(),
        f'{{"{MARK}":{"[" * DEEP}"{MARK}"{"]" * DEEP}}}'.encode(),
        f'{{"{MARK}": "{MARK * 700_000}"}}'.encode(),
    ]
    for body in bodies:
        for version in (MODERN, None):
            yield post(gateway.endpoint, body, {"mcp-protocol-version": version})
    yield post(gateway.endpoint, MARK.encode(), {"content-type": f"text/{MARK}"})


def _send_headers(gateway: RunningGateway) -> Iterator[httpx2.Response]:
    fields = [
        ("authorization", f"Bearer {MARK}"),
        ("authorization", f"Bearer {FORGED}"),
        ("authorization", f"Bearer {MARK}@{FORGED}"),
        ("authorization", f"Basic {MARK}"),
        ("authorization", f"{MARK} {MARK}"),
        ("authorization", f"Bearer eyJhbGciOiJub25lIn0.{MARK}.{MARK}"),
        ("x-api-key", MARK),
        ("x-api-key", FORGED),
        ("host", f"{MARK}.example"),
        ("origin", f"https://{MARK}.example"),
        ("referer", f"https://{MARK}.example"),
        ("user-agent", MARK),
        ("cookie", f"{MARK}={MARK}"),
        ("x-forwarded-for", MARK),
        ("forwarded", f"for={MARK}"),
        ("traceparent", MARK),
        ("traceparent", f"00-{MARK}-{MARK}-01"),
        ("tracestate", f"{MARK}={MARK}"),
        ("x-cloud-trace-context", f"{MARK}/{MARK};o=1"),
        ("mcp-session-id", MARK),
        ("mcp-protocol-version", MARK),
        ("mcp-method", MARK),
        ("mcp-name", MARK),
        ("mcp-param-query", MARK),
        ("last-event-id", MARK),
        ("accept", f"application/{MARK}"),
        (f"x-{MARK}", MARK),
    ]
    body = call("get_stats", {})
    for name, value in fields:
        yield post(gateway.endpoint, body, {name: value})
        yield post_modern(
            gateway.endpoint, "tools/call", {name: value}, name="get_stats", arguments={}
        )


def _request_addresses(gateway: RunningGateway) -> Iterator[httpx2.Response]:
    yield post(f"{gateway.endpoint}?{MARK}={MARK}", message("ping"))
    yield httpx2.get(f"{gateway.url}/{MARK}?{MARK}#{MARK}")
    fields = dict.fromkeys([*FIELDS, MARK], MARK)
    for path in PATHS:
        url = f"{gateway.url}/{path}"
        yield httpx2.get(url, params=fields)
        yield httpx2.post(url, data=fields)
        yield httpx2.post(url, json={**fields, "redirect_uris": [f"https://{MARK}.example/"]})
        yield httpx2.get(f"{url}/{MARK}", headers={"authorization": f"Bearer {MARK}"})


def _call_functions(gateway: RunningGateway) -> Iterator[httpx2.Response]:
    """Send the marker to functions without the gateway."""
    for tool in gateway.tools.values():
        yield httpx2.post(tool.url, content=MARK, headers={"traceparent": MARK})
        yield httpx2.post(f"{tool.url}/{MARK}?{MARK}={MARK}", json={MARK: MARK})
        yield httpx2.get(f"{tool.url}/{MARK}", headers={f"x-{MARK}": MARK, "authorization": MARK})


def _send_invalid_http(gateway: RunningGateway) -> str:
    """Send bytes that are not valid HTTP, and return the server's answers."""
    answers = []
    address = urlsplit(gateway.url)
    for text in (f"{MARK}\r\n\r\n", f"GET /{MARK} HTTP/1.1\r\n{MARK}\r\n\r\n"):
        with socket.create_connection((address.hostname, address.port or 80), 5) as connection:
            connection.sendall(text.encode())
            answers.append(connection.recv(65_536).decode("utf-8", "replace"))
    return "".join(answers)
