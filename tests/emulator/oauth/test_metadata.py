"""What programs read of us, and that the official client signs somebody in by nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientMetadata,
    OAuthMetadata,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl
from starlette.responses import JSONResponse
from starlette.routing import Route

from functions.gateway.auth.public_url import challenge
from shared.core.caller import FULL_ACCESS
from shared.core.errors import Unauthorized
from tests.support.authorization_server import (
    ISSUER,
    PERSON,
    REDIRECT,
    RESOURCE,
    parse_query,
)
from tests.support.fakes.token_storage import Memory

if TYPE_CHECKING:
    from starlette.requests import Request

    from tests.support.authorization_server import AuthorizationServer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("end", ["", "/mcp"])
async def test_programs_read_what_we_are_able_to_do(server: AuthorizationServer, end: str) -> None:
    answer = await server.http.get(f"/.well-known/oauth-authorization-server{end}")
    expected = {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token",
        "registration_endpoint": f"{ISSUER}/register",
        "revocation_endpoint": f"{ISSUER}/revoke",
        "scopes_supported": ["carrel:read", "carrel:write"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
        "revocation_endpoint_auth_methods_supported": ["none", "client_secret_post"],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }
    assert answer.json() == expected
    assert str(OAuthMetadata.model_validate_json(answer.content).issuer) == ISSUER


@pytest.mark.parametrize("end", ["", "/mcp"])
async def test_programs_read_whose_tokens_the_endpoint_takes(
    server: AuthorizationServer, end: str
) -> None:
    answer = await server.http.get(f"/.well-known/oauth-protected-resource{end}")
    expected = {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "scopes_supported": ["carrel:read", "carrel:write"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Carrel",
    }
    assert answer.json() == expected
    assert str(ProtectedResourceMetadata.model_validate_json(answer.content).resource) == RESOURCE


async def test_web_pages_may_read_it_too(server: AuthorizationServer) -> None:
    page = {"origin": "https://page.example"}
    make_parameters = page | {
        "access-control-request-method": "GET",
        "access-control-request-headers": "mcp-protocol-version",
    }
    path = "/.well-known/oauth-protected-resource/mcp"
    for answer in (
        await server.http.get(path, headers=page),
        await server.http.options(path, headers=make_parameters),
    ):
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"


class Browser:
    """A person who opens what the program shows them, and approves."""

    def __init__(self, server: AuthorizationServer) -> None:
        """Sit in front of this server."""
        self._server = server
        self._location = ""

    async def open(self, url: str) -> None:
        """Follow the program's link, and approve."""
        parameters = parse_query(url)
        asked = await self._server.request_of(parameters.pop("client_id"), **parameters)
        self._location = await self._server.approvals.approve(asked, PERSON, FULL_ACCESS)

    async def back(self) -> AuthorizationCodeResult:
        """What the program finds in the address where the browser ended."""
        return AuthorizationCodeResult.model_validate(parse_query(self._location))


def guard(server: AuthorizationServer) -> None:
    """Put an endpoint into the server that answers whoever has a token."""

    async def answer(request: Request) -> JSONResponse:
        try:
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            return JSONResponse({"user": server.access.tokens.read(token).user_id})
        except Unauthorized:
            headers = {"www-authenticate": challenge(server.access.settings, FULL_ACCESS)}
            return JSONResponse({}, status_code=401, headers=headers)

    server.app.routes.append(Route("/mcp", answer, methods=["POST"]))


@pytest.mark.parametrize("published", [True, False])
async def test_the_official_client_signs_in_refreshes_and_calls(
    server: AuthorizationServer, *, published: bool
) -> None:
    guard(server)
    document = server.documents.add("https://program.example/client.json", REDIRECT)
    kept, browser = Memory(), Browser(server)
    provider = OAuthClientProvider(
        RESOURCE,
        OAuthClientMetadata(client_name="Official", redirect_uris=[AnyUrl(REDIRECT)]),
        kept,
        browser.open,
        browser.back,
        client_metadata_url=document if published else None,
    )
    transport = httpx2.ASGITransport(server.app)
    async with httpx2.AsyncClient(transport=transport, auth=provider) as program:
        first = await program.post(RESOURCE)
        assert first.json() == {"user": PERSON.user_id}
        before = kept.tokens
        provider.context.token_expiry_time = 1.0
        second = await program.post(RESOURCE)
        assert second.json() == {"user": PERSON.user_id}
    assert before
    assert kept.tokens
    assert before.refresh_token != kept.tokens.refresh_token
    assert kept.client
    assert (document == kept.client.client_id) == published
    assert bool(await server.list_documents("oauth_clients")) == (not published)
