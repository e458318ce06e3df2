"""The Vertex AI embedder is tested with Google's client and a fake server that can fail."""

from __future__ import annotations

import asyncio
import math
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.oauth2.credentials import Credentials

from shared.ai.embedding import Purpose, unit_vector
from shared.ai.retrying import ATTEMPTS_IN_TIME, QUERY_SECONDS
from shared.ai.vertex_embedding import VertexEmbedder
from shared.core.circuit_breaker import FAILURE_THRESHOLD, CircuitBreaker
from shared.core.errors import CarrelError, InvalidInput, PlatformFault, Unavailable
from tests.support.clock import SettableMonotonicClock
from tests.support.fakes.vertex import (
    CUT_CONNECTION,
    CUT_JSON,
    HANG,
    NO_EMBEDDING,
    FakeVertex,
    Reply,
    hash_words,
    make_error_reply,
    make_vector_reply,
)
from tests.support.monotonic_clock import MonotonicClock

TOKEN = "ya29.a-token-nobody-may-see"
PRIVATE_TEXT = "what a reader wrote and nobody else may see"
INVALID_BODY = b'{"predictions": [{"embeddings": {"values": ["' + PRIVATE_TEXT.encode() + b'"]}}]}'


@asynccontextmanager
async def open_embedder(server: FakeVertex, **options: Any) -> AsyncIterator[VertexEmbedder]:
    """Open an embedder on the fake server; options replace its default arguments."""
    defaults = {
        "project": "shelf",
        "location": "europe-west4",
        "dimension": 8,
        "credentials": Credentials(token=TOKEN),
        "base_url": server.base_url,
    }
    embedder = VertexEmbedder(**{**defaults, **options})
    try:
        yield embedder
    finally:
        await embedder.aclose()


async def expect_failure(server: FakeVertex, **options: Any) -> CarrelError:
    """Embed one text; return the error, which must not reveal texts or tokens."""
    async with open_embedder(server, **options) as embedder:
        with pytest.raises(CarrelError) as failure:
            await embedder.embed([PRIVATE_TEXT], Purpose.DOCUMENT)
    traceback_text = "".join(traceback.format_exception(failure.value))
    visible_text = traceback_text + str(failure.value.to_wire())
    assert PRIVATE_TEXT not in visible_text
    assert TOKEN not in visible_text
    return failure.value


async def test_a_text_becomes_its_vector_scaled_to_length_one() -> None:
    with FakeVertex() as server:
        async with open_embedder(server, dimension=768) as embedder:
            (vector,) = await embedder.embed(["Bees dance."], Purpose.DOCUMENT)
    assert vector == pytest.approx(unit_vector(hash_words("Bees dance.", 768), 768))
    assert math.hypot(*vector) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("model", "method"),
    [("gemini-embedding-001", "predict"), ("gemini-embedding-2", "embedContent")],
)
@pytest.mark.parametrize(
    ("purpose", "task_type"),
    [(Purpose.QUERY, "RETRIEVAL_QUERY"), (Purpose.DOCUMENT, "RETRIEVAL_DOCUMENT")],
)
async def test_the_request_has_model_purpose_and_dimension(
    purpose: Purpose, task_type: str, model: str, method: str
) -> None:
    with FakeVertex() as server:
        async with open_embedder(server, model=model) as embedder:
            (vector,) = await embedder.embed(["Bees dance."], purpose)

    assert vector == pytest.approx(unit_vector(hash_words("Bees dance.", 8), 8))

    (call,) = server.calls
    assert call.path == (
        f"/v1beta1/projects/shelf/locations/europe-west4/publishers/google/models/{model}:{method}"
    )
    assert call.authorization == f"Bearer {TOKEN}"
    assert call.config == {
        "taskType": task_type,
        "outputDimensionality": 8,
        "autoTruncate": True,
    }


async def test_each_text_has_its_own_request() -> None:
    texts = [f"text {number}" for number in range(5)]
    with FakeVertex() as server:
        async with open_embedder(server) as embedder:
            await embedder.embed(texts, Purpose.DOCUMENT)
    assert sorted(call.text for call in server.calls) == texts
    assert [len(call.body["instances"]) for call in server.calls] == [1] * 5


async def test_vectors_are_in_the_order_of_texts() -> None:
    texts = [f"text {number}" for number in range(6)]
    with FakeVertex(Reply(pause=0.2), Reply(pause=0.1)) as server:
        async with open_embedder(server) as embedder:
            vectors = await embedder.embed(texts, Purpose.DOCUMENT)
    expected = [pytest.approx(unit_vector(hash_words(text, 8), 8)) for text in texts]
    assert vectors == expected


