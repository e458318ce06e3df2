"""Codes and refresh tokens are valid once, for one client, while the person has access.

A sign-in is the chain of a code, its access tokens and its refresh tokens. It is stored as a grant.
Each refresh rotates the refresh token, that is, replaces it by another one.
"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from mcp.shared.auth import OAuthClientInformationFull

from functions.gateway.auth.access_tokens import ACCESS_TOKEN_LIFETIME
from functions.gateway.oauth.provider import make_refresh_token
from shared.accounts.grant import MAX_TOKEN_REMAINDER
from shared.core.caller import Scope
from shared.core.target import choose_target
from shared.firestore.documents import Reference
from shared.firestore.writes import Set
from tests.support.authorization_server import (
    GOOGLE_PROOF,
    ISSUER,
    REDIRECT_URI,
    RESOURCE,
    AuthorizationServer,
    make_corrupted_tokens,
    parse_error,
    parse_tokens,
    serve_authorization_server,
)
from tests.support.ports import find_free_port

INVALID_GRANT = (400, "invalid_grant")


async def test_a_code_is_exchanged_for_tokens_of_the_person(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    first = await server.sign_in(client)
    second = parse_tokens(await server.refresh(client, first.refresh_token))
    third = parse_tokens(await server.refresh(client, second.refresh_token, resource=RESOURCE))
    for tokens in (first, third):
        assert tokens.token_type == "Bearer"
        assert (tokens.expires_in, tokens.scope) == (3600, "carrel:read carrel:write")
        token = server.access.tokens.verify(tokens.access_token)
        assert (token.user_id, token.client_id) == (GOOGLE_PROOF.user_id, client.client_id)
        assert token.scopes == {Scope.READ, Scope.WRITE}
        assert await server.accepts_token(tokens.access_token)
    assert len({tokens.refresh_token for tokens in (first, second, third)}) == 3

    server.clock.advance(days=29, hours=23)
    last = parse_tokens(await server.refresh(client, third.refresh_token))
    server.clock.advance(days=30)
    assert parse_error(await server.refresh(client, last.refresh_token)) == INVALID_GRANT


@pytest.mark.requirement("001-G8")
async def test_no_code_or_token_is_stored(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    code = await server.issue_code(client.client_id)
    tokens = parse_tokens(await server.exchange(client, code))
    stored = str([await server.read_documents(f"oauth_{name}") for name in ("grants", "clients")])
    for token in (code, tokens.access_token, tokens.refresh_token or ""):
        assert token.rpartition(".")[2] not in stored


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"code_verifier": "w" * 43}, "invalid_grant"),
        ({"code_verifier": "v" * 42}, "invalid_grant"),
        ({"code_verifier": "v" * 129}, "invalid_grant"),
        ({"code_verifier": ""}, "invalid_request"),
        ({"redirect_uri": f"{REDIRECT_URI}/"}, "invalid_request"),
        ({"redirect_uri": ""}, "invalid_request"),
        ({"code": ""}, "invalid_request"),
        ({"resource": "https://elsewhere.example/mcp"}, "invalid_target"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
        ({"grant_type": ""}, "invalid_request"),
    ],
)
async def test_an_invalid_token_request_leaves_the_code_valid(
    server: AuthorizationServer,
    client: OAuthClientInformationFull,
    change: dict[str, str],
    error: str,
) -> None:
    code = await server.issue_code(client.client_id)
    assert parse_error(await server.exchange(client, code, **change)) == (400, error)
    parse_tokens(await server.exchange(client, code, resource=RESOURCE))


async def test_a_code_is_valid_for_five_minutes(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    early_code, late_code = [await server.issue_code(client.client_id) for _ in range(2)]
    server.clock.advance(minutes=4, seconds=59)
    parse_tokens(await server.exchange(client, early_code))
    server.clock.advance(seconds=1)
    assert parse_error(await server.exchange(client, late_code)) == INVALID_GRANT


async def test_a_reused_code_ends_its_own_sign_in_at_once(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    other_tokens = await server.sign_in(client)
    code = await server.issue_code(client.client_id)
    tokens = parse_tokens(await server.exchange(client, code))
    assert parse_error(await server.exchange(client, code, code_verifier="w" * 43)) == INVALID_GRANT
    assert await server.accepts_token(tokens.access_token)
    assert parse_error(await server.exchange(client, code)) == INVALID_GRANT
    assert parse_error(await server.refresh(client, tokens.refresh_token)) == INVALID_GRANT
    assert not await server.accepts_token(tokens.access_token)

    code = await server.issue_code(client.client_id)
    answers = await asyncio.gather(*(server.exchange(client, code) for _ in range(6)))
    [success] = [answer for answer in answers if answer.status_code == 200]
    failures = [answer for answer in answers if answer is not success]
    assert [parse_error(answer) for answer in failures] == [INVALID_GRANT] * 5
    assert not await server.accepts_token(parse_tokens(success).access_token)

    assert await server.accepts_token(other_tokens.access_token)
    parse_tokens(await server.refresh(client, other_tokens.refresh_token))


async def test_codes_and_tokens_belong_to_one_client(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    other_client = await server.register(token_endpoint_auth_method="none")
    code = await server.issue_code(client.client_id)
    assert parse_error(await server.exchange(other_client, code)) == INVALID_GRANT
    tokens = parse_tokens(await server.exchange(client, code))
    assert parse_error(await server.refresh(other_client, tokens.refresh_token)) == INVALID_GRANT
    parse_tokens(await server.refresh(client, tokens.refresh_token))


async def test_a_corrupted_code_or_token_has_no_effect(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    code = await server.issue_code(client.client_id)
    expected_errors = {(400, "invalid_grant"), (400, "invalid_request")}
    for text in list(make_corrupted_tokens(code))[::7]:  # every seventh, to save time
        assert parse_error(await server.exchange(client, text)) in expected_errors
    tokens = parse_tokens(await server.exchange(client, code))
    for text in list(make_corrupted_tokens(tokens.refresh_token or ""))[::7]:
        assert parse_error(await server.refresh(client, text)) in expected_errors
    parse_tokens(await server.refresh(client, tokens.refresh_token))


async def test_a_client_must_be_known_and_send_its_secret(server: AuthorizationServer) -> None:
    client, other_client = await server.register(), await server.register()
    code = await server.issue_code(client.client_id)
    secrets = (None, "", "wrong", other_client.client_secret, "\x00", "ü" * 43)
    client_ids = ("", "x", f"{client.client_id}a", client.client_id[:-1], "a/b", "__x__")
    changes_of_thieves: list[dict[str, Any]] = [
        *({"client_secret": secret} for secret in secrets),
        *({"client_id": client_id} for client_id in client_ids),
    ]
    for changes in changes_of_thieves:
        thief = client.model_copy(update=changes)
        assert parse_error(await server.exchange(thief, code)) == (401, "invalid_client")
    parse_tokens(await server.exchange(client, code))


async def test_a_published_client_is_not_looked_up_for_a_token(server: AuthorizationServer) -> None:
    client_id = server.documents.add("https://claude.example/client.json", REDIRECT_URI)
    code = await server.issue_code(client_id)
    server.documents.error = RuntimeError("their server is down")
    registered_client = await server.register(token_endpoint_auth_method="none")
    published = registered_client.model_copy(update={"client_id": client_id})
    tokens = parse_tokens(await server.exchange(published, code))
    parse_tokens(await server.refresh(published, tokens.refresh_token))


async def test_a_refresh_may_request_fewer_scopes_but_not_more(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    code = await server.issue_code(client.client_id, scope="carrel:read")
    token = parse_tokens(await server.exchange(client, code)).refresh_token
    answer = await server.refresh(client, token, scope="carrel:read carrel:write")
    assert parse_error(answer) == (400, "invalid_scope")
    tokens = await server.sign_in(client)
    narrowed = parse_tokens(await server.refresh(client, tokens.refresh_token, scope="carrel:read"))
    assert narrowed.scope == "carrel:read"
    restored = parse_tokens(await server.refresh(client, narrowed.refresh_token))
    assert restored.scope == tokens.scope


async def test_old_ended_grants_are_deleted_when_a_sign_in_ends(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    """An ended grant is listed in the account until its last access token has expired."""
    assert ACCESS_TOKEN_LIFETIME < MAX_TOKEN_REMAINDER
    store = server.store
    now = await store.accounts.get_server_time()
    ended = {"expired": now - timedelta(seconds=1), "recent": now + timedelta(minutes=30)}
    reference = Reference("accounts", GOOGLE_PROOF.user_id)
    await store.database.commit([Set(reference, {"ended_grants": ended})])

    server.clock.advance(hours=5)  # a wrong local clock deletes nothing too early
    code = await server.issue_code(client.client_id)
    for _ in range(2):  # the second use ends the sign-in
        await server.exchange(client, code)

    account = await store.accounts.get(GOOGLE_PROOF.user_id)
    assert ended.keys() - account.ended_grants.keys() == {"expired"}
    assert len(account.ended_grants) == 2
    assert max(account.ended_grants.values()) - now < MAX_TOKEN_REMAINDER + timedelta(minutes=1)


async def test_an_internal_error_is_reported_without_details(
    server: AuthorizationServer,
    client: OAuthClientInformationFull,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = await server.issue_code(client.client_id)
    server.error = RuntimeError(f"a secret of {ISSUER}'s")
    answer = await server.exchange(client, code)
    assert parse_error(answer) == (500, "server_error")
    assert "a secret" not in answer.text + "".join(capsys.readouterr())


async def test_an_unreachable_database_is_reported_in_time(
    project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_authorization_server(project) as server:
        client = await server.register()
        code = await server.issue_code(client.client_id)
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"127.0.0.1:{find_free_port()}")
    choose_target(None)
    async with serve_authorization_server(project, seconds=0.2) as offline:
        for answer in (
            await offline.exchange(client, code),
            await offline.refresh(
                client, make_refresh_token(offline.access.keyring, "0" * 32, 1, "c")
            ),
            await offline.authorize(client.client_id),
            await offline.http.post("/register", json={"redirect_uris": [REDIRECT_URI]}),
            await offline.http.post("/revoke", data={"client_id": client.client_id}),
        ):
            assert parse_error(answer) == (503, "temporarily_unavailable")
            assert answer.headers["retry-after"] == "5"
