"""The OpenAI-compatible embedder is tested with its real client and a fake server that can fail.

A caller may bring their own key. Its errors are the caller's, not the operator's.
"""

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr

from shared.ai.embedding import PROBE, Embedder, Purpose, Vector, unit_vector
from shared.core import errors
from shared.core.circuit_breaker import FAILURE_THRESHOLD
from shared.core.errors import CarrelError, PlatformFault, Unavailable
from shared.core.http import MAX_RETRY_AFTER, parse_retry_after
from tests.support.fakes import openai
from tests.support.fakes.openai import MODEL, FakeOpenAI, Reply, hash_words, make_error_reply
from tests.support.model_clients import (
    CALLERS_KEY,
    CREDENTIAL,
    PRIVATE_TEXT,
    fail,
    open_openai_embedder,
)


async def embed(
    server: FakeOpenAI, texts: list[str], purpose: Purpose = Purpose.DOCUMENT, **options: Any
) -> list[Vector]:
    async with open_openai_embedder(server, **options) as embedder:
        return await embedder.embed(texts, purpose)


async def fail_to_embed(embedder: Embedder) -> CarrelError:
    return await fail(embedder.embed([PRIVATE_TEXT], Purpose.DOCUMENT))


async def fail_once(
    server: FakeOpenAI, callers_key: SecretStr | None = None, **options: Any
) -> CarrelError:
    """Embed one text, on behalf of a caller if there is a key; return the error."""
    async with open_openai_embedder(server, **options) as embedder:
        return await fail_to_embed(embedder.on_behalf_of(callers_key) if callers_key else embedder)


def compute_expected(text: str, dimension: int = 8) -> Vector:
    """Return the fake server's vector of a text, scaled to length 1."""
    return unit_vector(hash_words(text, dimension), dimension)


@pytest.mark.requirement("001-A5", "001-G1", "001-G2")
@pytest.mark.parametrize("purpose", list(Purpose))
async def test_the_request_has_key_model_and_dimension(purpose: Purpose) -> None:
    with FakeOpenAI() as server:
        await embed(server, ["Bees dance."], purpose, base_url=f"{server.base_url}/")
    (call,) = server.calls

    assert call.path == "/v1/embeddings"
    assert call.headers["authorization"] == f"Bearer {CREDENTIAL}"

    request = {
        "model": MODEL,
        "input": ["Bees dance."],
        "encoding_format": "float",
        "dimensions": 8,
    }
    assert call.body == request


async def test_key_and_dimension_are_optional() -> None:
    with FakeOpenAI() as server:
        server.accepts_dimensions = False
        options: dict[str, Any] = {
            "dimension": openai.DIMENSION,
            "sends_dimension": False,
            "api_key": None,
        }
        (vector,) = await embed(server, ["Bees dance."], **options)

    assert vector == pytest.approx(compute_expected("Bees dance.", openai.DIMENSION))
    assert server.calls[0].key is None
    assert "dimensions" not in server.calls[0].body


async def test_texts_are_sent_in_batches_of_32() -> None:
    texts = [f"text {number}" for number in range(70)]
    with FakeOpenAI(Reply(pause=0.2), Reply(pause=0.1), openai.REVERSED) as server:
        vectors = await embed(server, texts)
    assert sorted(server.text_counts) == [6, 32, 32]
    assert vectors == [pytest.approx(compute_expected(text)) for text in texts]


