"""A URL from a stranger makes Carrel connect only to public addresses, and not for long."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import re
import ssl
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.gateway.oauth.client_id_metadata import FETCH_RULES
from shared.core.public_url import DocumentRejected, PublicUrl
from shared.core.safe_fetch import (
    Endpoint,
    FetchRules,
    SafeFetch,
    is_public,
    require_public_endpoints,
    resolve_public,
)
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

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address, IPv6Address
    from pathlib import Path

    from shared.core.safe_fetch import Resolve

PUBLIC_ADDRESSES = [
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "198.17.255.255",
    "223.255.255.255",
    "2001:200::1",
    "2606:4700:4700::1111",
    "2a00:1450:4001:82a::200e",
    "64:ff9b::8.8.8.8",
]
NON_PUBLIC_ADDRESSES = [
    "0.0.0.0",  # noqa: S104 - nothing binds to it
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:0:8.8.8.8",
    "64:ff9b::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b::100.64.0.1",
    "64:ff9b:1::8.8.8.8",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2::1",
    "2001:10::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "2002:808:808::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%1",
    "2606:4700:4700::1111%1",
    "fec0::1",
    "ff02::1",
    "localhost",
    "2130706433",
    "0x7f000001",
    "127.1",
    "",
]
INVALID_URLS = [
    "http://client.example/c",
    "https://client.example",
    "https://client.example#x",
    "https://client.example/c#x",
    "https://client.example/c#",
    "https://user@client.example/c",
    "https://user:pass@client.example/c",
    "https://@client.example/c",
    "https://client.example:8443/c",
    "https://client.example:0443/c",
    "https://client.example:/c",
    "https://client.example/a/./c",
    "https://client.example/a/../c",
    "https://client.example/..",
    "https://client.example/.",
    "https://client.example/a/%2e%2E/c",
    "https://client.example/a/.%2e",
    "https://127.0.0.1/c",
    "https://2130706433/c",
    "https://0x7f.1/c",
    "https://127.0.0.0x1/c",
    "https://[::1]/c",
    "https://localhost/c",
    "https://intranet/c",
    "https://client.example./c",
    "https://.example/c",
    "https://-client.example/c",
    "https://client_a.example/c",
    "https://c\N{LATIN SMALL LETTER LONG S}.example/c",
    "https://\N{KELVIN SIGN}.example/c",
    "https://client.example/caf\N{LATIN SMALL LETTER E WITH ACUTE}",
    "https://client.example\\@evil.example/c",
    "https://client.example/c d",
    "https://client.example/c\n",
    "https://client.example/c%2",
    "https://client.example/c%zz",
    " https://client.example/c",
    "https:/client.example/c",
    "//client.example/c",
    f"https://{'a' * 64}.example/c",
    f"https://{'a.' * 130}example/c",
    f"https://client.example/{'a' * 2000}",
    "",
]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of the client's host."""
    return write_certificate(tmp_path / "client.pem", HOST)


@pytest.fixture
def server(certificate: Path) -> Iterator[PublicWebServer]:
    """The server of the client's document."""
    with PublicWebServer(certificate) as document_server:
        yield document_server


async def get_rejection_reason(fetch: SafeFetch) -> str:
    """Fetch the client's document, which must be rejected; return the reason."""
    with pytest.raises(DocumentRejected) as error:
        await fetch.get(PublicUrl.parse(DOCUMENT_URL))
    return error.value.reason


@pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
def test_internet_address_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", NON_PUBLIC_ADDRESSES)
def test_a_special_or_invalid_address_is_not_public(address: str) -> None:
    assert not is_public(address)


@given(st.ip_addresses(v=4))
def test_embedded_ipv4_address_decides_whether_it_is_public(inner: IPv4Address) -> None:
    """The prefix 64:ff9b:: embeds an IPv4 address, as NAT64 does; ::ffff: maps one."""
    assert is_public(str(inner)) == is_public(f"64:ff9b::{inner}")
    assert not is_public(f"::ffff:{inner}")
    assert inner.is_global or not is_public(str(inner))


