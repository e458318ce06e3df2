"""The OpenAI-compatible embedder is tested with its real client and a fake server that can fail.

A caller may bring their own key. Its errors are the caller's, not the operator's.
"""

from __future__ import annotations

import asyncio
import math
import threading
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from email.utils import format_datetime
from functools import partial
from typing import Any

import pytest
from pydantic import SecretStr

from shared.ai.embedding import PROBE, Embedder, Purpose, Vector, unit_vector
from shared.ai.openai_embedding import OpenAIEmbedder
from shared.ai.retrying import ATTEMPTS_IN_TIME, QUERY_SECONDS
from shared.core import errors
from shared.core.circuit_breaker import FAILURE_THRESHOLD
from shared.core.dates import utc_now
from shared.core.errors import CarrelError, InvalidInput, PlatformFault, Unavailable
from shared.core.http import MAX_RETRY_AFTER, parse_retry_after
from tests.support.fakes import openai
from tests.support.fakes.openai import HANG, MODEL, FakeOpenAI, Reply, hash_words, make_error_reply
from tests.support.monotonic_clock import MonotonicClock

OPERATORS_KEY = "sk-a-key-nobody-may-see"
CALLERS_KEY = SecretStr("sk-a-callers-own-key")
PRIVATE_TEXT = "what a reader wrote and nobody else may see"


@asynccontextmanager
async def open_embedder(server: FakeOpenAI, **options: Any) -> AsyncIterator[OpenAIEmbedder]:
    """Open an embedder on the fake server; options replace its default arguments."""
    defaults = {"base_url": server.base_url, "model": MODEL, "dimension": 8}
    embedder = OpenAIEmbedder(**{**defaults, "api_key": SecretStr(OPERATORS_KEY), **options})
    try:
        yield embedder
    finally:
        await embedder.aclose()


async def embed(
    server: FakeOpenAI, texts: list[str], purpose: Purpose = Purpose.DOCUMENT, **options: Any
) -> list[Vector]:
    """Embed texts with a new embedder."""
    async with open_embedder(server, **options) as embedder:
        return await embedder.embed(texts, purpose)


async def embed_with_error(embedder: Embedder) -> CarrelError:
    """Embed one text; return the error, which must not reveal texts or keys."""
    with pytest.raises(CarrelError) as failure:
        await embedder.embed([PRIVATE_TEXT], Purpose.DOCUMENT)
    traceback_text = "".join(traceback.format_exception(failure.value))
    visible_text = traceback_text + str(failure.value.to_wire())
    for private in (PRIVATE_TEXT, OPERATORS_KEY, CALLERS_KEY.get_secret_value()):
        assert private not in visible_text
    return failure.value


async def expect_failure(
    server: FakeOpenAI, callers_key: SecretStr | None = None, **options: Any
) -> CarrelError:
    """Embed one text, on behalf of a caller if there is a key; return the error."""
    async with open_embedder(server, **options) as embedder:
        return await embed_with_error(
            embedder.on_behalf_of(callers_key) if callers_key else embedder
        )


def compute_expected(text: str, dimension: int = 8) -> Vector:
    """Return the fake server's vector of a text, scaled to length 1."""
    return unit_vector(hash_words(text, dimension), dimension)


def make_texts(count: int) -> list[str]:
    return [f"text {number}" for number in range(count)]


async def test_a_text_becomes_its_vector_scaled_to_length_one() -> None:
    with FakeOpenAI() as server:
        (vector,) = await embed(server, ["Bees dance."])
    assert vector == pytest.approx(compute_expected("Bees dance."))
    assert math.hypot(*vector) == pytest.approx(1.0)


@pytest.mark.requirement("001-A5", "001-G1", "001-G2")
@pytest.mark.parametrize("purpose", list(Purpose))
async def test_the_request_has_key_model_and_dimension(purpose: Purpose) -> None:
    with FakeOpenAI() as server:
        await embed(server, ["Bees dance."], purpose, base_url=f"{server.base_url}/")
    (call,) = server.calls

    assert call.path == "/v1/embeddings"
    assert call.headers["authorization"] == f"Bearer {OPERATORS_KEY}"

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
    texts = make_texts(70)
    with FakeOpenAI(Reply(pause=0.2), Reply(pause=0.1), openai.REVERSED) as server:
        vectors = await embed(server, texts)
    assert sorted(server.text_counts) == [6, 32, 32]
    assert vectors == [pytest.approx(compute_expected(text)) for text in texts]


