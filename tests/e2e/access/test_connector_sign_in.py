"""A script that plays Claude, message by message: from a bare 401 to a revoked sign-in."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx2
import pytest

from shared.core.caller import Scope
from tests.support.consent_page import ConsentResult, decide
from tests.support.mcp_wire import HANDSHAKE, call, initialize, message, post

if TYPE_CHECKING:
    from tests.e2e.access.conftest import MakeKey
    from tests.support.gateway_process import Running

CALLBACK = "https://claude.ai/api/mcp/auth_callback"


@dataclass(frozen=True)
class Claude:
    """A remote client of an MCP server: it knows its URL, and what it finds there.

    Attributes:
        endpoint: The URL that a person pasted.
        server: The authorization server's metadata.
        resource: What tokens are asked for.
        client_id: What it registered as.
    """

    endpoint: str
    server: dict[str, Any]
    resource: str
    client_id: str

    @classmethod
    def meet(cls, endpoint: str) -> Claude:
        """Discover how to sign in, and register."""
        refused = post(endpoint, initialize(HANDSHAKE[0]))
        [metadata] = re.findall(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
        resource = httpx2.get(metadata).json()
        [issuer] = resource["authorization_servers"]
        server = httpx2.get(f"{issuer}/.well-known/oauth-authorization-server").json()
        assert server["issuer"] == issuer
        expected = {
            "client_name": "Claude",
            "redirect_uris": [CALLBACK],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        registered = httpx2.post(server["registration_endpoint"], json=expected)
        assert registered.status_code == 201
        assert "client_secret" not in registered.json()
        return cls(endpoint, server, resource["resource"], registered.json()["client_id"])

    def ask(self, key: str, verifier: str, **other: str) -> ConsentResult:
        """Send the person to the browser."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "state": "my state",
            "code_challenge": challenge.decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": self.resource,
            "scope": "carrel:read carrel:write",
        }
        return decide(f"{self.server['authorization_endpoint']}?{urlencode(asked | other)}", key)

    def tokens(self, **form: str) -> httpx2.Response:
        """Ask the token endpoint."""
        fields = {"client_id": self.client_id, "resource": self.resource} | form
        return httpx2.post(self.server["token_endpoint"], data=fields)

    def exchange(self, code: str, verifier: str) -> httpx2.Response:
        """Turn a code into tokens."""
        return self.tokens(
            grant_type="authorization_code",
            code=code,
            code_verifier=verifier,
            redirect_uri=CALLBACK,
        )

    def refresh(self, token: str) -> httpx2.Response:
        """Turn a refresh token into new tokens."""
        return self.tokens(grant_type="refresh_token", refresh_token=token)

    def revoke(self, token: str) -> httpx2.Response:
        """Sign out."""
        fields = {"client_id": self.client_id, "token": token}
        return httpx2.post(self.server["revocation_endpoint"], data=fields)

    def status(self, token: str) -> int:
        """What the endpoint says to a token."""
        headers: dict[str, str | None] = {"authorization": f"Bearer {token}"}
        return post(self.endpoint, message("tools/list"), headers).status_code


@pytest.fixture(scope="module")
def claude(gateway: Running) -> Claude:
    return Claude.meet(gateway.endpoint)


def signed_in(claude: Claude, key: str) -> dict[str, Any]:
    verifier = secrets.token_urlsafe(48)
    returned = claude.ask(key, verifier)
    response = claude.exchange(returned.answer["code"], verifier)
    assert response.status_code == 200, response.text
    tokens: dict[str, Any] = response.json()
    return tokens