@given(st.ip_addresses(v=6))
def test_special_addresses_are_not_public(address: IPv6Address) -> None:
    text = str(address)
    if not text.startswith("64:ff9b:"):
        assert address.is_global or not is_public(text)


def test_host_with_one_private_address_is_rejected() -> None:
    with pytest.raises(DocumentRejected, match="address_not_public"):
        require_public_endpoints(["8.8.8.8", "10.0.0.1", "1.1.1.1"], 443)


def test_a_host_without_an_address_is_unknown() -> None:
    with pytest.raises(DocumentRejected, match="host_unknown"):
        require_public_endpoints([], 443)


def test_each_address_is_tried_once_ipv4_first() -> None:
    endpoints = require_public_endpoints(
        ["2606:4700::1", "8.8.8.8", "2606:4700::1", "1.1.1.1"], 443
    )
    assert endpoints == [("8.8.8.8", 443), ("1.1.1.1", 443), ("2606:4700::1", 443)]
    authorities = [endpoint.authority for endpoint in endpoints]
    assert authorities == ["8.8.8.8:443", "1.1.1.1:443", "[2606:4700::1]:443"]


@pytest.mark.anyio
async def test_a_name_of_this_machine_is_not_public() -> None:
    with pytest.raises(DocumentRejected, match="address_not_public"):
        await resolve_public("localhost", 443)


@pytest.mark.anyio
async def test_unregistered_name_is_unknown() -> None:
    with pytest.raises(DocumentRejected, match="host_unknown"):
        await resolve_public("nobody.invalid", 443)


@pytest.mark.parametrize("text", INVALID_URLS)
def test_a_url_with_an_unusual_part_is_refused(text: str) -> None:
    with pytest.raises(DocumentRejected, match="url"):
        PublicUrl.parse(text)


def test_url_is_parsed_into_host_and_target() -> None:
    url = PublicUrl.parse("https://Client.Example:443/a/..b/c.json?v=1")
    assert url.host == "client.example"
    assert url.target == "/a/..b/c.json?v=1"
    assert PublicUrl.parse("https://xn--bcher-kva.example/").target == "/"


@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_certificate_for_another_name_is_rejected(tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path / "other.pem", "other.example", "127.0.0.1")
    with PublicWebServer(certificate) as server:
        assert await get_rejection_reason(make_fetcher(server, certificate)) == "unreachable"
        assert server.requests == []


@pytest.mark.anyio
async def test_certificate_for_the_address_is_rejected(tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path / "address.pem")
    with PublicWebServer(certificate) as server:
        assert await get_rejection_reason(make_fetcher(server, certificate)) == "unreachable"
        assert server.requests == []


@pytest.mark.anyio
async def test_a_name_is_resolved_once_so_it_cannot_be_rebound(
    server: PublicWebServer, certificate: Path
) -> None:
    answers = [[server.endpoint], [Endpoint("127.0.0.1", find_free_port())]]

    async def resolve(_host: str, _port: int) -> list[Endpoint]:
        return answers.pop(0)

    tls = ssl.create_default_context(cafile=certificate)
    await SafeFetch(FETCH_RULES, resolve, tls).get(PublicUrl.parse(DOCUMENT_URL))
    assert len(answers) == 1


@pytest.mark.anyio
async def test_untrusted_certificate_is_rejected(server: PublicWebServer) -> None:
    fetch = SafeFetch(FETCH_RULES, make_resolver(server.endpoint))
    assert await get_rejection_reason(fetch) == "unreachable"
    assert server.requests == []


@pytest.mark.anyio
async def test_a_host_with_a_dead_first_address_is_reached_at_another(
    server: PublicWebServer, certificate: Path
) -> None:
    dead = Endpoint("127.0.0.1", find_free_port())
    tls = ssl.create_default_context(cafile=certificate)
    fetch = SafeFetch(FETCH_RULES, make_resolver(dead, server.endpoint), tls)
    document = await fetch.get(PublicUrl.parse(DOCUMENT_URL))
    assert document.body == b"{}"


