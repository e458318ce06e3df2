"""Fixtures: an authorization server, a registered client, and a fake Google."""

from collections.abc import AsyncIterator, Iterator

import pytest
from mcp.shared.auth import OAuthClientInformationFull

from functions.gateway.oauth import google as google_module
from shared.core.settings import Settings
from tests.support.authorization_server import AuthorizationServer, serve_authorization_server
from tests.support.fakes.google import FakeGoogle
from tests.support.google_sign_in import make_google_settings


@pytest.fixture
async def server(project: str) -> AsyncIterator[AuthorizationServer]:
    """The test's own authorization server."""
    async with serve_authorization_server(project) as authorization_server:
        yield authorization_server


@pytest.fixture
async def client(server: AuthorizationServer) -> OAuthClientInformationFull:
    """A registered OAuth client without a secret."""
    return await server.register(token_endpoint_auth_method="none")


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGoogle]:
    """A fake Google that works, and whose only account is Ada's."""
    with FakeGoogle() as fake_google:
        monkeypatch.setattr(google_module, "ISSUER", fake_google.issuer)
        yield fake_google


@pytest.fixture
def google_settings(settings: Settings, google: FakeGoogle) -> Settings:  # noqa: ARG001 - it runs
    """Settings that let Ada sign in with Google."""
    return make_google_settings(settings)
