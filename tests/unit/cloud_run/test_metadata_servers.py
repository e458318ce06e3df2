"""The fake metadata servers give tokens of their accounts, as google-auth requests them."""

from __future__ import annotations

import httpx2
import pytest

from tests.support.cloud_run.google_accounts import Accounts, MetadataServers, format_email

ACCOUNT = "/computeMetadata/v1/instance/service-accounts/default/"
FLAVOR = {"Metadata-Flavor": "Google"}


@pytest.fixture(scope="module")
def accounts() -> Accounts:
    """The accounts of the tokens."""
    return Accounts()


async def send_request(accounts: Accounts, path: str, headers: dict[str, str]) -> httpx2.Response:
    """Send a request to the metadata server of the tool's account."""
    servers = MetadataServers(accounts, {4430: "carrel-get-chunk", 4431: "carrel-gateway"})
    transport = httpx2.ASGITransport(servers)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:4430") as client:
        return await client.get(path, headers=headers)


async def test_a_token_belongs_to_the_account_of_the_server(accounts: Accounts) -> None:
    response = await send_request(
        accounts, f"{ACCOUNT}identity?audience=https://a&format=full", FLAVOR
    )
    assert response.headers["metadata-flavor"] == "Google"
    assert accounts.verify_token(response.text, "https://a") == format_email("carrel-get-chunk")


async def test_the_account_can_be_read(accounts: Accounts) -> None:
    response = await send_request(accounts, f"{ACCOUNT}?recursive=true", FLAVOR)
    assert response.json()["email"] == format_email("carrel-get-chunk")


async def test_a_request_without_the_metadata_header_is_refused(accounts: Accounts) -> None:
    assert (
        await send_request(accounts, f"{ACCOUNT}identity?audience=https://a", {})
    ).status_code == 403


@pytest.mark.parametrize("header", [{"Host": "evil.example"}, {"X-Forwarded-For": "192.0.2.1"}])
async def test_other_host_names_and_proxies_are_refused(
    accounts: Accounts, header: dict[str, str]
) -> None:
    path = f"{ACCOUNT}identity?audience=https://a"
    assert (await send_request(accounts, path, {**FLAVOR, **header})).status_code == 403


@pytest.mark.parametrize("path", [f"{ACCOUNT}identity", f"{ACCOUNT}token", "/nothing"])
async def test_an_unknown_path_is_not_found(accounts: Accounts, path: str) -> None:
    assert (await send_request(accounts, path, FLAVOR)).status_code == 404