@pytest.mark.anyio
async def test_only_three_addresses_of_a_host_are_tried(
    server: PublicWebServer, certificate: Path
) -> None:
    dead = Endpoint("127.0.0.1", find_free_port())
    tls = ssl.create_default_context(cafile=certificate)
    fetch = SafeFetch(FETCH_RULES, make_resolver(dead, dead, dead, server.endpoint), tls)
    assert await get_rejection_reason(fetch) == "unreachable"
    assert server.requests == []


@pytest.mark.anyio
@pytest.mark.parametrize("status", [201, 204, 301, 302, 307, 404, 500, 503])
async def test_a_status_other_than_200_is_refused_and_not_followed(
    server: PublicWebServer, certificate: Path, status: int
) -> None:
    server.page = Page(status=status, headers={"Location": f"https://{HOST}/other"})
    reason = "status" if status < 500 else "server_error"
    assert await get_rejection_reason(make_fetcher(server, certificate)) == reason
    assert len(server.requests) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("status", [408, 429])
async def test_a_busy_server_has_a_reason_of_its_own(
    server: PublicWebServer, certificate: Path, status: int
) -> None:
    server.page = Page(status=status)
    assert await get_rejection_reason(make_fetcher(server, certificate)) == "server_busy"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("content_type", "reason"),
    [
        ("application/json", None),
        ("Application/JSON; charset=utf-8", None),
        ("application/client-id+json", None),
        ("text/html", "content_type"),
        ("text/json", "content_type"),
        ("application/jsonp", "content_type"),
        ("", "content_type"),
    ],
)
async def test_only_json_is_accepted(
    server: PublicWebServer, certificate: Path, content_type: str, reason: str | None
) -> None:
    server.page = Page(headers={"Content-Type": content_type})
    fetch = make_fetcher(server, certificate)
    if reason:
        assert await get_rejection_reason(fetch) == reason
    else:
        assert (await fetch.get(PublicUrl.parse(DOCUMENT_URL))).body == b"{}"


@pytest.mark.anyio
async def test_a_compressed_body_is_refused(server: PublicWebServer, certificate: Path) -> None:
    server.page = Page(headers={"Content-Encoding": "gzip"})
    assert await get_rejection_reason(make_fetcher(server, certificate)) == "content_encoding"


@pytest.mark.anyio
async def test_document_size_is_limited(server: PublicWebServer, certificate: Path) -> None:
    server.page = Page(b" " * FETCH_RULES.max_bytes)
    fetch = make_fetcher(server, certificate)
    assert len((await fetch.get(PublicUrl.parse(DOCUMENT_URL))).body) == FETCH_RULES.max_bytes
    server.page = Page(b" " * (FETCH_RULES.max_bytes + 1))
    assert await get_rejection_reason(fetch) == "too_large"
    server.page = Page(b" " * 1000, is_endless=True)
    assert await get_rejection_reason(fetch) == "too_large"


@pytest.mark.anyio
async def test_slowly_sending_server_times_out(server: PublicWebServer, certificate: Path) -> None:
    server.page = Page(b" ", is_endless=True, pause=0.05)
    fetch = make_fetcher(server, certificate, seconds=0.5)
    async with asyncio.timeout(60):
        assert await get_rejection_reason(fetch) == "too_slow"


