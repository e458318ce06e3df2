"""Cloud Run's IAM lets only the gateway call a tool's function.

An account without the right to call gets 403, and a token that is not valid gets 401.
"""

import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from infra.build.discovery import tools
from tests.support.authorized_calls import (
    make_authorization_header,
    make_trusting_context,
)
from tests.support.cloud_run.cloud import Cloud
from tests.support.gateway_process import FilledProject

GATEWAY = "carrel-gateway"


@pytest.fixture
def client(small_cloud: Cloud) -> Iterator[httpx2.Client]:
    """A client that trusts the certificate of the fake Cloud Run."""
    with httpx2.Client(verify=make_trusting_context(small_cloud), timeout=60) as http:
        yield http


def fetch_health(fake_cloud: Cloud) -> dict[str, Any]:
    """Check the health of each function with the gateway's account; return the responses."""
    with httpx2.Client(verify=make_trusting_context(fake_cloud), timeout=60) as http:
        return {
            name: http.get(url, headers=make_authorization_header(fake_cloud, GATEWAY, name)).json()
            for name, url in fake_cloud.urls.items()
        }


def post_and_get_rejection(client: httpx2.Client, url: str, authorization: str | None) -> str:
    """Send a request that Cloud Run must reject; return the status, such as `403 Forbidden`."""
    headers = {"authorization": authorization} if authorization is not None else {}
    response = client.post(url, json={}, headers=headers)
    assert response.headers["content-type"].startswith("text/html")
    title = response.text.partition("<title>")[2].partition("</title>")[0]
    assert title == f"{response.status_code} {response.reason_phrase}"
    return title


def test_the_gateways_account_can_call_a_function(
    small_cloud: Cloud, client: httpx2.Client, filled_project: FilledProject
) -> None:
    chunk = filled_project.chunks[0]
    arguments = {"chunk_id": chunk.chunk_id, "include_related": False}
    caller = {"user_id": None, "tier": "public"}
    call = {"call_id": "c", "arguments": arguments, "caller": caller, "deadline": time.time() + 60}
    response = client.post(
        small_cloud.urls["get_chunk"],
        json=call,
        headers=make_authorization_header(small_cloud, GATEWAY, "get_chunk"),
    )
    assert response.status_code == 200
    assert response.json()["result"]["content"] == chunk.content


@pytest.mark.parametrize("authorization", [None, "", "Bearer"])
def test_a_request_without_a_token_is_rejected(
    small_cloud: Cloud, client: httpx2.Client, authorization: str | None
) -> None:
    url = small_cloud.urls["get_chunk"]
    assert post_and_get_rejection(client, url, authorization) == "403 Forbidden"


@pytest.mark.parametrize("account", ["carrel-scheduler", "carrel-search-kb", "carrel-get-chunk"])
def test_a_token_of_another_account_is_rejected(
    small_cloud: Cloud, client: httpx2.Client, account: str
) -> None:
    headers = make_authorization_header(small_cloud, account, "get_chunk")
    url = small_cloud.urls["get_chunk"]
    assert post_and_get_rejection(client, url, headers["authorization"]) == "403 Forbidden"


def test_a_token_for_another_function_is_rejected(
    small_cloud: Cloud, client: httpx2.Client
) -> None:
    headers = make_authorization_header(small_cloud, GATEWAY, "search_kb")
    url = small_cloud.urls["get_chunk"]
    assert post_and_get_rejection(client, url, headers["authorization"]) == "401 Unauthorized"


def test_a_function_reports_its_health_to_the_gateway(small_cloud: Cloud) -> None:
    assert fetch_health(small_cloud) == {
        name: {"name": name, "status": "ok"} for name in ("get_chunk", "search_kb")
    }


@pytest.mark.slow
def test_every_function_reports_its_health_to_the_gateway(full_cloud: Cloud) -> None:
    names = [tool.name for tool in tools()]
    assert fetch_health(full_cloud) == {name: {"name": name, "status": "ok"} for name in names}