async def test_concurrency_is_limited_over_two_calls() -> None:
    with FakeOpenAI(usual=Reply(pause=0.05)) as server:
        async with open_embedder(server, concurrency=3) as embedder, asyncio.TaskGroup() as group:
            group.create_task(embedder.embed(make_texts(150), Purpose.DOCUMENT))
            group.create_task(embedder.embed(make_texts(150), Purpose.DOCUMENT))
    assert len(server.calls) == 10
    assert server.peak == 3


async def test_an_empty_list_of_texts_needs_no_request() -> None:
    with FakeOpenAI() as server:
        assert await embed(server, []) == []
    assert server.calls == []


async def test_a_lone_surrogate_is_refused_before_a_request_is_sent() -> None:
    with FakeOpenAI() as server, pytest.raises(InvalidInput, match="whole characters"):
        await embed(server, ["fine", "\ud83d"])
    assert server.calls == []


async def test_cookies_are_not_kept() -> None:
    with FakeOpenAI(Reply(headers={"Set-Cookie": "whose=mine; Path=/"})) as server:
        async with open_embedder(server) as embedder:
            await embedder.embed(["one"], Purpose.DOCUMENT)
            await embedder.on_behalf_of(CALLERS_KEY).embed(["two"], Purpose.DOCUMENT)
    assert ["cookie" in call.headers for call in server.calls] == [False, False]


@pytest.mark.usefixtures("instant_sleep")
async def test_a_throttled_request_waits_for_retry_after() -> None:
    with FakeOpenAI(make_error_reply(429, "rate_limit_exceeded", retry_after="10")) as server:
        await embed(server, ["Bees dance."])
    assert server.calls[1].at - server.calls[0].at >= 10


@pytest.mark.usefixtures("instant_sleep")
async def test_a_waiting_request_does_not_block_others() -> None:
    with FakeOpenAI(make_error_reply(429, retry_after="10")) as server:
        async with open_embedder(server, concurrency=1) as embedder, asyncio.TaskGroup() as group:
            group.create_task(embedder.embed(["one"], Purpose.DOCUMENT))
            group.create_task(embedder.embed(["two"], Purpose.DOCUMENT))
    throttled_call, other_call, repeated_call = server.calls
    assert throttled_call.texts == repeated_call.texts != other_call.texts


@pytest.mark.requirement("001-X3")
@pytest.mark.parametrize(
    "reply",
    [
        make_error_reply(408),
        make_error_reply(429),
        make_error_reply(500),
        make_error_reply(503),
        make_error_reply(529),
        openai.CUT_CONNECTION,
    ],
)
@pytest.mark.usefixtures("instant_sleep")
async def test_transient_failures_are_retried(reply: Reply) -> None:
    with FakeOpenAI(reply) as server:
        await embed(server, ["Bees dance."])
    assert len(server.calls) == 2


async def test_a_request_without_an_answer_leaves_time_for_a_retry(
    monotonic: MonotonicClock,
) -> None:
    with FakeOpenAI(HANG) as server:
        server.on_hang = partial(monotonic.advance_soon, 60 / ATTEMPTS_IN_TIME)
        await embed(server, ["Bees dance."], Purpose.DOCUMENT, time_limit=60)
    assert len(server.calls) == 2


async def test_a_wait_beyond_the_time_limit_is_reported() -> None:
    with FakeOpenAI(usual=make_error_reply(429, message=PRIVATE_TEXT, retry_after="60")) as server:
        failure = await expect_failure(server)
    assert type(failure) is Unavailable
    assert failure.retry_after == 60.0
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    "reply",
    [
        make_error_reply(429, "", PRIVATE_TEXT),
        make_error_reply(500, "", PRIVATE_TEXT),
        openai.CUT_CONNECTION,
        HANG,
    ],
)
@pytest.mark.usefixtures("instant_sleep")
async def test_lasting_failures_are_unavailable(reply: Reply, monotonic: MonotonicClock) -> None:
    with FakeOpenAI(usual=reply) as server:
        server.on_hang = partial(monotonic.advance_soon, 60)
        failure = await expect_failure(server, time_limit=60)
    assert type(failure) is Unavailable
    assert failure.retry_after == 10.0


