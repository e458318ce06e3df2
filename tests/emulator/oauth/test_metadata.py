"""The metadata of the authorization server and of the MCP endpoint (RFC 8414 and RFC 9728).

The client of the official MCP SDK can sign in with nothing but this metadata.
"""

import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientMetadata,
)
from pydantic import AnyUrl
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from functions.gateway.auth.public_url import make_challenge
from shared.core.caller import FULL_ACCESS
from shared.core.errors import Unauthorized
from tests.support.authorization_server import (
    GOOGLE_PROOF,
    ISSUER,
    REDIRECT_URI,
    RESOURCE,
    AuthorizationServer,
    parse_query,
)
from tests.support.fakes.token_storage import MemoryTokenStorage


@pytest.mark.parametrize("suffix", ["", "/mcp"])
async def test_server_metadata_lists_endpoints_and_capabilities(
    server: AuthorizationServer, suffix: str
) -> None:
    response = await server.http.get(f"/.well-known/oauth-authorization-server{suffix}")
    expected = {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token",
        "registration_endpoint": f"{ISSUER}/register",
        "revocation_endpoint": f"{ISSUER}/revoke",
        "scopes_supported": ["carrel:curate", "carrel:read", "carrel:write"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
        "revocation_endpoint_auth_methods_supported": ["none", "client_secret_post"],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }
    assert response.json() == expected


@pytest.mark.parametrize("suffix", ["", "/mcp"])
async def test_resource_metadata_names_the_authorization_server(
    server: AuthorizationServer, suffix: str
) -> None:
    response = await server.http.get(f"/.well-known/oauth-protected-resource{suffix}")
    expected = {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "scopes_supported": ["carrel:curate", "carrel:read", "carrel:write"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Carrel",
    }
    assert response.json() == expected


async def test_web_pages_may_read_metadata_and_register(server: AuthorizationServer) -> None:
    """The responses have the CORS headers that a browser requires."""
    metadata = "/.well-known/oauth-protected-resource/mcp"
    headers = {"origin": "https://page.example"}
    answers = [await server.http.get(metadata, headers=headers)]
    headers["access-control-request-headers"] = "content-type, mcp-protocol-version"
    for path in (metadata, "/register", "/token", "/revoke"):
        headers["access-control-request-method"] = "GET" if path == metadata else "POST"
        answers.append(await server.http.options(path, headers=headers))
    for response in answers:
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == "*"


class ApprovingBrowser:
    """A fake browser whose user, `GOOGLE_PROOF`, approves every request."""

    def __init__(self, server: AuthorizationServer) -> None:
        """Create a browser that opens pages of this server."""
        self._server = server
        self._location = ""

    async def open(self, url: str) -> None:
        """Open an authorization URL and approve the request."""
        parameters = parse_query(url)
        request = await self._server.request_authorization(
            parameters.pop("client_id"), **parameters
        )
        self._location = await self._server.approvals.approve(request, GOOGLE_PROOF, FULL_ACCESS)

    async def read_redirect(self) -> AuthorizationCodeResult:
        """Return the parameters of the redirect to the client."""
        return AuthorizationCodeResult.model_validate(parse_query(self._location))


def add_protected_endpoint(server: AuthorizationServer) -> None:
    """Add a fake MCP endpoint that requires an access token and returns the id of its user."""

    async def handle(request: Request) -> JSONResponse:
        try:
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            return JSONResponse({"user": server.access.tokens.verify(token).user_id})
        except Unauthorized:
            headers = {"www-authenticate": make_challenge(server.access.settings, FULL_ACCESS)}
            return JSONResponse({}, status_code=401, headers=headers)

    server.app.routes.append(Route("/mcp", handle, methods=["POST"]))


@pytest.mark.parametrize("has_metadata_document", [True, False])
async def test_the_official_client_signs_in_refreshes_and_calls(
    server: AuthorizationServer, *, has_metadata_document: bool
) -> None:
    """A client without a metadata document at a URL registers itself."""
    add_protected_endpoint(server)
    document_url = server.documents.add("https://program.example/client.json", REDIRECT_URI)
    storage = MemoryTokenStorage()
    browser = ApprovingBrowser(server)
    provider = OAuthClientProvider(
        RESOURCE,
        OAuthClientMetadata(client_name="Official", redirect_uris=[AnyUrl(REDIRECT_URI)]),
        storage,
        browser.open,
        browser.read_redirect,
        client_metadata_url=document_url if has_metadata_document else None,
    )
    transport = httpx2.ASGITransport(server.app)
    async with httpx2.AsyncClient(transport=transport, auth=provider) as http:
        response = await http.post(RESOURCE)
        assert response.json() == {"user": GOOGLE_PROOF.user_id}
        first_tokens = storage.tokens
        provider.context.token_expiry_time = 1.0  # long ago, so the client refreshes its token
        response = await http.post(RESOURCE)
        assert response.json() == {"user": GOOGLE_PROOF.user_id}

    assert storage.tokens != first_tokens
    # The id of a client is the URL of its document, or comes from its registration.
    assert storage.client
    assert (storage.client.client_id == document_url) == has_metadata_document
    assert bool(await server.read_documents("oauth_clients")) != has_metadata_document
