"""Programs register themselves as clients (RFC 7591), and registrations expire."""

from typing import Any

import pytest
from pydantic import SecretStr

from shared.accounts.keyring import Keyring
from shared.core.errors import RateLimited
from tests.support.authorization_server import (
    REDIRECT_URI,
    AuthorizationServer,
    parse_error,
    parse_tokens,
    serve_authorization_server,
)


async def test_a_client_secret_is_returned_but_not_stored(server: AuthorizationServer) -> None:
    client = await server.register()
    assert client.token_endpoint_auth_method == "client_secret_post"
    assert client.client_secret_expires_at == 0
    secret = client.client_secret or ""
    assert len(secret) == 43  # 32 bytes in base64
    [stored] = await server.read_documents("oauth_clients")
    assert stored["id"] == client.client_id
    assert stored["redirect_uris"] == ["https://program.example/back"]
    assert secret not in str(stored)


@pytest.mark.parametrize(
    ("requested", "granted"),
    [
        ("none", "none"),
        ("client_secret_post", "client_secret_post"),
        ("client_secret_basic", "client_secret_post"),
    ],
)
async def test_a_client_learns_its_granted_metadata(
    server: AuthorizationServer, requested: str, granted: str
) -> None:
    client = await server.register(
        token_endpoint_auth_method=requested,
        grant_types=["authorization_code", "implicit", "client_credentials"],
        scope="openid",
        response_types=["code", "x"],
    )
    assert client.token_endpoint_auth_method == granted
    assert (client.client_secret is not None) == (granted != "none")
    assert client.grant_types == ["authorization_code", "refresh_token"]
    assert client.response_types == ["code"]
    assert client.scope == "carrel:curate carrel:read carrel:write"
    await server.sign_in(client)


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        (
            {"redirect_uris": [f"{REDIRECT_URI}/{number}" for number in range(11)]},
            "invalid_redirect_uri",
        ),
        ({"redirect_uris": ["data:,x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": []}, "invalid_client_metadata"),
        ({"redirect_uris": None}, "invalid_redirect_uri"),
        ({"client_name": "x" * 101}, "invalid_client_metadata"),
        ({"client_name": ["x"]}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"response_types": ["token"]}, "invalid_client_metadata"),
    ],
)
async def test_unsupported_metadata_is_rejected(
    server: AuthorizationServer, metadata: dict[str, Any], error: str
) -> None:
    body = {"client_name": "Program", "redirect_uris": [REDIRECT_URI]} | metadata
    assert parse_error(await server.http.post("/register", json=body)) == (400, error)
    assert await server.read_documents("oauth_clients") == []


@pytest.mark.parametrize("body", [b"", b"[]", b'{"redirect_uris": "\\ud800"}', b"\xff"])
async def test_an_invalid_registration_body_is_rejected(
    server: AuthorizationServer, body: bytes
) -> None:
    answer = await server.http.post("/register", content=body)
    assert parse_error(answer) == (400, "invalid_client_metadata")
    answer = await server.http.post("/register", content=body.ljust(65_537))  # at most 64 KiB
    assert answer.status_code == 413


async def test_registration_is_limited_by_address(server: AuthorizationServer) -> None:
    server.limit.error = RateLimited("Too many.", retry_after=30)
    answer = await server.http.post("/register", json={"redirect_uris": [REDIRECT_URI]})
    assert parse_error(answer) == (429, "temporarily_unavailable")
    assert answer.headers["retry-after"] == "30"
    assert server.limit.attempts == ["1.2.3.4"]
    assert await server.read_documents("oauth_clients") == []


async def test_an_unused_registration_expires_after_a_day(server: AuthorizationServer) -> None:
    client = await server.register()
    server.clock.advance(hours=23, minutes=59)
    await server.request_authorization(client.client_id)
    server.clock.advance(minutes=1)
    assert (await server.authorize(client.client_id)).status_code == 400


async def test_a_registration_lasts_ninety_days_after_its_last_token(
    server: AuthorizationServer,
) -> None:
    client = await server.register()
    token = (await server.sign_in(client)).refresh_token
    for _ in range(4):
        server.clock.advance(days=29)
        token = parse_tokens(await server.refresh(client, token)).refresh_token
    server.clock.advance(days=89, hours=23)
    await server.request_authorization(client.client_id)
    server.clock.advance(hours=1)
    assert (await server.authorize(client.client_id)).status_code == 400
    assert parse_error(await server.refresh(client, token)) == (401, "invalid_client")


async def test_a_registration_in_use_is_written_once_a_day(server: AuthorizationServer) -> None:
    client = await server.register()
    expiries = []
    for hours in (1, 1, 23):
        await server.sign_in(client)
        [stored] = await server.read_documents("oauth_clients")
        expiries.append(stored["expires_at"])
        server.clock.advance(hours=hours)
    assert len(set(expiries)) == 1
    server.clock.advance(seconds=1)
    await server.sign_in(client)
    [stored] = await server.read_documents("oauth_clients")
    assert stored["expires_at"] > expiries[0]


async def test_clients_survive_a_rotation_of_the_secrets(project: str) -> None:
    old_secret, new_secret = "o" * 32, "n" * 32
    old_keyring, new_keyring = Keyring([SecretStr(old_secret)]), Keyring([SecretStr(new_secret)])
    assert new_keyring.newest_id != old_keyring.newest_id

    async with serve_authorization_server(project, old_secret) as old_server:
        client = await old_server.register()
        code = await old_server.issue_code(client.client_id)
    async with serve_authorization_server(project, new_secret, old_secret) as rotating_server:
        token = parse_tokens(await rotating_server.exchange(client, code)).refresh_token
        token = parse_tokens(await rotating_server.refresh(client, token)).refresh_token
    async with serve_authorization_server(project, new_secret) as new_server:
        assert parse_error(await new_server.refresh(client, token)) == (401, "invalid_client")
