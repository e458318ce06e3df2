"""A remote client such as Claude signs in by OAuth, from the first 401 to the revocation."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from shared.core.caller import Scope
from tests.e2e.access.conftest import MakeKey
from tests.support.consent_page import ConsentResult, submit_decision
from tests.support.gateway_process import RunningGateway
from tests.support.mcp_wire import HANDSHAKE, make_call, make_initialize, make_request, post

CALLBACK = "https://claude.ai/api/mcp/auth_callback"


@dataclass(frozen=True)
class Claude:
    """A remote client that knows only the URL of an MCP server.

    Attributes:
        endpoint: The URL that a person pasted.
        server: The metadata of the authorization server.
        resource: The resource for which it requests tokens.
        client_id: The id under which it is registered.
    """

    endpoint: str
    server: dict[str, Any]
    resource: str
    client_id: str

    @classmethod
    def register(cls, endpoint: str) -> Claude:
        """Discover the authorization server, and register with it."""
        unauthorized = post(endpoint, make_initialize(HANDSHAKE[0]))
        [metadata_url] = re.findall(
            r'resource_metadata="([^"]+)"', unauthorized.headers["www-authenticate"]
        )
        resource = httpx2.get(metadata_url).json()
        [issuer] = resource["authorization_servers"]
        server = httpx2.get(f"{issuer}/.well-known/oauth-authorization-server").json()
        assert server["issuer"] == issuer
        metadata = {
            "client_name": "Claude",
            "redirect_uris": [CALLBACK],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        registered = httpx2.post(server["registration_endpoint"], json=metadata)
        assert registered.status_code == 201
        assert "client_secret" not in registered.json()
        return cls(endpoint, server, resource["resource"], registered.json()["client_id"])

    def authorize(self, key: str, verifier: str) -> ConsentResult:
        """Send a person with this key to the consent page, where they allow the request."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
        request = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "state": "my state",
            "code_challenge": challenge.decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": self.resource,
            "scope": "carrel:read carrel:write",
        }
        return submit_decision(f"{self.server['authorization_endpoint']}?{urlencode(request)}", key)

    def request_tokens(self, **form: str) -> httpx2.Response:
        """Send a request to the token endpoint."""
        fields = {"client_id": self.client_id, "resource": self.resource} | form
        return httpx2.post(self.server["token_endpoint"], data=fields)

    def exchange(self, code: str, verifier: str) -> httpx2.Response:
        """Exchange a code for tokens."""
        return self.request_tokens(
            grant_type="authorization_code",
            code=code,
            code_verifier=verifier,
            redirect_uri=CALLBACK,
        )

    def refresh(self, token: str) -> httpx2.Response:
        """Exchange a refresh token for new tokens."""
        return self.request_tokens(grant_type="refresh_token", refresh_token=token)

    def revoke(self, token: str) -> httpx2.Response:
        """Revoke a token."""
        fields = {"client_id": self.client_id, "token": token}
        return httpx2.post(self.server["revocation_endpoint"], data=fields)

    def get_status(self, token: str) -> int:
        """Return the HTTP status of a request with this token."""
        headers: dict[str, str | None] = {"authorization": f"Bearer {token}"}
        return post(self.endpoint, make_request("tools/list"), headers).status_code


@pytest.fixture(scope="module")
def claude(gateway: RunningGateway) -> Claude:
    """A client that is registered with the gateway."""
    return Claude.register(gateway.endpoint)


def sign_in(claude: Claude, key: str) -> dict[str, Any]:
    """Sign in with a key; return the response of the token endpoint."""
    verifier = secrets.token_urlsafe(48)
    returned = claude.authorize(key, verifier)
    response = claude.exchange(returned.answer["code"], verifier)
    assert response.status_code == 200, response.text
    tokens: dict[str, Any] = response.json()
    return tokens


