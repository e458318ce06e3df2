"""A client may identify itself by the URL of a metadata document, which is fetched and cached.

See the draft "OAuth Client ID Metadata Document".
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functions.gateway.oauth.client_id_metadata import (
    FETCH_RULES,
    MAX_CACHED_LOOKUPS,
    MAX_CONCURRENT_FETCHES,
    ClientDocuments,
)
from shared.core.errors import Unavailable
from shared.core.safe_fetch import Endpoint, SafeFetch
from tests.support.certificates import write_certificate
from tests.support.clock import SettableClock
from tests.support.ports import find_free_port
from tests.support.public_web_server import (
    DOCUMENT_URL,
    HOST,
    Page,
    PublicWebServer,
    make_fetcher,
    make_resolver,
)

DOCUMENT: dict[str, Any] = {
    "client_id": DOCUMENT_URL,
    "client_name": "Claude Code",
    "client_uri": "https://client.example",
    "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
"""A metadata document like that of Claude Code."""
KEY_ONLY: dict[str, Any] = {"token_endpoint_auth_method": "private_key_jwt"}
INVALID_DOCUMENTS: list[tuple[str, dict[str, Any]]] = [
    ("client_id", {"client_id": f"{DOCUMENT_URL}?"}),
    ("client_id", {"client_id": DOCUMENT_URL.replace("client.example", "Client.example")}),
    ("client_id", {"client_id": None}),
    *(("client_secret", {"client_secret": "s"}), ("client_secret", {"client_secret": None})),
    ("client_secret", {"client_secret_expires_at": 0}),
    ("auth_method", {"token_endpoint_auth_method": "client_secret_basic"}),
    ("auth_method", {"token_endpoint_auth_method": None}),
    ("auth_method", KEY_ONLY),
    *(
        ("auth_method", KEY_ONLY | {"token_endpoint_auth_methods_supported": supported})
        for supported in (["private_key_jwt"], "none")
    ),
    *(
        ("redirect_uris", {"redirect_uris": uris})
        for uris in (
            *([], None, [5], "https://client.example/callback"),
            ["https://client.example/callback", "javascript:1"],
        )
    ),
    ("metadata", {"client_name": ["x"]}),
    ("metadata", {"logo_uri": "javascript:alert(1)"}),
]
"""The logged reason of each refusal, and the change that makes the document invalid."""


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the cache."""
    return SettableClock()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PublicWebServer]:
    """The server of the client's document."""
    certificate = write_certificate(tmp_path / "client.pem", HOST)
    with PublicWebServer(certificate, make_page(DOCUMENT)) as document_server:
        yield document_server


@pytest.fixture
def fetch(server: PublicWebServer, tmp_path: Path) -> SafeFetch:
    """A fetcher that connects to that server."""
    return make_fetcher(server, tmp_path / "client.pem")


@pytest.fixture
def documents(fetch: SafeFetch, clock: SettableClock) -> ClientDocuments:
    """The cache under test."""
    return ClientDocuments(fetch, clock)


def make_page(document: object, **headers: str) -> Page:
    """Return a page with a document; an underscore in a header's name stands for a hyphen."""
    header_names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Page(json.dumps(document).encode(), headers=header_names)


