"""The gateway fetches ID tokens from Google's metadata server, and sends them to functions."""

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from google.auth.compute_engine import _metadata

from functions.gateway.calls.dispatch import HttpDispatcher, IdTokens
from functions.gateway.catalog import Declaration
from shared.core.settings import Settings
from shared.runtime.messages import CallAnswer, CallRequest
from tests.support.certificates import write_certificate
from tests.support.fakes.http_server import HANGS
from tests.support.fakes.metadata import FakeMetadata, decode_claims
from tests.support.fakes.tool_server import FakeToolServer
from tests.support.monotonic_clock import MonotonicClock
from tests.support.ports import find_free_port

SendCall = Callable[[], Awaitable[CallAnswer]]


@contextmanager
def use_metadata_server(address: str, tmp_path: Path) -> Iterator[None]:
    """Point google-auth at a metadata server, as its environment variables do."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GCE_METADATA_HOST", address)
        environment.setenv("GCE_METADATA_IP", address)
        environment.setenv("GCE_METADATA_DETECT_RETRIES", "1")
        environment.setenv("CLOUDSDK_CONFIG", str(tmp_path))
        environment.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        importlib.reload(_metadata)  # it reads the address when it is imported
        yield
    importlib.reload(_metadata)


@pytest.fixture
def metadata(tmp_path: Path) -> Iterator[FakeMetadata]:
    """The metadata server of this machine, for as long as the test runs."""
    with FakeMetadata() as server, use_metadata_server(server.address, tmp_path):
        yield server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for the loopback address, with its key."""
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    write_certificate(path)
    return path


@pytest.fixture
def function(certificate: Path) -> Iterator[FakeToolServer]:
    """A tool's function, reached over HTTPS as in the cloud."""
    with FakeToolServer(certificate=certificate) as server:
        yield server


@pytest.fixture
async def dispatcher(
    function: FakeToolServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[HttpDispatcher]:
    """A dispatcher that trusts the function's certificate."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    http_dispatcher = HttpDispatcher(Settings(tool_urls={"try_out": function.url}))
    yield http_dispatcher
    await http_dispatcher.aclose()


@pytest.fixture
def send_call(
    dispatcher: HttpDispatcher, declaration: Declaration, call_request: CallRequest
) -> SendCall:
    """A function that sends the call to the tool's function."""
    return lambda: dispatcher.call(declaration, call_request)


def get_received_token(server: FakeToolServer) -> str:
    """Return the token that came with the last request."""
    scheme, _, token = (server.authorizations[-1] or "").partition(" ")
    assert scheme == "Bearer"
    return token


def assert_unavailable(answer: CallAnswer) -> None:
    assert answer.error is not None
    assert answer.error.code == "UNAVAILABLE"
    assert answer.error.details == {"tool": "try_out"}


async def test_a_call_carries_a_token_made_for_its_function(
    metadata: FakeMetadata,
    function: FakeToolServer,
    dispatcher: HttpDispatcher,
    send_call: SendCall,
) -> None:
    assert await dispatcher.health() == {"try_out": "ok"}
    assert decode_claims(get_received_token(function))["aud"] == function.url
    answer = await send_call()
    assert answer.result == {"well": True}
    assert metadata.audiences == [function.url]
    assert decode_claims(get_received_token(function))["aud"] == function.url


async def test_a_token_is_kept_for_the_next_call_unless_about_to_expire(
    metadata: FakeMetadata,
) -> None:
    tokens = IdTokens()
    urls = ["https://a.example", "https://b.example"]
    headers = [await tokens.authorization(url) for url in [*urls, urls[0]]]
    assert headers[2] == headers[0]
    assert metadata.audiences == urls
    for header, url in zip(headers, urls, strict=False):
        assert decode_claims(header["authorization"].removeprefix("Bearer "))["aud"] == url

    metadata.lifetime = 60
    first, second = [await tokens.authorization("https://c.example") for _ in range(2)]
    assert first != second
    assert metadata.audiences == [*urls, *["https://c.example"] * 2]


async def test_no_token_is_fetched_or_sent_over_plain_http(
    metadata: FakeMetadata, declaration: Declaration, call_request: CallRequest
) -> None:
    with FakeToolServer() as server:
        dispatcher = HttpDispatcher(Settings(tool_urls={"try_out": server.url}))
        answer = await dispatcher.call(declaration, call_request)
        await dispatcher.aclose()
    assert answer.result == {"well": True}
    assert server.authorizations == [None]
    assert metadata.audiences == []


@pytest.mark.parametrize("token", [403, 404, "<html>captive portal</html>", "a.b", "e30.e30.e30"])
async def test_a_missing_or_malformed_token_makes_the_tool_unavailable(
    metadata: FakeMetadata, send_call: SendCall, function: FakeToolServer, token: str | int
) -> None:
    if isinstance(token, int):
        metadata.refusal = token
    else:
        metadata.token = token
    assert_unavailable(await send_call())
    assert function.authorizations == []


async def test_a_tool_is_unavailable_without_a_metadata_server(
    send_call: SendCall, dispatcher: HttpDispatcher, function: FakeToolServer, tmp_path: Path
) -> None:
    with use_metadata_server(f"127.0.0.1:{find_free_port()}", tmp_path):
        assert_unavailable(await send_call())
        assert (await dispatcher.health())["try_out"].startswith("unreachable")
    assert function.authorizations == []


async def test_a_call_does_not_wait_for_a_token_beyond_its_deadline(
    metadata: FakeMetadata, send_call: SendCall, monotonic: MonotonicClock
) -> None:
    metadata.pause_seconds = HANGS
    metadata.on_hang = partial(monotonic.advance_soon, 60)
    async with asyncio.timeout(120):
        assert_unavailable(await send_call())


async def test_a_failed_request_for_a_token_is_repeated(metadata: FakeMetadata) -> None:
    tokens = IdTokens()
    metadata.refusal = 403
    with pytest.raises(OSError, match="no ID token"):
        await tokens.authorization("https://a.example")
    metadata.refusal = None
    assert "authorization" in await tokens.authorization("https://a.example")