@pytest.mark.anyio
async def test_proxy_settings_are_ignored(
    server: PublicWebServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{find_free_port()}")
    document = await make_fetcher(server, certificate).get(PublicUrl.parse(DOCUMENT_URL))
    assert document.body == b"{}"


PAGE_RULES = FetchRules(
    max_bytes=10_000,
    seconds=5.0,
    media_types=re.compile("text/plain"),
    headers={},
    max_redirects=2,
    compressed=True,
)
"""The rules for pages, which may redirect and be compressed, unlike client documents."""


def make_page_fetcher(
    server: PublicWebServer, certificate: Path | None = None, *, resolve: Resolve | None = None
) -> SafeFetch:
    """Make a fetcher of pages, which takes the server for a public one."""
    tls = ssl.create_default_context(cafile=certificate)
    return SafeFetch(PAGE_RULES, resolve or make_resolver(server.endpoint), tls)


def make_redirect(location: str, status: int = 302) -> Page:
    """Make a redirect to a location."""
    return Page(status=status, headers={"Location": location})


def make_text_page(body: bytes, **headers: str) -> Page:
    """Make a page of plain text; an underscore in a header's name stands for a hyphen."""
    other_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return Page(body, headers={"Content-Type": "text/plain"} | other_headers)


async def get_page_rejection_reason(fetch: SafeFetch, url: str = f"http://{HOST}/") -> str:
    """Fetch a page, which must be rejected; return the reason."""
    with pytest.raises(DocumentRejected) as error:
        await fetch.get(PublicUrl.of_link(url))
    return error.value.reason


@pytest.fixture
def plain_server() -> Iterator[PublicWebServer]:
    """A web server without TLS."""
    with PublicWebServer(None) as document_server:
        yield document_server


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://client.example", "https://client.example/"),
        ("HTTP://Client.Example:80/a#part", "http://client.example/a"),
        ("https://client.example:443/a?b=c d", "https://client.example/a?b=c%20d"),
        ("https://client.example/a/../b/./c", "https://client.example/b/c"),
        ("https://client.example/caf\u00e9?q=\u00e9", "https://client.example/caf%C3%A9?q=%C3%A9"),
        ("https://b\u00fccher.example/100%", "https://xn--bcher-kva.example/100%25"),
        ("https://client.example/it's|[1]", "https://client.example/it%27s%7C%5B1%5D"),
        ("https://client.example//evil.example/x", "https://client.example//evil.example/x"),
    ],
)
def test_address_of_a_page_is_normalized(text: str, expected: str) -> None:
    url = PublicUrl.of_link(text)
    assert url.text == expected
    assert url.port == (443 if expected.startswith("https") else 80)
    assert PublicUrl.of_link(expected) == url


@pytest.mark.parametrize(
    "text",
    [
        "https://user@client.example/",
        "https://user:pass@client.example/",
        "https://@client.example/",
        "https://client.example:8443/",
        "http://client.example:443/",
        "https://client.example:99999/",
        "https://127.0.0.1/",
        "http://2130706433/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://localhost/",
        "http://metadata/",
        "file:///etc/passwd",
        "ftp://client.example/",
        "gopher://client.example/",
        "javascript:alert(1)",
        "https://client.example/a/%2e%2e/b",
        f"https://client.example/{'a' * 2000}",
        "client.example/page",
        "https://[client.example/",
        "https://..example/",
        "",
    ],
)
def test_an_address_that_is_not_a_public_page_is_refused(text: str) -> None:
    with pytest.raises(DocumentRejected, match="url"):
        PublicUrl.of_link(text)


@given(st.text())
def test_any_text_is_an_address_or_is_refused(text: str) -> None:
    with contextlib.suppress(DocumentRejected):
        url = PublicUrl.of_link(f"https://client.example/{text}")
        assert url.scheme == "https"
        assert url.port == 443


@pytest.mark.anyio
async def test_redirects_are_followed_and_the_last_url_returned(
    plain_server: PublicWebServer,
) -> None:
    plain_server.pages = {"/": make_redirect("/a?b=1", 301), "/a?b=1": make_redirect("b c#d", 308)}
    plain_server.page = make_text_page(b"Hello", Content_Type="text/plain; charset=utf-8")
    document = await make_page_fetcher(plain_server).get(PublicUrl.of_link(f"http://{HOST}"))
    assert document.body == b"Hello"
    assert document.url.text == f"http://{HOST}/b%20c"
    assert document.content_type == "text/plain; charset=utf-8"
    assert [request.target for request in plain_server.requests] == ["/", "/a?b=1", "/b%20c"]


