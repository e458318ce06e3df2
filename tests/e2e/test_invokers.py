"""Who may call a tool's function, as Cloud Run's IAM has it: the gateway, and nobody else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from infra.build.discovery import tools
from tests.e2e.conftest import FEW
from tests.support.authorized_calls import authorization_header, fetch_id_token, trusting_context
from tests.support.cloud_run.google_accounts import email

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.cloud_run.cloud import Cloud
    from tests.support.gateway_process import Library

GATEWAY = "carrel-gateway"


@pytest.fixture
def client(few_in_the_cloud: Cloud) -> Iterator[httpx2.Client]:
    """Somebody who can reach `get_chunk`."""
    with httpx2.Client(verify=trusting_context(few_in_the_cloud), timeout=60) as opened:
        yield opened


def health(there: Cloud) -> dict[str, Any]:
    """What each function says to the gateway's account of how it is."""
    with httpx2.Client(verify=trusting_context(there), timeout=60) as opened:
        return {
            name: opened.get(url, headers=authorization_header(there, GATEWAY, name)).json()
            for name, url in there.urls.items()
        }


def refusal(client: httpx2.Client, url: str, authorization: str | None) -> tuple[int, str]:
    """The status and the title of the page by which a function's front end refuses."""
    headers = {"authorization": authorization} if authorization is not None else {}
    response = client.post(url, json={}, headers=headers)
    assert response.headers["content-type"].startswith("text/html")
    return response.status_code, response.text.partition("<title>")[2].partition("</title>")[0]


def test_the_gateways_account_gets_through(
    few_in_the_cloud: Cloud, client: httpx2.Client, library: Library
) -> None:
    chunk = library.chunks[0]
    arguments = {"chunk_id": chunk.chunk_id, "include_related": False}
    caller = {"user_id": None, "tier": "public"}
    call = {"call_id": "c", "arguments": arguments, "caller": caller, "deadline": time.time() + 60}
    response = client.post(
        few_in_the_cloud.urls["get_chunk"],
        json=call,
        headers=authorization_header(few_in_the_cloud, GATEWAY, "get_chunk"),
    )
    assert response.status_code == 200
    assert response.json()["result"]["content"] == chunk.content


@pytest.mark.parametrize("authorization", [None, "", "Bearer"])
def test_without_a_token_nobody_is_let_in(
    few_in_the_cloud: Cloud, client: httpx2.Client, authorization: str | None
) -> None:
    url = few_in_the_cloud.urls["get_chunk"]
    assert refusal(client, url, authorization) == (403, "403 Forbidden")


@pytest.mark.parametrize("account", ["carrel-scheduler", "carrel-search-kb", "carrel-get-chunk"])
def test_the_token_of_another_account_lets_nobody_in(
    few_in_the_cloud: Cloud, client: httpx2.Client, account: str
) -> None:
    headers = authorization_header(few_in_the_cloud, account, "get_chunk")
    refused = refusal(client, few_in_the_cloud.urls["get_chunk"], headers["authorization"])
    assert refused == (403, "403 Forbidden")


def test_a_token_for_another_function_lets_nobody_in(
    few_in_the_cloud: Cloud, client: httpx2.Client
) -> None:
    headers = authorization_header(few_in_the_cloud, GATEWAY, "search_kb")
    refused = refusal(client, few_in_the_cloud.urls["get_chunk"], headers["authorization"])
    assert refused == (401, "401 Unauthorized")


def forged(url: str, genuine: str) -> Iterator[str]:
    """Tokens that say what a genuine one says, but that Google did not sign."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = {"aud": url, "email": email(GATEWAY), "exp": time.time() + 60, "iat": time.time()}
    claims |= {"iss": "https://accounts.google.com", "sub": GATEWAY}
    yield jwt.encode(claims, key, "RS256")
    yield jwt.encode(claims, "", "none")
    signed, _, signature = genuine.rpartition(".")
    yield f"{signed}.{signature[::-1]}"
    yield f"{signed}.SIGNATURE_REMOVED_BY_GOOGLE"
    yield signed


def test_a_forged_token_lets_nobody_in(few_in_the_cloud: Cloud, client: httpx2.Client) -> None:
    url = few_in_the_cloud.urls["get_chunk"]
    genuine = fetch_id_token(few_in_the_cloud, GATEWAY, url)
    for forgery in forged(url, genuine):
        assert refusal(client, url, f"Bearer {forgery}") == (401, "401 Unauthorized")
    assert refusal(client, url, f"Basic {genuine}") == (401, "401 Unauthorized")


def test_a_function_tells_the_gateway_its_health(few_in_the_cloud: Cloud) -> None:
    assert health(few_in_the_cloud) == {name: {"name": name, "status": "ok"} for name in FEW}


@pytest.mark.slow
def test_every_function_tells_the_gateway_its_health(tools_in_the_cloud: Cloud) -> None:
    names = [tool.name for tool in tools()]
    assert health(tools_in_the_cloud) == {name: {"name": name, "status": "ok"} for name in names}
