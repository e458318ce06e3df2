"""Requests with `PRIVATE_WORD` in every part that a client controls.

Tests send them, and then check that no log contains the word.
"""

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.support.gateway_process import PRIVATE_WORD, RunningGateway
from tests.support.mcp_wire import (
    HANDSHAKE,
    MODERN,
    make_call,
    make_initialize,
    make_request,
    post,
    post_modern,
)

FORGED_KEY = f"carrel_0123456789ab_{PRIVATE_WORD * 7}"
"""A well-formed access key that was never issued."""
NESTING_DEPTH = 150
"""The depth of nested JSON in a request, close to the accepted maximum."""
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
"""The gateway's paths for sign-in."""
PATHS = (*SIGN_IN_PATHS, "health", "mcp")
"""The paths that the gateway serves."""
FIELDS = (
    *("client_id", "client_secret", "code", "code_verifier", "code_challenge", "state", "ticket"),
    *("redirect_uri", "refresh_token", "token", "scope", "resource", "key", "grant_type"),
    *("response_type", "csrf", "id_token", "error", "error_description"),
)
"""The parameters and form fields of requests to `PATHS`."""


def send_private_word(gateway: RunningGateway) -> str:
    """Send the word in every part of requests, and return the text of all responses."""
    senders = (
        send_calls,
        _call_methods,
        _send_bodies,
        _send_headers,
        _request_addresses,
        _call_functions,
    )
    texts = [response.text for send in senders for response in send(gateway)]
    return "".join([*texts, _send_invalid_http(gateway)])


def send_calls(gateway: RunningGateway) -> Iterator[httpx2.Response]:
    """Send the word in tool calls, valid and invalid ones."""
    endpoint = gateway.endpoint
    response = post(endpoint, make_call("search_kb", {"query": f"the {PRIVATE_WORD}"}))
    yield response
    result = response.json().get("result", {})
    for hit in result.get("structuredContent", {}).get("results", []):
        yield post(endpoint, make_call("get_chunk", {"chunk_id": hit["chunk_id"]}))
    calls: list[tuple[str, Any]] = [
        ("search_kb", {"query": PRIVATE_WORD, PRIVATE_WORD: PRIVATE_WORD}),
        ("search_kb", {"query": PRIVATE_WORD, "idempotency_key": PRIVATE_WORD}),
        ("search_kb", {"query": PRIVATE_WORD * 500}),
        ("search_kb", {"query": {PRIVATE_WORD: PRIVATE_WORD}}),
        ("search_kb", {"query": PRIVATE_WORD, "limit": PRIVATE_WORD}),
        ("search_kb", {"query": PRIVATE_WORD, "cursor": PRIVATE_WORD}),
        ("search_kb", {"query": PRIVATE_WORD, "filters": {PRIVATE_WORD: [PRIVATE_WORD]}}),
        ("search_kb", {"query": PRIVATE_WORD, "filters": {"tags": [PRIVATE_WORD]}}),
        ("search_kb", PRIVATE_WORD),
        ("get_chunk", {"chunk_id": PRIVATE_WORD}),
        ("get_chunk", {"chunk_id": f"{PRIVATE_WORD}/{PRIVATE_WORD}"}),
        ("complete_name", {"kind": PRIVATE_WORD, "prefix": PRIVATE_WORD}),
        ("extract_key_info", {"query": PRIVATE_WORD, "materials": f"The {PRIVATE_WORD}."}),
        ("extract_key_info", {"query": PRIVATE_WORD, "scope": "task", "task_id": PRIVATE_WORD}),
        ("add_task", {"title": PRIVATE_WORD, "description": PRIVATE_WORD}),
        ("update_task", {"task_id": "1", "due_date": PRIVATE_WORD}),
        ("list_tasks", {"query": PRIVATE_WORD, "time_zone": PRIVATE_WORD}),
        (PRIVATE_WORD, {}),
        (PRIVATE_WORD, {PRIVATE_WORD: PRIVATE_WORD}),
    ]
    for name, arguments in calls:
        yield post(endpoint, make_call(name, arguments))
        yield post_modern(endpoint, "tools/call", name=name, arguments=arguments)