@pytest.mark.usefixtures("instant_sleep")
async def test_a_waiting_request_does_not_block_others() -> None:
    with FakeOpenAI(make_error_reply(429, retry_after="10")) as server:
        async with (
            open_openai_embedder(server, concurrency=1) as embedder,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(embedder.embed(["one"], Purpose.DOCUMENT))
            group.create_task(embedder.embed(["two"], Purpose.DOCUMENT))
    throttled_call, other_call, repeated_call = server.calls
    assert throttled_call.texts == repeated_call.texts != other_call.texts


async def test_a_batch_that_is_too_large_is_halved() -> None:
    texts = [f"{number:03} {'word ' * 20}" for number in range(40)]
    with FakeOpenAI() as server:
        server.max_characters = 1_000
        vectors = await embed(server, texts)
    assert vectors == [pytest.approx(compute_expected(text)) for text in texts]
    assert [call.texts for call in server.calls].count([PROBE]) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("30", 30.0),
        ("999999999", MAX_RETRY_AFTER),
        ("Fri, 31 May 2024 12:01:30 GMT", 90.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Sun Nov  6 08:49:37 1994", 0.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("Mon, 99999999999 Jan 2026 00:00:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert parse_retry_after(header, datetime(2024, 5, 31, 12, tzinfo=UTC)) == seconds


@pytest.mark.parametrize("base_url", ["nowhere", "ftp://127.0.0.1", "http://127.0.0.1:port"])
async def test_an_invalid_address_is_a_fault(base_url: str) -> None:
    with FakeOpenAI() as server:
        assert PlatformFault is type(await fail_once(server, base_url=base_url))


REPLIES_WITHOUT_QUOTA = [
    make_error_reply(402),
    make_error_reply(429, "insufficient_quota", PRIVATE_TEXT),
    make_error_reply(403, "insufficient_user_quota", PRIVATE_TEXT),
    make_error_reply(400, "insufficient_quota", PRIVATE_TEXT),
    Reply(429, b'{"error": {"type": "insufficient_quota", "code": 429}}'),
]


@pytest.mark.parametrize("reply", REPLIES_WITHOUT_QUOTA)
async def test_an_account_without_quota_is_not_retried(
    reply: Reply, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeOpenAI(usual=reply) as server:
        callers_failure = await fail_once(server, CALLERS_KEY)
        assert capsys.readouterr().err == ""
        operators_failure = await fail_once(server)
    assert type(operators_failure) is Unavailable
    assert operators_failure.retry_after == MAX_RETRY_AFTER
    assert "top it up" in capsys.readouterr().err
    assert errors.PaymentRequired is type(callers_failure)
    assert len(server.calls) == 2


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
async def test_a_key_that_is_invalid_in_a_header_is_not_sent(key: str) -> None:
    with FakeOpenAI() as server:
        assert PlatformFault is type(await fail_once(server, api_key=SecretStr(key)))
        assert errors.Forbidden is type(await fail_once(server, SecretStr(key)))
    assert server.calls == []


@pytest.mark.requirement("001-E1")
async def test_a_callers_key_is_sent_over_the_same_connection() -> None:
    with FakeOpenAI(Reply(headers={"Set-Cookie": "whose=mine; Path=/"})) as server:
        async with open_openai_embedder(server) as embedder:
            await embedder.embed(["one"], Purpose.DOCUMENT)
            callers_embedder = embedder.on_behalf_of(CALLERS_KEY)
            await callers_embedder.embed(["two"], Purpose.DOCUMENT)
            await callers_embedder.aclose()
            await embedder.embed(["three"], Purpose.DOCUMENT)
    keys = [CREDENTIAL, CALLERS_KEY.get_secret_value(), CREDENTIAL]

    assert [call.key for call in server.calls] == keys
    assert not [call for call in server.calls if "cookie" in call.headers]
    assert server.connections == 1
    assert callers_embedder.model == MODEL
    assert callers_embedder.dimension == 8
    assert callers_embedder.batch_size == 32


async def test_errors_of_a_callers_key_go_to_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeOpenAI(
        make_error_reply(403, "", f"{PRIVATE_TEXT} {CALLERS_KEY.get_secret_value()}")
    ) as server:
        server.keys = {CREDENTIAL}
        failures = [await fail_once(server, CALLERS_KEY) for _ in range(2)]
        await embed(server, ["one"])
    assert [type(failure) for failure in failures] == [errors.Forbidden] * 2
    assert "a key that the endpoint accepts" in failures[0].message
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("instant_sleep")
async def test_a_throttled_callers_key_is_retried() -> None:
    with FakeOpenAI(usual=make_error_reply(429)) as server:
        failure = await fail_once(server, CALLERS_KEY, time_limit=60)
    assert type(failure) is errors.RateLimited
    assert failure.retry_after == 10.0
    assert len(server.calls) > 1


@pytest.mark.parametrize("status", [401, 402, 429, 503])
async def test_a_callers_key_never_opens_the_breaker(status: int) -> None:
    with FakeOpenAI(usual=make_error_reply(status, retry_after="60")) as server:
        async with open_openai_embedder(server) as embedder:
            for _ in range(FAILURE_THRESHOLD + 1):
                await fail_to_embed(embedder.on_behalf_of(CALLERS_KEY))
            server.usual = Reply()
            await embedder.embed(["one"], Purpose.DOCUMENT)
    assert len(server.calls) == FAILURE_THRESHOLD + 2


async def test_each_key_has_its_own_concurrency_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    barrier = threading.Barrier(2, timeout=60)  # passes only if two requests run together
    with FakeOpenAI() as server:
        monkeypatch.setattr(server, "pause", lambda _: barrier.wait())
        async with (
            open_openai_embedder(server, concurrency=1) as embedder,
            asyncio.TaskGroup() as group,
        ):
            for key_embedder in (embedder, embedder.on_behalf_of(CALLERS_KEY)):
                group.create_task(key_embedder.embed(["one"] * 64, Purpose.DOCUMENT))
    assert len(server.calls) == 4
    assert server.peak == 2