def test_claude_signs_in_calls_refreshes_and_is_revoked(claude: Claude, make_key: MakeKey) -> None:
    verifier = secrets.token_urlsafe(48)
    returned = claude.ask(make_key("claude.user"), verifier)
    assert returned.address.startswith(f"{CALLBACK}?")
    assert returned.answer["state"] == "my state"
    assert returned.answer["iss"] == claude.server["issuer"]

    tokens = claude.exchange(returned.answer["code"], verifier).json()
    headers: dict[str, str | None] = {"authorization": f"Bearer {tokens['access_token']}"}
    written = post(claude.endpoint, call("write_note", {"text": "hello"}), headers).json()
    assert written["result"]["structuredContent"] == {"number": 1}

    later = claude.refresh(tokens["refresh_token"]).json()
    assert claude.status(later["access_token"]) == 200

    assert claude.revoke(later["refresh_token"]).status_code == 200
    assert [claude.status(issued["access_token"]) for issued in (tokens, later)] == [401, 401]
    assert claude.refresh(later["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_person_who_refuses_sends_claude_away(claude: Claude, make_key: MakeKey) -> None:
    asked = {
        "response_type": "code",
        "client_id": claude.client_id,
        "code_challenge": "x" * 43,
        "code_challenge_method": "S256",
        "state": "s",
    }
    address = f"{claude.server['authorization_endpoint']}?{urlencode(asked)}"
    returned = decide(address, make_key("claude.refuses"), "deny")
    assert returned.answer["error"] == "access_denied"
    assert returned.answer["state"] == "s"
    assert returned.answer["iss"] == claude.server["issuer"]


def test_a_code_that_is_sent_again_ends_what_it_began(claude: Claude, make_key: MakeKey) -> None:
    verifier = secrets.token_urlsafe(48)
    code = claude.ask(make_key("claude.replay"), verifier).answer["code"]
    tokens = claude.exchange(code, verifier).json()
    assert claude.exchange(code, verifier).json()["error"] == "invalid_grant"
    assert claude.status(tokens["access_token"]) == 401
    assert claude.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_two_sessions_may_refresh_but_an_old_token_ends_both(
    claude: Claude, make_key: MakeKey
) -> None:
    first = signed_in(claude, make_key("claude.parallel"))["refresh_token"]
    one, other = claude.refresh(first).json(), claude.refresh(first).json()
    assert other["refresh_token"] == one["refresh_token"]
    newest = claude.refresh(one["refresh_token"]).json()
    assert claude.status(newest["access_token"]) == 200
    assert claude.refresh(first).json()["error"] == "invalid_grant"
    assert claude.refresh(newest["refresh_token"]).json()["error"] == "invalid_grant"
    assert [claude.status(issued["access_token"]) for issued in (one, other, newest)] == [401] * 3


def test_a_key_that_only_reads_signs_in_for_reading(
    claude: Claude, make_key: MakeKey, gateway: Running
) -> None:
    tokens = signed_in(claude, make_key("claude.reads", scopes=frozenset({Scope.READ})))
    assert tokens["scope"] == "carrel:read"
    headers: dict[str, str | None] = {"authorization": f"Bearer {tokens['access_token']}"}
    response = post(gateway.endpoint, call("write_note", {"text": "x"}), headers)
    assert response.status_code == 403


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"resource": "https://elsewhere.example/mcp"}, "invalid_target"),
        ({"scope": "carrel:everything"}, "invalid_scope"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
    ],
)
def test_what_claude_must_not_ask_for_comes_back_as_an_error(
    claude: Claude, other: dict[str, str], error: str
) -> None:
    asked = {
        "response_type": "code",
        "client_id": claude.client_id,
        "redirect_uri": CALLBACK,
        "state": "s",
        "code_challenge": "x" * 43,
        "code_challenge_method": "S256",
    }
    address = f"{claude.server['authorization_endpoint']}?{urlencode(asked | other)}"
    sent = httpx2.get(address).headers["location"]
    assert sent.startswith(f"{CALLBACK}?")
    for part in (f"error={error}", "state=s", urlencode({"iss": claude.server["issuer"]})):
        assert part in sent


def test_a_redirect_that_was_not_registered_is_never_followed(claude: Claude) -> None:
    asked = {
        "response_type": "code",
        "client_id": claude.client_id,
        "redirect_uri": f"{CALLBACK}.evil.example",
        "code_challenge": "x" * 43,
    }
    answer = httpx2.get(f"{claude.server['authorization_endpoint']}?{urlencode(asked)}")
    assert answer.status_code == 400
    assert answer.headers.get("location") is None