def _call_methods(gateway: RunningGateway) -> Iterator[httpx2.Response]:
    prompt = {"type": "ref/prompt"}
    template = {"type": "ref/resource"}
    requests: list[tuple[str, dict[str, Any]]] = [
        ("resources/read", {"uri": f"carrel://chunk/{PRIVATE_WORD}"}),
        (
            "resources/read",
            {"uri": f"{PRIVATE_WORD}://{PRIVATE_WORD}?{PRIVATE_WORD}#{PRIVATE_WORD}"},
        ),
        ("resources/list", {"cursor": PRIVATE_WORD}),
        ("resources/subscribe", {"uri": PRIVATE_WORD}),
        ("tools/list", {"cursor": PRIVATE_WORD}),
        ("prompts/get", {"name": PRIVATE_WORD, "arguments": {PRIVATE_WORD: PRIVATE_WORD}}),
        (
            "prompts/get",
            {
                "name": "explore_topic",
                "arguments": {"topic": PRIVATE_WORD, PRIVATE_WORD: PRIVATE_WORD},
            },
        ),
        ("completion/complete", _make_completion(prompt | {"name": "explore_topic"}, "tag")),
        ("completion/complete", _make_completion(prompt | {"name": PRIVATE_WORD}, PRIVATE_WORD)),
        (
            "completion/complete",
            _make_completion(template | {"uri": "carrel://chunk/{chunk_id}"}, "x"),
        ),
        ("completion/complete", _make_completion(template | {"uri": PRIVATE_WORD}, PRIVATE_WORD)),
        ("logging/setLevel", {"level": PRIVATE_WORD}),
        ("ping", {PRIVATE_WORD: PRIVATE_WORD}),
        (PRIVATE_WORD, {PRIVATE_WORD: PRIVATE_WORD}),
        (f"notifications/{PRIVATE_WORD}", {PRIVATE_WORD: PRIVATE_WORD}),
    ]
    for method, params in requests:
        yield post(gateway.endpoint, make_request(method, **params))
        yield post_modern(gateway.endpoint, method, **params)
        notification = {"jsonrpc": "2.0", "method": method, "params": params}
        yield post(gateway.endpoint, notification)
        yield post(gateway.endpoint, notification, {"mcp-protocol-version": MODERN})
    handshake = make_initialize(HANDSHAKE[0])
    handshake["params"] |= {
        "clientInfo": {"name": PRIVATE_WORD, "version": PRIVATE_WORD, PRIVATE_WORD: PRIVATE_WORD}
    }
    yield post(gateway.endpoint, handshake)
    yield post(gateway.endpoint, make_initialize(PRIVATE_WORD))


def _make_completion(ref: dict[str, str], argument: str) -> dict[str, Any]:
    return {"ref": ref, "argument": {"name": argument, "value": PRIVATE_WORD}}


def _send_bodies(gateway: RunningGateway) -> Iterator[httpx2.Response]:
    bodies: list[bytes] = [
        f'{{"{PRIVATE_WORD}'.encode(),
        f'["{PRIVATE_WORD}"]'.encode(),
        f'"{PRIVATE_WORD}"'.encode(),
        PRIVATE_WORD.encode(),
        PRIVATE_WORD.encode() + b"\xff\xfe",
        f'{{"jsonrpc": "2.0", "method": "{PRIVATE_WORD}"}}'.encode(),
        json.dumps({"jsonrpc": "2.0", "id": PRIVATE_WORD, "method": PRIVATE_WORD}).encode(),
        json.dumps(
            {"jsonrpc": "2.0", "id": PRIVATE_WORD, "result": {PRIVATE_WORD: PRIVATE_WORD}}
        ).encode(),
        json.dumps({"jsonrpc": PRIVATE_WORD, "id": 1, "method": "ping"}).encode(),
        json.dumps([make_request("ping", **{PRIVATE_WORD: PRIVATE_WORD})]).encode(),
        json.dumps(make_request(PRIVATE_WORD, _meta=PRIVATE_WORD)).encode(),
        json.dumps(
            make_request("ping", _meta={"progressToken": PRIVATE_WORD, "traceparent": PRIVATE_WORD})
        ).encode(),
        json.dumps(make_call("search_kb", {"query": "\ud83d" + PRIVATE_WORD})).encode(),
        json.dumps(make_call("search_kb", {PRIVATE_WORD: float("nan")})).encode(),
        f'{{"{PRIVATE_WORD}":{"[" * NESTING_DEPTH}"{PRIVATE_WORD}"{"]" * NESTING_DEPTH}}}'.encode(),
        f'{{"{PRIVATE_WORD}": "{PRIVATE_WORD * 700_000}"}}'.encode(),
    ]
    for body in bodies:
        for version in (MODERN, None):
            yield post(gateway.endpoint, body, {"mcp-protocol-version": version})
    yield post(gateway.endpoint, PRIVATE_WORD.encode(), {"content-type": f"text/{PRIVATE_WORD}"})


