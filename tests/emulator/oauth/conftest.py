"""Fixtures: an authorization server and a registered client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.authorization_server import serve_authorization_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp.shared.auth import OAuthClientInformationFull

    from tests.support.authorization_server import AuthorizationServer


@pytest.fixture
async def server(project: str) -> AsyncIterator[AuthorizationServer]:
    """The test's own authorization server."""
    async with serve_authorization_server(project) as authorization_server:
        yield authorization_server


@pytest.fixture
async def client(server: AuthorizationServer) -> OAuthClientInformationFull:
    """A registered OAuth client without a secret."""
    return await server.register(token_endpoint_auth_method="none")