async def test_concurrency_is_limited_over_two_calls() -> None:
    texts = [f"text {number}" for number in range(6)]
    with FakeVertex(usual=Reply(pause=0.05)) as server:
        async with open_embedder(server, concurrency=3) as embedder, asyncio.TaskGroup() as group:
            group.create_task(embedder.embed(texts, Purpose.DOCUMENT))
            group.create_task(embedder.embed(texts, Purpose.DOCUMENT))
    assert len(server.calls) == 12
    assert server.peak == 3


async def test_an_empty_list_of_texts_needs_no_request() -> None:
    with FakeVertex() as server:
        async with open_embedder(server) as embedder:
            assert await embedder.embed([], Purpose.DOCUMENT) == []
    assert server.calls == []


@pytest.mark.usefixtures("instant_sleep")
async def test_a_throttled_request_waits_for_retry_after() -> None:
    with FakeVertex(make_error_reply(429, "RESOURCE_EXHAUSTED", retry_after="10")) as server:
        async with open_embedder(server) as embedder:
            await embedder.embed(["Bees dance."], Purpose.DOCUMENT)
    first_call, second_call = server.calls
    assert second_call.at - first_call.at >= 10


@pytest.mark.parametrize(
    "reply",
    [make_error_reply(500, "INTERNAL"), make_error_reply(503, "UNAVAILABLE"), CUT_CONNECTION],
)
@pytest.mark.usefixtures("instant_sleep")
async def test_transient_failures_are_retried(reply: Reply) -> None:
    with FakeVertex(reply) as server:
        async with open_embedder(server) as embedder:
            await embedder.embed(["Bees dance."], Purpose.DOCUMENT)
    assert len(server.calls) == 2


async def test_a_request_without_an_answer_leaves_time_for_a_retry(
    monotonic: MonotonicClock,
) -> None:
    with FakeVertex(HANG) as server:
        server.on_hang = partial(monotonic.advance_soon, 60 / ATTEMPTS_IN_TIME)
        async with open_embedder(server, time_limit=60) as embedder:
            await embedder.embed(["Bees dance."], Purpose.DOCUMENT)
    assert len(server.calls) == 2


async def test_a_wait_beyond_the_time_limit_is_reported() -> None:
    with FakeVertex(
        usual=make_error_reply(429, "RESOURCE_EXHAUSTED", PRIVATE_TEXT, retry_after="60")
    ) as server:
        failure = await expect_failure(server)
    assert type(failure) is Unavailable
    assert failure.retry_after == 60.0
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    "reply",
    [
        make_error_reply(429, "RESOURCE_EXHAUSTED", PRIVATE_TEXT),
        make_error_reply(500),
        CUT_CONNECTION,
        HANG,
    ],
)
@pytest.mark.usefixtures("instant_sleep")
async def test_lasting_failures_are_unavailable(reply: Reply, monotonic: MonotonicClock) -> None:
    with FakeVertex(usual=reply) as server:
        server.on_hang = partial(monotonic.advance_soon, 60)
        failure = await expect_failure(server, time_limit=60)
    assert type(failure) is Unavailable
    assert failure.retry_after == 10.0


