"""A client can revoke its own tokens, but no tokens of other clients (RFC 7009).

As the RFC requires, revoking an unknown token is a success that changes nothing.
"""

import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull

from tests.support.authorization_server import AuthorizationServer, parse_error, parse_tokens


async def revoke(
    server: AuthorizationServer,
    client: OAuthClientInformationFull,
    token: str | None,
    **fields: str,
) -> httpx2.Response:
    """Post a token to the revocation endpoint, with the credentials of a client."""
    credentials = {"client_id": client.client_id, "client_secret": client.client_secret or ""}
    return await server.http.post("/revoke", data=credentials | {"token": token or ""} | fields)


def assert_success(answer: httpx2.Response) -> None:
    """Assert that this is the empty response of a successful revocation."""
    assert answer.status_code == 200
    assert answer.content == b""
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("is_public", [True, False])
@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
@pytest.mark.parametrize("hint", ["", "access_token", "refresh_token", "saml2"])
async def test_either_token_ends_the_whole_sign_in(
    server: AuthorizationServer, kind: str, hint: str, *, is_public: bool
) -> None:
    method = "none" if is_public else "client_secret_post"
    client = await server.register(token_endpoint_auth_method=method)
    first = await server.sign_in(client)
    tokens = parse_tokens(await server.refresh(client, first.refresh_token))
    token = getattr(first, kind)  # also if it was rotated
    server.clock.advance(minutes=59)
    assert_success(await revoke(server, client, token, token_type_hint=hint))
    assert not await server.accepts_token(tokens.access_token)
    answer = await server.refresh(client, tokens.refresh_token)
    assert parse_error(answer) == (400, "invalid_grant")
    assert_success(await revoke(server, client, token))


async def test_a_client_cannot_revoke_tokens_of_another_client(server: AuthorizationServer) -> None:
    client, other_client = await server.register(), await server.register()
    tokens = await server.sign_in(other_client)
    malformed_tokens = ("x", "a.b.c", "\x00", "ü")
    for token in (tokens.access_token, tokens.refresh_token, *malformed_tokens):
        assert_success(await revoke(server, client, token))
    assert await server.accepts_token(tokens.access_token)
    parse_tokens(await server.refresh(other_client, tokens.refresh_token))


async def test_an_unauthenticated_client_cannot_revoke(server: AuthorizationServer) -> None:
    client = await server.register()
    tokens = await server.sign_in(client)
    for changes in ({"client_secret": None}, {"client_secret": "x"}, {"client_id": "x"}):
        thief = client.model_copy(update=changes)
        answer = await revoke(server, thief, tokens.refresh_token)
        assert parse_error(answer) == (401, "invalid_client")
    assert await server.accepts_token(tokens.access_token)


async def test_a_request_without_a_token_or_a_form_is_rejected(server: AuthorizationServer) -> None:
    client = await server.register()
    assert parse_error(await revoke(server, client, None)) == (400, "invalid_request")
    answer = await server.http.post("/revoke", json={"token": "x"})
    assert parse_error(answer) == (400, "invalid_request")
