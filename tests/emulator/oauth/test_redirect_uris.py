"""Every endpoint accepts the same redirect URIs, to which codes may be sent, and rejects others."""

import json

import pytest

from functions.gateway.oauth.client_id_metadata import parse_client
from functions.gateway.oauth.redirect_uris import Destination, is_registered, parse_redirect_uri
from shared.core.errors import InvalidInput
from shared.core.public_url import DocumentRejected
from tests.support.authorization_server import REDIRECT_URI, AuthorizationServer
from tests.support.public_web_server import DOCUMENT_URL

SAFE = [
    # sites
    *("https://claude.ai/api/mcp/auth_callback", "https://program.example"),
    *("https://app.example:8443/back?x=1", "https://xn--pple-43d.example/"),
    "https://[2001:db8::1]:8443/back",
    # programs on this computer
    *("http://localhost/callback", "http://localhost:3000", "http://[::1]:1/"),
    "http://127.0.0.1:6274/oauth/callback",
    # apps
    "cursor://anysphere.cursor-mcp/oauth/callback",
    "vscode://vscode.github-authentication/did-authenticate",
    "com.example.app:/oauth",
]
UNSAFE = [
    # no TLS
    *("http://program.example/back", "http://localhost.evil.example/", "http://10.0.0.1/"),
    # hosts that are none
    *("https://a_b.com/", "https://evil.example%2f.claude.example/"),
    # schemes that run code, or that programs of the system answer
    *("javascript:alert(1)", "JavaScript://x/%0aalert(1)", "java\nscript:alert(1)"),
    *("data:text/html,x", "file:///etc/passwd", "blob:https://program.example/1"),
    *("vbscript:x", "about:blank", "ws://localhost/", "wss://program.example/", "ms-msdt:/id"),
    *("mailto:eve@evil.example", "ssh://host/x", "shell:startup", "web+evil://x"),
    # fragments and user names
    *("https://program.example/#fragment", "cursor://x/y#fragment"),
    *("https://user@program.example/", "http://localhost@evil.example/", "cursor://user:pass@x/y"),
    # apps' addresses that no parser agrees on, or that are too long
    *("cursor://x:port/y", "cursor://[x/y", "cursor://x/100%"),
    *(f"https://program.example/{'a' * 2_000}", f"cursor://x/{'a' * 2_000}"),
    "/back",
]
MALFORMED = [
    *("http://@localhost/callback", "https:///back", "https:back", "//app.example/back", ""),
    *("https://app.example\\@evil.example/", "https://app.example/ back"),
    *("https://app.example/back\n", "https://a\r\nset-cookie:b"),
    "https://evil.example; script-src *",
    *("https://app.example:port/back", "https://app.example:65536/back"),
    *("https://[::1/back", "https://[v1.x:y]/back"),
    "https://*.example.com\N{FULLWIDTH SOLIDUS}back",
]
"""URIs that are unsafe, too. The SDK changes some of them before a registration is checked."""


@pytest.mark.parametrize("uri", SAFE)
def test_sites_loopback_addresses_and_apps_are_accepted(uri: str) -> None:
    assert parse_redirect_uri(uri)


@pytest.mark.parametrize("uri", [*UNSAFE, *MALFORMED])
def test_unsafe_and_malformed_uris_are_rejected(uri: str) -> None:
    assert not parse_redirect_uri(uri)


async def test_safe_uris_can_be_registered_published_and_shown(server: AuthorizationServer) -> None:
    for uris in (SAFE[:10], SAFE[10:]):  # a client registers at most ten
        client = await server.register(redirect_uris=uris)
        assert uris == [str(uri) for uri in client.redirect_uris or []]
    document = {"client_id": DOCUMENT_URL, "redirect_uris": SAFE}
    assert parse_client(json.dumps(document).encode(), DOCUMENT_URL)
    assert all(Destination.of(uri).label for uri in SAFE)


@pytest.mark.parametrize("uri", UNSAFE)
async def test_unsafe_uris_are_rejected_everywhere(server: AuthorizationServer, uri: str) -> None:
    answer = await server.http.post("/register", json={"redirect_uris": [REDIRECT_URI, uri]})
    assert answer.status_code == 400
    document = {"client_id": DOCUMENT_URL, "redirect_uris": [REDIRECT_URI, uri]}
    with pytest.raises(DocumentRejected):
        parse_client(json.dumps(document).encode(), DOCUMENT_URL)
    with pytest.raises(InvalidInput):
        Destination.of(uri)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        *(("http://localhost:53112/callback", True), ("http://localhost/callback", True)),
        *(("http://127.0.0.1:1/callback", True), ("http://127.0.0.1/callback", True)),
        *(("http://[::1]:1/back", True), ("http://[::1]:1/callback", False)),
        *(("http://localhost:53112/other", False), ("http://localhost:53112/callback/", False)),
        ("http://localhost:53112/callback?x=1", False),
        ("https://localhost:53112/callback", False),
        ("http://user@localhost:1/callback", False),
        ("http://localhost:1@evil.example/callback", False),
        ("http://localhost.evil.example/callback", False),
        # Others must match exactly.
        *(("https://app.example/back", True), ("https://app.example/back/", False)),
        *(("https://app.example:443/back", False), ("https://App.example/back", False)),
    ],
)
def test_a_loopback_uri_may_differ_only_in_its_port(uri: str, *, expected: bool) -> None:
    local = ["http://localhost/callback", "http://127.0.0.1:9000/callback", "http://[::1]/back"]
    assert is_registered(uri, [*local, "https://app.example/back"]) is expected