def read_log_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the log lines without their time."""
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [{key: value for key, value in line.items() if key != "time"} for line in lines]


async def test_a_client_has_the_fields_of_its_document(
    server: PublicWebServer, documents: ClientDocuments
) -> None:
    client = await documents.get(DOCUMENT_URL)
    assert client
    assert client.client_name == "Claude Code"
    assert [str(uri) for uri in client.redirect_uris or []] == DOCUMENT["redirect_uris"]

    other_url = f"{DOCUMENT_URL}?2"
    uris = ["cursor://anysphere.cursor-mcp/callback"]
    server.page = make_page({"client_id": other_url, "redirect_uris": uris})
    client = await documents.get(other_url)
    assert client
    assert client.token_endpoint_auth_method == "none"


@pytest.mark.parametrize(("reason", "changes"), INVALID_DOCUMENTS)
async def test_invalid_document_is_rejected(
    server: PublicWebServer,
    documents: ClientDocuments,
    capsys: pytest.CaptureFixture[str],
    reason: str,
    changes: dict[str, Any],
) -> None:
    server.page = make_page(DOCUMENT | changes)
    assert await documents.get(DOCUMENT_URL) is None
    line = {"severity": "WARNING", "message": "client_document_refused"}
    assert read_log_lines(capsys) == [{**line, "host": HOST, "reason": reason}]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"x"', b"null", b"\xff\xfe", b"[" * 60_000, b"NaN"]
)
async def test_a_document_that_is_not_a_json_object_is_rejected(
    server: PublicWebServer, documents: ClientDocuments, body: bytes
) -> None:
    server.page = Page(body)
    assert await documents.get(DOCUMENT_URL) is None


async def test_invalid_client_id_is_neither_fetched_nor_quoted(
    documents: ClientDocuments, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await documents.get("https://169.254.169.254/secret") is None
    line = {"severity": "WARNING", "message": "client_document_refused", "reason": "url"}
    assert read_log_lines(capsys) == [line]


async def test_concurrent_requests_share_one_fetch(
    server: PublicWebServer, documents: ClientDocuments
) -> None:
    clients = await asyncio.gather(*(documents.get(DOCUMENT_URL) for _ in range(20)))
    assert [client.client_name for client in clients if client] == ["Claude Code"] * 20
    assert len(server.requests) == 1


async def test_cancelled_request_does_not_cancel_a_shared_fetch(
    server: PublicWebServer, documents: ClientDocuments
) -> None:
    server.gate.clear()
    cancelled_task, other_task = (
        asyncio.create_task(documents.get(DOCUMENT_URL)) for _ in range(2)
    )
    await asyncio.to_thread(server.arrived.wait)
    cancelled_task.cancel()
    server.gate.set()
    client = await other_task

    assert client
    assert cancelled_task.cancelled()
    assert len(server.requests) == 1


async def test_number_of_concurrent_fetches_is_limited(
    server: PublicWebServer, documents: ClientDocuments
) -> None:
    server.gate.clear()
    tasks = [
        asyncio.create_task(documents.get(f"{DOCUMENT_URL}?{number}"))
        for number in range(MAX_CONCURRENT_FETCHES)
    ]
    await asyncio.sleep(0)
    [error] = await asyncio.gather(documents.get(DOCUMENT_URL), return_exceptions=True)
    server.gate.set()
    await asyncio.gather(*tasks)

    assert isinstance(error, Unavailable)
    assert "Too many programs are being looked up at the same time." in error.message
    assert error.retry_after == 5
    assert await documents.get(DOCUMENT_URL)


@pytest.mark.parametrize(
    ("cache_control", "seconds"),
    [
        ("", 900),
        ("public", 900),
        ("max-age=30", 30),
        ("public, Max-Age=30", 30),
        ('max-age="30"', 30),
        *(("no-store", 0), ("No-Cache, max-age=60", 0), ("max-age=0", 0)),
        ("max-age=30, max-age=60", 30),
        ("max-age=31536000, immutable", 3600),
        ("max-age=soon", 900),
        ("max-age=-1", 900),
    ],
)
async def test_document_is_cached_for_an_hour_at_most(
    server: PublicWebServer,
    documents: ClientDocuments,
    clock: SettableClock,
    cache_control: str,
    seconds: float,
) -> None:
    server.page = make_page(DOCUMENT, cache_control=cache_control)
    await documents.get(DOCUMENT_URL)
    if seconds:
        clock.advance(seconds=seconds - 0.001)
        await documents.get(DOCUMENT_URL)
        assert len(server.requests) == 1
        clock.advance(seconds=0.001)
    await documents.get(DOCUMENT_URL)
    assert len(server.requests) == 2


async def test_failure_is_cached_for_a_minute(
    server: PublicWebServer, documents: ClientDocuments, clock: SettableClock
) -> None:
    server.page = Page(status=404)
    assert await documents.get(DOCUMENT_URL) is None
    server.page = make_page(DOCUMENT)
    clock.advance(seconds=59.9)
    assert await documents.get(DOCUMENT_URL) is None
    assert len(server.requests) == 1
    clock.advance(seconds=0.1)
    assert await documents.get(DOCUMENT_URL)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_a_server_error_is_cached_for_a_minute(
    server: PublicWebServer, documents: ClientDocuments, clock: SettableClock, status: int
) -> None:
    server.page = Page(status=status)
    for _ in range(2):
        with pytest.raises(Unavailable, match="Try again in a minute") as caught:
            await documents.get(DOCUMENT_URL)
        assert caught.value.retry_after == 60
    assert len(server.requests) == 1
    server.page = make_page(DOCUMENT)
    clock.advance(minutes=1)
    assert await documents.get(DOCUMENT_URL)


async def test_a_slow_unreachable_or_unknown_server_is_a_temporary_error(
    server: PublicWebServer, documents: ClientDocuments, tmp_path: Path
) -> None:
    server.gate.clear()
    dead_endpoint = Endpoint("127.0.0.1", find_free_port())
    for fetch in (
        make_fetcher(server, tmp_path / "client.pem", seconds=0.1),
        SafeFetch(FETCH_RULES, make_resolver(dead_endpoint)),
    ):
        with pytest.raises(Unavailable, match="cannot be fetched right now"):
            await ClientDocuments(fetch).get(DOCUMENT_URL)

    with pytest.raises(Unavailable, match="server of that address does not exist") as caught:
        await documents.get("https://nobody.example/client.json")
    assert "Check the address in the program's settings" in caught.value.message
    assert caught.value.retry_after == 60


async def test_the_cache_is_bounded_and_drops_the_oldest_document(
    server: PublicWebServer, documents: ClientDocuments
) -> None:
    for number in range(MAX_CACHED_LOOKUPS + 1):
        with pytest.raises(Unavailable):
            await documents.get(f"https://nobody{number}.example/c")
    await documents.get(DOCUMENT_URL)
    await documents.get(DOCUMENT_URL)
    assert len(server.requests) == 1
    assert len(documents._cache) == MAX_CACHED_LOOKUPS  # noqa: SLF001 - memory is what is tested
