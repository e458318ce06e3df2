"""A document at a URL from a stranger is fetched from public addresses only, and not for long."""

import asyncio
import ssl
from pathlib import Path

import pytest

from functions.gateway.oauth.client_id_metadata import FETCH_RULES
from shared.core.public_url import DocumentRejected, PublicUrl
from shared.core.safe_fetch import Endpoint, SafeFetch
from tests.support.certificates import write_certificate
from tests.support.ports import find_free_port
from tests.support.public_web_server import (
    DOCUMENT_URL,
    HOST,
    Page,
    PublicWebServer,
    make_fetcher,
    make_resolver,
)


async def get_rejection_reason(fetch: SafeFetch) -> str:
    """Fetch the client's document, which must be rejected; return the reason."""
    with pytest.raises(DocumentRejected) as error:
        await fetch.get(PublicUrl.parse(DOCUMENT_URL))
    return error.value.reason


@pytest.mark.parametrize("target", ["/oauth/client.json?v=1&w=(a)", "//evil.example/x", "/a%2Fb/~"])
async def test_request_has_the_host_name_and_exact_target(
    server: PublicWebServer, certificate: Path, target: str
) -> None:
    server.page = Page(b'{"a": 1}', headers={"Cache-Control": "max-age=60"})
    fetch = make_fetcher(server, certificate)
    document = await fetch.get(PublicUrl.parse(f"https://{HOST}{target}"))

    assert document.body == b'{"a": 1}'
    assert document.cache_control == "max-age=60"

    [request] = server.requests
    assert request.target == target
    assert request.headers["host"] == HOST
    assert request.sni == HOST
    assert {"authorization", "cookie"}.isdisjoint(request.headers)


@pytest.mark.parametrize("names", [("other.example", "127.0.0.1"), ()], ids=["name", "address"])
async def test_certificate_for_another_name_or_the_address_is_rejected(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    certificate = write_certificate(tmp_path / "other.pem", *names)
    with PublicWebServer(certificate) as server:
        assert await get_rejection_reason(make_fetcher(server, certificate)) == "unreachable"
        assert server.requests == []


async def test_a_name_is_resolved_once_so_it_cannot_be_rebound(
    server: PublicWebServer, certificate: Path
) -> None:
    answers = [[server.endpoint], [Endpoint("127.0.0.1", find_free_port())]]

    async def resolve(_host: str, _port: int) -> list[Endpoint]:
        return answers.pop(0)

    tls = ssl.create_default_context(cafile=certificate)
    await SafeFetch(FETCH_RULES, resolve, tls).get(PublicUrl.parse(DOCUMENT_URL))
    assert len(answers) == 1


async def test_untrusted_certificate_is_rejected(server: PublicWebServer) -> None:
    fetch = SafeFetch(FETCH_RULES, make_resolver(server.endpoint))
    assert await get_rejection_reason(fetch) == "unreachable"
    assert server.requests == []


async def test_only_three_addresses_of_a_host_are_tried(
    server: PublicWebServer, certificate: Path
) -> None:
    dead = [Endpoint("127.0.0.1", find_free_port())]
    tls = ssl.create_default_context(cafile=certificate)
    fetch = SafeFetch(FETCH_RULES, make_resolver(*dead * 3, server.endpoint), tls)
    assert await get_rejection_reason(fetch) == "unreachable"
    assert server.requests == []
    fetch = SafeFetch(FETCH_RULES, make_resolver(*dead * 2, server.endpoint), tls)
    assert (await fetch.get(PublicUrl.parse(DOCUMENT_URL))).body == b"{}"


@pytest.mark.parametrize(
    ("reason", "statuses"),
    [
        ("status", (201, 204, 301, 302, 307, 404)),
        ("server_error", (500, 503)),
        ("server_busy", (408, 429)),
    ],
)
async def test_a_status_other_than_200_is_refused_and_not_followed(
    server: PublicWebServer, certificate: Path, reason: str, statuses: tuple[int, ...]
) -> None:
    for status in statuses:
        server.page = Page(status=status, headers={"Location": f"https://{HOST}/other"})
        assert await get_rejection_reason(make_fetcher(server, certificate)) == reason
    assert len(server.requests) == len(statuses)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("Content-Type", "application/json", None),
        ("Content-Type", "Application/JSON; charset=utf-8", None),
        ("Content-Type", "application/client-id+json", None),
        ("Content-Type", "text/html", "content_type"),
        ("Content-Type", "text/json", "content_type"),
        ("Content-Type", "application/jsonp", "content_type"),
        ("Content-Type", "", "content_type"),
        ("Content-Encoding", "gzip", "content_encoding"),
    ],
)
async def test_only_json_is_accepted(
    server: PublicWebServer, certificate: Path, name: str, value: str, reason: str | None
) -> None:
    server.page = Page(headers={name: value})
    fetch = make_fetcher(server, certificate)
    if reason:
        assert await get_rejection_reason(fetch) == reason
    else:
        assert (await fetch.get(PublicUrl.parse(DOCUMENT_URL))).body == b"{}"


async def test_document_size_is_limited(server: PublicWebServer, certificate: Path) -> None:
    server.page = Page(b" " * FETCH_RULES.max_bytes)
    fetch = make_fetcher(server, certificate)
    assert len((await fetch.get(PublicUrl.parse(DOCUMENT_URL))).body) == FETCH_RULES.max_bytes
    server.page = Page(b" " * (FETCH_RULES.max_bytes + 1))
    assert await get_rejection_reason(fetch) == "too_large"
    server.page = Page(b" " * 1000, is_endless=True)
    assert await get_rejection_reason(fetch) == "too_large"


async def test_slowly_sending_server_times_out(server: PublicWebServer, certificate: Path) -> None:
    server.page = Page(b" ", is_endless=True, pause=0.05)
    fetch = make_fetcher(server, certificate, seconds=0.5)
    async with asyncio.timeout(60):
        assert await get_rejection_reason(fetch) == "too_slow"


async def test_proxy_settings_are_ignored(
    server: PublicWebServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{find_free_port()}")
    document = await make_fetcher(server, certificate).get(PublicUrl.parse(DOCUMENT_URL))
    assert document.body == b"{}"
