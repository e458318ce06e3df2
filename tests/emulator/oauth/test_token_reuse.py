"""A refresh token that comes back: from a session that kept a copy, or from a thief.

The rows of the table in `shared/accounts/grant.py`. Sessions of one program share a refresh token,
and some keep it in memory. `ELSEWHERE` is another network: a laptop that moved, or a thief.
"""

import asyncio
from dataclasses import replace

import pytest
from mcp.shared.auth import OAuthClientInformationFull

from tests.support.authorization_server import AuthorizationServer, parse_error, parse_tokens

INVALID_GRANT = (400, "invalid_grant")
ELSEWHERE = "5.6.7.8"


@pytest.fixture
def elsewhere(server: AuthorizationServer) -> AuthorizationServer:
    """The same server, for requests from another network."""
    return replace(server, address=ELSEWHERE)


async def refresh(
    server: AuthorizationServer, client: OAuthClientInformationFull, token: str | None
) -> str | None:
    """Exchange a refresh token, and return the new one."""
    tokens = parse_tokens(await server.refresh(client, token))
    assert await server.accepts_token(tokens.access_token)
    return tokens.refresh_token


async def test_parallel_refreshes_return_the_same_token(
    server: AuthorizationServer,
    elsewhere: AuthorizationServer,
    client: OAuthClientInformationFull,
) -> None:
    first = (await server.sign_in(client)).refresh_token
    tokens = await asyncio.gather(*(refresh(server, client, first) for _ in range(6)))
    assert len(set(tokens)) == 1
    server.clock.advance(seconds=60)
    assert await refresh(elsewhere, client, first) == tokens[0]


async def test_sessions_of_a_laptop_that_slept_stay_signed_in(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    """But repeated answers do not extend the sign-in."""
    first = (await server.sign_in(client)).refresh_token
    second = await refresh(server, client, first)
    server.clock.advance(days=29)
    assert [await refresh(server, client, first) for _ in range(3)] == [second] * 3
    third = await refresh(server, client, second)
    server.clock.advance(minutes=8)  # each session refreshes when its own access token expires
    assert await refresh(server, client, second) == third
    server.clock.advance(days=30)
    assert parse_error(await server.refresh(client, second)) == INVALID_GRANT


async def test_sessions_of_a_laptop_that_moved_stay_signed_in(
    server: AuthorizationServer,
    elsewhere: AuthorizationServer,
    client: OAuthClientInformationFull,
) -> None:
    first = (await server.sign_in(client)).refresh_token
    second = await refresh(server, client, first)
    server.clock.advance(hours=8)
    third = await refresh(elsewhere, client, first)
    assert third not in {first, second}
    server.clock.advance(minutes=8)
    assert await refresh(elsewhere, client, second) == third
    assert await refresh(elsewhere, client, first) == third
    assert await refresh(elsewhere, client, third) not in {first, second, third}


@pytest.mark.parametrize("token", ["stolen", "of the thief"])
async def test_a_thief_who_comes_back_ends_the_sign_in(
    server: AuthorizationServer,
    elsewhere: AuthorizationServer,
    client: OAuthClientInformationFull,
    token: str,
) -> None:
    """After the victim got another token, nothing that the thief has is worth anything."""
    stolen = (await server.sign_in(client)).refresh_token
    tokens = {"stolen": stolen, "of the thief": await refresh(elsewhere, client, stolen)}
    server.clock.advance(seconds=61)
    answer = parse_tokens(await server.refresh(client, stolen))
    assert answer.refresh_token not in tokens.values()
    assert parse_error(await elsewhere.refresh(client, tokens[token])) == INVALID_GRANT
    assert parse_error(await server.refresh(client, answer.refresh_token)) == INVALID_GRANT
    assert not await server.accepts_token(answer.access_token)


async def test_a_thief_who_went_on_loses_at_the_victims_next_use(
    server: AuthorizationServer,
    elsewhere: AuthorizationServer,
    client: OAuthClientInformationFull,
) -> None:
    stolen = (await server.sign_in(client)).refresh_token
    second = await refresh(elsewhere, client, stolen)
    third = parse_tokens(await elsewhere.refresh(client, second))
    assert parse_error(await server.refresh(client, stolen)) == INVALID_GRANT
    assert parse_error(await elsewhere.refresh(client, third.refresh_token)) == INVALID_GRANT
    assert not await server.accepts_token(third.access_token)


async def test_a_thief_after_the_victim_loses_at_the_victims_next_use(
    server: AuthorizationServer,
    elsewhere: AuthorizationServer,
    client: OAuthClientInformationFull,
) -> None:
    stolen = (await server.sign_in(client)).refresh_token
    token_of_victim = await refresh(server, client, stolen)
    server.clock.advance(seconds=61)
    answer = parse_tokens(await elsewhere.refresh(client, stolen))
    assert parse_error(await server.refresh(client, token_of_victim)) == INVALID_GRANT
    assert parse_error(await elsewhere.refresh(client, answer.refresh_token)) == INVALID_GRANT
    assert not await server.accepts_token(answer.access_token)


@pytest.mark.parametrize("seconds", [0, 61, 8 * 3600])
async def test_a_token_whose_successor_was_exchanged_ends_the_sign_in(
    server: AuthorizationServer, client: OAuthClientInformationFull, seconds: int
) -> None:
    first = (await server.sign_in(client)).refresh_token
    third = await refresh(server, client, await refresh(server, client, first))
    server.clock.advance(seconds=seconds)
    fourth = parse_tokens(await server.refresh(client, third))
    assert parse_error(await server.refresh(client, first)) == INVALID_GRANT
    assert parse_error(await server.refresh(client, fourth.refresh_token)) == INVALID_GRANT
    assert not await server.accepts_token(fourth.access_token)


async def test_no_network_address_is_stored(
    server: AuthorizationServer, client: OAuthClientInformationFull
) -> None:
    grants = []
    for _ in range(2):
        await refresh(server, client, (await server.sign_in(client)).refresh_token)
        grants = await server.read_documents("oauth_grants")
        assert server.address not in str(grants)
    assert len({grant["network"] for grant in grants}) == 2