async def test_the_time_limit_covers_all_texts_of_a_call(
    monotonic: MonotonicClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeOpenAI(usual=Reply(pause=20)) as server:
        monkeypatch.setattr(server, "pause", monotonic.advance)
        with pytest.raises(Unavailable):
            await embed(server, make_texts(320), concurrency=1, time_limit=90)
    assert len(server.calls) == 5


async def test_a_query_has_a_shorter_time_limit(monotonic: MonotonicClock) -> None:
    with FakeOpenAI(usual=HANG) as server:
        server.on_hang = partial(monotonic.advance_soon, QUERY_SECONDS)
        async with asyncio.timeout(60):
            with pytest.raises(Unavailable):
                await embed(server, ["one"], Purpose.QUERY, time_limit=3600)


@pytest.mark.usefixtures("instant_sleep")
async def test_an_unreachable_server_is_unavailable() -> None:
    with FakeOpenAI() as server:
        pass
    assert Unavailable is type(await expect_failure(server, time_limit=60))


def test_retry_after_is_seconds_or_a_date() -> None:
    now = utc_now().replace(microsecond=0)
    date_header = format_datetime(now + timedelta(seconds=90), usegmt=True)
    assert parse_retry_after("30", now) == 30.0
    assert parse_retry_after(date_header, now) == 90.0
    assert parse_retry_after("999999999", now) == MAX_RETRY_AFTER


@pytest.mark.parametrize("header", ["Sun, 06 Nov 1994 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"])
def test_a_retry_after_in_the_past_is_zero(header: str) -> None:
    assert parse_retry_after(header, utc_now()) == 0.0


@pytest.mark.parametrize("header", ["", "soon", "-1", "Mon, 99999999999 Jan 2026 00:00:00 GMT"])
def test_an_invalid_retry_after_is_ignored(header: str) -> None:
    assert parse_retry_after(header, utc_now()) is None


async def test_five_failures_open_the_breaker() -> None:
    with FakeOpenAI(usual=make_error_reply(503, retry_after="60")) as server:
        async with open_embedder(server) as embedder:
            for _ in range(FAILURE_THRESHOLD):
                await embed_with_error(embedder)
            error = await embed_with_error(embedder)
    assert type(error) is Unavailable
    assert error.retry_after == 30
    assert len(server.calls) == FAILURE_THRESHOLD


async def test_refused_texts_do_not_count_as_failures() -> None:
    with FakeOpenAI() as server:
        server.rejected_words = PRIVATE_TEXT
        async with open_embedder(server) as embedder:
            for _ in range(FAILURE_THRESHOLD + 2):
                assert InvalidInput is type(await embed_with_error(embedder))


async def test_a_refused_text_is_named_by_its_index() -> None:
    texts = [*make_texts(40), "", *make_texts(29)]
    with FakeOpenAI() as server, pytest.raises(InvalidInput, match="text 40") as error:
        await embed(server, texts)
    assert error.value.details == {"text": 40}


async def test_a_batch_that_is_too_large_is_halved() -> None:
    texts = [f"{number:03} {'word ' * 20}" for number in range(40)]
    with FakeOpenAI() as server:
        server.max_characters = 1_000
        vectors = await embed(server, texts)
    assert vectors == [pytest.approx(compute_expected(text)) for text in texts]
    assert [call.texts for call in server.calls].count([PROBE]) == 1


async def test_the_first_failure_cancels_the_other_requests() -> None:
    with FakeOpenAI(make_error_reply(404), usual=HANG) as server:
        async with asyncio.timeout(60):
            with pytest.raises(PlatformFault):
                await embed(server, make_texts(70), time_limit=3600)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (openai.ONE_NUMBER_SHORT, "7 numbers, not 8"),
        (openai.NOT_A_NUMBER, "without a direction"),
        (openai.ZEROS, "without a direction"),
        (openai.ONE_MISSING, "1 vectors, not one for each of 2 texts"),
        (openai.ONE_TWICE, "2 vectors, not one for each of 2 texts"),
        (Reply(body=b"no gzip", headers={"Content-Encoding": "gzip"}), "cannot be decoded"),
        *((reply, "is not valid") for reply in openai.make_invalid_replies(PRIVATE_TEXT)),
    ],
)
async def test_a_reply_without_one_vector_per_text_is_a_fault(
    reply: Reply, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeOpenAI(reply) as server, pytest.raises(PlatformFault, match=message) as failure:
        await embed(server, [PRIVATE_TEXT, "two"])
    output = "".join(traceback.format_exception(failure.value)) + capsys.readouterr().err
    assert PRIVATE_TEXT not in output
    assert message in output


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (302, "base URL"),
        (400, "shortened"),
        (401, "key that it accepts"),
        (403, "may use the model"),
        (404, "base URL"),
        (413, "rejects every text"),
        (422, "dimension"),
    ],
)
async def test_a_wrong_configuration_is_logged_with_advice(
    status: int, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeOpenAI(
        usual=make_error_reply(status, "", f"{PRIVATE_TEXT} {OPERATORS_KEY}")
    ) as server:
        failure = await expect_failure(server)
    log_text = capsys.readouterr().err
    assert PlatformFault is type(failure)
    assert advice in log_text
    assert PRIVATE_TEXT not in log_text
    assert OPERATORS_KEY not in log_text


@pytest.mark.parametrize("base_url", ["nowhere", "ftp://127.0.0.1", "http://127.0.0.1:port"])
async def test_an_invalid_address_is_a_fault(base_url: str) -> None:
    with FakeOpenAI() as server:
        assert PlatformFault is type(await expect_failure(server, base_url=base_url))


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
        callers_failure = await expect_failure(server, CALLERS_KEY)
        assert capsys.readouterr().err == ""
        operators_failure = await expect_failure(server)
    assert type(operators_failure) is Unavailable
    assert operators_failure.retry_after == MAX_RETRY_AFTER
    assert "top it up" in capsys.readouterr().err
    assert errors.PaymentRequired is type(callers_failure)
    assert len(server.calls) == 2


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
async def test_a_key_that_is_invalid_in_a_header_is_not_sent(key: str) -> None:
    with FakeOpenAI() as server:
        assert PlatformFault is type(await expect_failure(server, api_key=SecretStr(key)))
        assert errors.Forbidden is type(await expect_failure(server, SecretStr(key)))
    assert server.calls == []


@pytest.mark.requirement("001-E1")
async def test_a_callers_key_is_sent_over_the_same_connection() -> None:
    with FakeOpenAI() as server:
        async with open_embedder(server) as embedder:
            await embedder.embed(["one"], Purpose.DOCUMENT)
            callers_embedder = embedder.on_behalf_of(CALLERS_KEY)
            await callers_embedder.embed(["two"], Purpose.DOCUMENT)
            await callers_embedder.aclose()
            await embedder.embed(["three"], Purpose.DOCUMENT)
    keys = [OPERATORS_KEY, CALLERS_KEY.get_secret_value(), OPERATORS_KEY]

    assert [call.key for call in server.calls] == keys
    assert server.connections == 1
    assert callers_embedder.model == MODEL
    assert callers_embedder.dimension == 8
    assert callers_embedder.batch_size == 32


async def test_errors_of_a_callers_key_go_to_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeOpenAI(
        make_error_reply(403, "", f"{PRIVATE_TEXT} {CALLERS_KEY.get_secret_value()}")
    ) as server:
        server.keys = {OPERATORS_KEY}
        failures = [await expect_failure(server, CALLERS_KEY) for _ in range(2)]
        await embed(server, ["one"])
    assert [type(failure) for failure in failures] == [errors.Forbidden] * 2
    assert "a key that the endpoint accepts" in failures[0].message
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("instant_sleep")
async def test_a_throttled_callers_key_is_retried() -> None:
    with FakeOpenAI(usual=make_error_reply(429)) as server:
        failure = await expect_failure(server, CALLERS_KEY, time_limit=60)
    assert type(failure) is errors.RateLimited
    assert failure.retry_after == 10.0
    assert len(server.calls) > 1


@pytest.mark.parametrize("status", [401, 402, 429, 503])
async def test_a_callers_key_never_opens_the_breaker(status: int) -> None:
    with FakeOpenAI(usual=make_error_reply(status, retry_after="60")) as server:
        async with open_embedder(server) as embedder:
            for _ in range(FAILURE_THRESHOLD + 1):
                await embed_with_error(embedder.on_behalf_of(CALLERS_KEY))
            server.usual = Reply()
            await embedder.embed(["one"], Purpose.DOCUMENT)
    assert len(server.calls) == FAILURE_THRESHOLD + 2


async def test_each_key_has_its_own_concurrency_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    barrier = threading.Barrier(2, timeout=60)  # passes only if two requests run together
    with FakeOpenAI() as server:
        monkeypatch.setattr(server, "pause", lambda _: barrier.wait())
        async with open_embedder(server, concurrency=1) as embedder, asyncio.TaskGroup() as group:
            for key_embedder in (embedder, embedder.on_behalf_of(CALLERS_KEY)):
                group.create_task(key_embedder.embed(make_texts(64), Purpose.DOCUMENT))
    assert len(server.calls) == 4
    assert server.peak == 2