def _send_headers(gateway: RunningGateway) -> Iterator[httpx2.Response]:
    fields = [
        ("authorization", f"Bearer {PRIVATE_WORD}"),
        ("authorization", f"Bearer {FORGED_KEY}"),
        ("authorization", f"Bearer {PRIVATE_WORD}@{FORGED_KEY}"),
        ("authorization", f"Basic {PRIVATE_WORD}"),
        ("authorization", f"{PRIVATE_WORD} {PRIVATE_WORD}"),
        ("authorization", f"Bearer eyJhbGciOiJub25lIn0.{PRIVATE_WORD}.{PRIVATE_WORD}"),
        ("x-api-key", PRIVATE_WORD),
        ("x-api-key", FORGED_KEY),
        ("host", f"{PRIVATE_WORD}.example"),
        ("origin", f"https://{PRIVATE_WORD}.example"),
        ("referer", f"https://{PRIVATE_WORD}.example"),
        ("user-agent", PRIVATE_WORD),
        ("cookie", f"{PRIVATE_WORD}={PRIVATE_WORD}"),
        ("x-forwarded-for", PRIVATE_WORD),
        ("forwarded", f"for={PRIVATE_WORD}"),
        ("traceparent", PRIVATE_WORD),
        ("traceparent", f"00-{PRIVATE_WORD}-{PRIVATE_WORD}-01"),
        ("tracestate", f"{PRIVATE_WORD}={PRIVATE_WORD}"),
        ("x-cloud-trace-context", f"{PRIVATE_WORD}/{PRIVATE_WORD};o=1"),
        ("mcp-session-id", PRIVATE_WORD),
        ("mcp-protocol-version", PRIVATE_WORD),
        ("mcp-method", PRIVATE_WORD),
        ("mcp-name", PRIVATE_WORD),
        ("mcp-param-query", PRIVATE_WORD),
        ("last-event-id", PRIVATE_WORD),
        ("accept", f"application/{PRIVATE_WORD}"),
        (f"x-{PRIVATE_WORD}", PRIVATE_WORD),
    ]
    body = make_call("get_stats", {})
    for name, value in fields:
        yield post(gateway.endpoint, body, {name: value})
        yield post_modern(
            gateway.endpoint, "tools/call", {name: value}, name="get_stats", arguments={}
        )


def _request_addresses(gateway: RunningGateway) -> Iterator[httpx2.Response]:
    yield post(f"{gateway.endpoint}?{PRIVATE_WORD}={PRIVATE_WORD}", make_request("ping"))
    yield httpx2.get(f"{gateway.url}/{PRIVATE_WORD}?{PRIVATE_WORD}#{PRIVATE_WORD}")
    fields = dict.fromkeys([*FIELDS, PRIVATE_WORD], PRIVATE_WORD)
    for path in PATHS:
        url = f"{gateway.url}/{path}"
        yield httpx2.get(url, params=fields)
        yield httpx2.post(url, data=fields)
        yield httpx2.post(
            url, json={**fields, "redirect_uris": [f"https://{PRIVATE_WORD}.example/"]}
        )
        yield httpx2.get(
            f"{url}/{PRIVATE_WORD}", headers={"authorization": f"Bearer {PRIVATE_WORD}"}
        )


def _call_functions(gateway: RunningGateway) -> Iterator[httpx2.Response]:
    """Send the word to functions without the gateway."""
    for tool in gateway.tools.values():
        yield httpx2.post(tool.url, content=PRIVATE_WORD, headers={"traceparent": PRIVATE_WORD})
        yield httpx2.post(
            f"{tool.url}/{PRIVATE_WORD}?{PRIVATE_WORD}={PRIVATE_WORD}",
            json={PRIVATE_WORD: PRIVATE_WORD},
        )
        yield httpx2.get(
            f"{tool.url}/{PRIVATE_WORD}",
            headers={f"x-{PRIVATE_WORD}": PRIVATE_WORD, "authorization": PRIVATE_WORD},
        )


def _send_invalid_http(gateway: RunningGateway) -> str:
    """Send bytes that are not valid HTTP, and return the server's answers."""
    answers = []
    address = urlsplit(gateway.url)
    for text in (
        f"{PRIVATE_WORD}\r\n\r\n",
        f"GET /{PRIVATE_WORD} HTTP/1.1\r\n{PRIVATE_WORD}\r\n\r\n",
    ):
        with socket.create_connection((address.hostname, address.port or 80), 5) as connection:
            connection.sendall(text.encode())
            answers.append(connection.recv(65_536).decode("utf-8", "replace"))
    return "".join(answers)