@pytest.mark.requirement("002-I2")
def test_claude_signs_in_calls_refreshes_and_is_revoked(claude: Claude, make_key: MakeKey) -> None:
    verifier = secrets.token_urlsafe(48)
    returned = claude.authorize(make_key("claude.user"), verifier)
    assert returned.address.startswith(f"{CALLBACK}?")
    assert returned.answer["state"] == "my state"
    assert returned.answer["iss"] == claude.server["issuer"]

    tokens = claude.exchange(returned.answer["code"], verifier).json()
    headers: dict[str, str | None] = {"authorization": f"Bearer {tokens['access_token']}"}
    response = post(claude.endpoint, make_call("write_note", {"text": "hello"}), headers)
    assert response.json()["result"]["structuredContent"] == {"number": 1}

    refreshed = claude.refresh(tokens["refresh_token"]).json()
    assert claude.get_status(refreshed["access_token"]) == 200

    assert claude.revoke(refreshed["refresh_token"]).status_code == 200
    assert claude.get_status(tokens["access_token"]) == 401
    assert claude.get_status(refreshed["access_token"]) == 401
    assert claude.refresh(refreshed["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_denied_request_returns_access_denied(claude: Claude, make_key: MakeKey) -> None:
    request = {
        "response_type": "code",
        "client_id": claude.client_id,
        "code_challenge": "x" * 43,
        "code_challenge_method": "S256",
        "state": "s",
    }
    address = f"{claude.server['authorization_endpoint']}?{urlencode(request)}"
    returned = submit_decision(address, make_key("claude.refuses"), "deny")
    assert returned.answer["error"] == "access_denied"
    assert returned.answer["state"] == "s"
    assert returned.answer["iss"] == claude.server["issuer"]


def test_a_reused_code_revokes_its_tokens(claude: Claude, make_key: MakeKey) -> None:
    verifier = secrets.token_urlsafe(48)
    code = claude.authorize(make_key("claude.replay"), verifier).answer["code"]
    tokens = claude.exchange(code, verifier).json()
    assert claude.exchange(code, verifier).json()["error"] == "invalid_grant"
    assert claude.get_status(tokens["access_token"]) == 401
    assert claude.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_reused_refresh_token_revokes_parallel_sessions(
    claude: Claude, make_key: MakeKey
) -> None:
    first_token = sign_in(claude, make_key("claude.parallel"))["refresh_token"]
    session = claude.refresh(first_token).json()
    parallel_session = claude.refresh(first_token).json()
    assert parallel_session["refresh_token"] == session["refresh_token"]
    newest_session = claude.refresh(session["refresh_token"]).json()
    assert claude.get_status(newest_session["access_token"]) == 200

    # The first refresh token was replaced twice, so its use shows that somebody copied it.
    assert claude.refresh(first_token).json()["error"] == "invalid_grant"
    assert claude.refresh(newest_session["refresh_token"]).json()["error"] == "invalid_grant"
    for tokens in (session, parallel_session, newest_session):
        assert claude.get_status(tokens["access_token"]) == 401


def test_a_read_only_key_signs_in_for_reading(
    claude: Claude, make_key: MakeKey, gateway: RunningGateway
) -> None:
    tokens = sign_in(claude, make_key("claude.reads", scopes=frozenset({Scope.READ})))
    assert tokens["scope"] == "carrel:read"
    headers: dict[str, str | None] = {"authorization": f"Bearer {tokens['access_token']}"}
    response = post(gateway.endpoint, make_call("write_note", {"text": "x"}), headers)
    assert response.status_code == 403


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"resource": "https://elsewhere.example/mcp"}, "invalid_target"),
        ({"scope": "carrel:everything"}, "invalid_scope"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
    ],
)
def test_an_invalid_authorization_request_returns_an_error(
    claude: Claude, changes: dict[str, str], error: str
) -> None:
    request = {
        "response_type": "code",
        "client_id": claude.client_id,
        "redirect_uri": CALLBACK,
        "state": "s",
        "code_challenge": "x" * 43,
        "code_challenge_method": "S256",
    }
    address = f"{claude.server['authorization_endpoint']}?{urlencode(request | changes)}"
    location = httpx2.get(address).headers["location"]
    assert location.startswith(f"{CALLBACK}?")
    for parameter in (f"error={error}", "state=s", urlencode({"iss": claude.server["issuer"]})):
        assert parameter in location


def test_an_unregistered_redirect_is_never_followed(claude: Claude) -> None:
    request = {
        "response_type": "code",
        "client_id": claude.client_id,
        "redirect_uri": f"{CALLBACK}.evil.example",
        "code_challenge": "x" * 43,
    }
    response = httpx2.get(f"{claude.server['authorization_endpoint']}?{urlencode(request)}")
    assert response.status_code == 400
    assert response.headers.get("location") is None