@pytest.mark.anyio
async def test_too_many_redirects_are_refused(plain_server: PublicWebServer) -> None:
    plain_server.page = make_redirect("/again")
    assert await get_page_rejection_reason(make_page_fetcher(plain_server)) == "redirects"
    assert len(plain_server.requests) == PAGE_RULES.max_redirects + 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("http://127.0.0.1/", "url"),
        ("http://169.254.169.254/computeMetadata/v1/", "url"),
        ("http://[::1]/", "url"),
        ("http://[", "url"),
        ("http://localhost/", "url"),
        ("file:///etc/passwd", "url"),
        ("https://user:pass@client.example/", "url"),
        ("http://client.example:8080/", "url"),
        ("http://inside.example/", "address_not_public"),
    ],
)
async def test_a_redirect_into_the_servers_network_is_refused(
    plain_server: PublicWebServer, location: str, reason: str
) -> None:
    async def resolve(host: str, port: int) -> list[Endpoint]:
        if host == HOST:
            return [plain_server.endpoint]
        return require_public_endpoints(["10.0.0.1"], port)

    plain_server.page = make_redirect(location)
    assert (
        await get_page_rejection_reason(make_page_fetcher(plain_server, resolve=resolve)) == reason
    )
    assert len(plain_server.requests) == 1


@pytest.mark.anyio
async def test_redirect_from_https_to_http_is_refused(
    server: PublicWebServer, certificate: Path
) -> None:
    server.page = make_redirect(f"http://{HOST}/plain")
    fetch = make_page_fetcher(server, certificate)
    assert await get_page_rejection_reason(fetch, f"https://{HOST}/") == "redirect_to_http"


@pytest.mark.anyio
async def test_cookies_of_a_redirect_are_not_sent(plain_server: PublicWebServer) -> None:
    plain_server.pages["/"] = Page(
        status=302, headers={"Location": "/next", "Set-Cookie": "session=1"}
    )
    plain_server.page = make_text_page(b"Hello")
    await make_page_fetcher(plain_server).get(PublicUrl.of_link(f"http://{HOST}/"))
    assert "cookie" not in plain_server.requests[-1].headers


@pytest.mark.anyio
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_page_is_decompressed(
    plain_server: PublicWebServer, encoding: str
) -> None:
    body = (gzip if encoding == "gzip" else zlib).compress(b"Hello")
    plain_server.page = make_text_page(body, Content_Encoding=encoding)
    document = await make_page_fetcher(plain_server).get(PublicUrl.of_link(f"http://{HOST}/"))
    assert document.body == b"Hello"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "encoding", "reason"),
    [
        (gzip.compress(b" " * PAGE_RULES.max_bytes), "gzip", None),
        (gzip.compress(b" " * (PAGE_RULES.max_bytes + 1)), "gzip", "too_large"),
        (gzip.compress(b" " * 10_000_000), "gzip", "too_large"),
        (gzip.compress(b"Hello")[:-9], "gzip", "content_encoding"),
        (b"Hello", "gzip", "content_encoding"),
        (b"Hello", "br", "content_encoding"),
    ],
    # Bytes in a test's name would differ between processes: gzip stores the time.
    ids=["at the limit", "one above", "far above", "cut off", "not compressed", "unknown"],
)
async def test_decompression_is_limited(
    plain_server: PublicWebServer, body: bytes, encoding: str, reason: str | None
) -> None:
    plain_server.page = make_text_page(body, Content_Encoding=encoding)
    fetch = make_page_fetcher(plain_server)
    if reason:
        assert await get_page_rejection_reason(fetch) == reason
    else:
        document = await fetch.get(PublicUrl.of_link(f"http://{HOST}/"))
        assert len(document.body) == PAGE_RULES.max_bytes


@pytest.mark.anyio
async def test_a_refused_status_is_in_the_error(plain_server: PublicWebServer) -> None:
    plain_server.page = Page(status=404)
    with pytest.raises(DocumentRejected) as error:
        await make_page_fetcher(plain_server).get(PublicUrl.of_link(f"http://{HOST}/"))
    assert error.value.reason == "status"
    assert error.value.status == 404
