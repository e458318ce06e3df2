"""A remote client such as Claude signs in by OAuth, from the first 401 to the revocation."""

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlencode

import httpx2
import pytest

from tests.support.access import MakeKey
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
    def register(cls, endpoint: str) -> Self:
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


@pytest.mark.requirement("002-I2")
def test_claude_signs_in_calls_refreshes_and_is_revoked(
    gateway: RunningGateway, make_key: MakeKey
) -> None:
    claude = Claude.register(gateway.endpoint)
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
