"""Pages from a stranger may redirect and be compressed, but only within the limits."""

import gzip
import re
import ssl
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.core.public_url import DocumentRejected, PublicUrl
from shared.core.safe_fetch import (
    Endpoint,
    FetchedDocument,
    FetchRules,
    SafeFetch,
    require_public_endpoints,
)
from tests.support.public_web_server import HOST, Page, PublicWebServer, make_resolver

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
    server: PublicWebServer,
    certificate: Path | None = None,
    *,
    resolve: Callable[..., Any] | None = None,
) -> SafeFetch:
    """Make a fetcher of pages, which takes the server for a public one."""
    tls = ssl.create_default_context(cafile=certificate)
    return SafeFetch(PAGE_RULES, resolve or make_resolver(server.endpoint), tls)


def make_redirect(location: str, status: int = 302, **headers: str) -> Page:
    return Page(status=status, headers={"Location": location, **headers})


def make_text_page(body: bytes, encoding: str | None = None) -> Page:
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    return Page(body, headers=headers | ({"Content-Encoding": encoding} if encoding else {}))


async def fetch_page(fetch: SafeFetch, url: str = f"http://{HOST}/") -> FetchedDocument:
    return await fetch.get(PublicUrl.of_link(url))


async def get_page_rejection(fetch: SafeFetch, url: str = f"http://{HOST}/") -> DocumentRejected:
    """Fetch a page, which must be rejected; return the error."""
    with pytest.raises(DocumentRejected) as error:
        await fetch_page(fetch, url)
    return error.value


@pytest.fixture
def plain_server() -> Iterator[PublicWebServer]:
    with PublicWebServer(None) as document_server:
        yield document_server


async def test_redirects_are_followed_and_the_last_url_returned(
    plain_server: PublicWebServer,
) -> None:
    plain_server.pages = {
        "/": make_redirect("/a?b=1", 301, **{"Set-Cookie": "session=1"}),
        "/a?b=1": make_redirect("b c#d", 308),
    }
    plain_server.page = make_text_page(b"Hello")
    document = await fetch_page(make_page_fetcher(plain_server), f"http://{HOST}")
    assert document.body == b"Hello"
    assert document.url.text == f"http://{HOST}/b%20c"
    assert document.content_type == "text/plain; charset=utf-8"
    assert [request.target for request in plain_server.requests] == ["/", "/a?b=1", "/b%20c"]
    assert not [request for request in plain_server.requests if "cookie" in request.headers]


async def test_too_many_redirects_are_refused(plain_server: PublicWebServer) -> None:
    plain_server.page = make_redirect("/again")
    assert (await get_page_rejection(make_page_fetcher(plain_server))).reason == "redirects"
    assert len(plain_server.requests) == PAGE_RULES.max_redirects + 1


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
    rejection = await get_page_rejection(make_page_fetcher(plain_server, resolve=resolve))
    assert rejection.reason == reason
    assert len(plain_server.requests) == 1


async def test_redirect_from_https_to_http_is_refused(
    server: PublicWebServer, certificate: Path
) -> None:
    server.page = make_redirect(f"http://{HOST}/plain")
    fetch = make_page_fetcher(server, certificate)
    assert (await get_page_rejection(fetch, f"https://{HOST}/")).reason == "redirect_to_http"


LIMIT = b" " * PAGE_RULES.max_bytes


@pytest.mark.parametrize(
    ("body", "encoding", "result"),
    [
        (zlib.compress(b"Hello"), "deflate", b"Hello"),
        (gzip.compress(LIMIT), "gzip", LIMIT),
        (gzip.compress(LIMIT + b" "), "gzip", "too_large"),
        (gzip.compress(b" " * 10_000_000), "gzip", "too_large"),
        (gzip.compress(b"Hello")[:-9], "gzip", "content_encoding"),
        (b"Hello", "gzip", "content_encoding"),
        (b"Hello", "br", "content_encoding"),
    ],
    # Bytes in a test's name would differ between processes: gzip stores the time.
    ids=["deflate", "at the limit", "one above", "far above", "cut off", "not compressed", "br"],
)
async def test_decompression_is_limited(
    plain_server: PublicWebServer, body: bytes, encoding: str, result: str | bytes
) -> None:
    plain_server.page = make_text_page(body, encoding)
    fetch = make_page_fetcher(plain_server)
    if isinstance(result, str):
        assert (await get_page_rejection(fetch)).reason == result
    else:
        assert (await fetch_page(fetch)).body == result


async def test_a_refused_status_is_in_the_error(plain_server: PublicWebServer) -> None:
    plain_server.page = Page(status=404)
    rejection = await get_page_rejection(make_page_fetcher(plain_server))
    assert (rejection.reason, rejection.status) == ("status", 404)