async def test_the_time_limit_covers_all_texts_of_a_call(
    monotonic: MonotonicClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeVertex(usual=Reply(pause=20)) as server:
        monkeypatch.setattr(server, "pause", monotonic.advance)
        async with open_embedder(server, concurrency=1, time_limit=90) as embedder:
            with pytest.raises(Unavailable):
                await embedder.embed([f"text {number}" for number in range(10)], Purpose.DOCUMENT)
    assert len(server.calls) == 5


@pytest.mark.usefixtures("instant_sleep")
async def test_an_unreachable_server_is_unavailable() -> None:
    with FakeVertex() as server:
        pass
    failure = await expect_failure(server, time_limit=60)
    assert type(failure) is Unavailable


async def fail_to_embed(embedder: VertexEmbedder, times: int) -> None:
    """Embed a text several times; each attempt must fail."""
    for _ in range(times):
        with pytest.raises(CarrelError):
            await embedder.embed([PRIVATE_TEXT], Purpose.QUERY)


async def test_five_failures_open_the_breaker() -> None:
    clock = SettableMonotonicClock()
    breaker = CircuitBreaker("Vertex AI", clock)
    with FakeVertex(usual=make_error_reply(503, "UNAVAILABLE", retry_after="60")) as server:
        async with open_embedder(server, breaker=breaker) as embedder:
            await fail_to_embed(embedder, FAILURE_THRESHOLD)
            with pytest.raises(Unavailable) as caught:
                await embedder.embed([PRIVATE_TEXT], Purpose.DOCUMENT)
            assert await embedder.embed([], Purpose.QUERY) == []
            server.usual = Reply()
            clock.now += 30
            await embedder.embed(["one", "two"], Purpose.QUERY)
            await embedder.embed(["three"], Purpose.QUERY)

    assert caught.value.retry_after == 30
    assert PRIVATE_TEXT not in caught.value.message
    assert len(server.calls) == FAILURE_THRESHOLD + 3


async def test_refused_texts_do_not_count_as_failures() -> None:
    with FakeVertex(usual=make_error_reply(400, "INVALID_ARGUMENT")) as server:
        async with open_embedder(server) as embedder:
            await fail_to_embed(embedder, FAILURE_THRESHOLD + 2)
    assert len(server.calls) == FAILURE_THRESHOLD + 2


async def test_a_cancelled_probe_is_replaced(monotonic: MonotonicClock) -> None:
    breaker = CircuitBreaker("Vertex AI", pause=0)
    with FakeVertex(usual=make_error_reply(503, "UNAVAILABLE", retry_after="60")) as server:
        async with open_embedder(server, breaker=breaker) as embedder:
            await fail_to_embed(embedder, FAILURE_THRESHOLD)
            server.usual = HANG
            server.on_hang = partial(monotonic.advance_soon, 1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(embedder.embed(["one"], Purpose.QUERY), 1)
            server.usual = Reply()
            await embedder.embed(["two"], Purpose.QUERY)


async def test_a_query_has_a_shorter_time_limit(monotonic: MonotonicClock) -> None:
    with FakeVertex(usual=HANG) as server:
        server.on_hang = partial(monotonic.advance_soon, QUERY_SECONDS)
        async with open_embedder(server, time_limit=3600) as embedder, asyncio.timeout(60):
            with pytest.raises(Unavailable):
                await embedder.embed(["one"], Purpose.QUERY)


async def test_a_refused_text_is_named_by_its_index() -> None:
    with FakeVertex() as server:
        async with open_embedder(server) as embedder:
            with pytest.raises(InvalidInput, match="text 1") as error:
                await embedder.embed(["fine", ""], Purpose.DOCUMENT)
    assert error.value.details == {"text": 1}


async def test_the_first_failure_cancels_the_other_requests() -> None:
    with FakeVertex(usual=HANG) as server:
        server.script.append(make_error_reply(400, "INVALID_ARGUMENT", PRIVATE_TEXT))
        async with open_embedder(server, time_limit=3600) as embedder:
            with pytest.raises(InvalidInput):
                await asyncio.wait_for(embedder.embed(["one", "two"], Purpose.DOCUMENT), 60)


async def test_a_lone_surrogate_is_refused_before_a_request_is_sent() -> None:
    with FakeVertex() as server:
        async with open_embedder(server) as embedder:
            with pytest.raises(InvalidInput, match="whole characters"):
                await embedder.embed(["fine", "\ud83d"], Purpose.DOCUMENT)
    assert server.calls == []


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (make_vector_reply([0.1] * 7), "7 numbers, not 8"),
        (make_vector_reply([0.0] * 8), "without a direction"),
        (make_vector_reply([math.nan] * 8), "without a direction"),
        (make_vector_reply([]), "0 numbers, not 8"),
        (NO_EMBEDDING, "0 vectors for one text"),
        (CUT_JSON, "cannot be read"),
        (Reply(body=INVALID_BODY), "cannot be read"),
    ],
)
async def test_a_reply_without_one_valid_vector_is_a_fault(reply: Reply, message: str) -> None:
    with FakeVertex(reply) as server:
        failure = await expect_failure(server)
    assert type(failure) is PlatformFault
    assert message in failure.message


@pytest.mark.parametrize(
    ("status", "reason", "advice"),
    [
        (400, "FAILED_PRECONDITION", "null"),
        (401, "UNAUTHENTICATED", "credentials"),
        (403, "PERMISSION_DENIED", "roles/aiplatform.user"),
        (404, "NOT_FOUND", "location"),
    ],
)
async def test_a_wrong_configuration_is_logged_with_advice(
    status: int, reason: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeVertex(make_error_reply(status, reason, PRIVATE_TEXT)) as server:
        failure = await expect_failure(server)
    assert type(failure) is PlatformFault
    log_text = capsys.readouterr().err
    assert advice in log_text
    assert PRIVATE_TEXT not in log_text


async def test_unusable_credentials_are_a_fault() -> None:
    with FakeVertex() as server:
        credentials = AnonymousCredentials()
        failure = await expect_failure(server, credentials=credentials)
    assert type(failure) is PlatformFault
