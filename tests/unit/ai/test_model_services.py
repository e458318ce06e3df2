"""Each client of a model service retries, waits and gives up in the same way."""

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials

from shared.ai.embedding import Purpose
from shared.ai.retrying import ATTEMPTS_IN_TIME, QUERY_SECONDS
from shared.core.circuit_breaker import FAILURE_THRESHOLD, CircuitBreaker
from shared.core.errors import CarrelError, InvalidInput, PlatformFault, Unavailable
from tests.support.clock import SettableMonotonicClock
from tests.support.fakes import openai, vertex
from tests.support.fakes.openai import FakeOpenAI
from tests.support.fakes.vertex import FakeVertex
from tests.support.model_clients import (
    CREDENTIAL,
    INSTRUCTION,
    PRIVATE_TEXT,
    Note,
    fail,
    open_chat_generator,
    open_generator,
    open_openai_embedder,
    open_vertex_embedder,
)
from tests.support.monotonic_clock import MonotonicClock

Client = Any
INVALID_BODY = f'{{"predictions": [{{"embeddings": {{"values": ["{PRIVATE_TEXT}"]}}}}]}}'.encode()


async def embed(client: Client, texts: Sequence[str]) -> None:
    await client.embed(texts, Purpose.DOCUMENT)


async def generate(client: Client, texts: Sequence[str]) -> None:
    await asyncio.gather(*(client.generate(INSTRUCTION, text, Note) for text in texts))


@dataclass(frozen=True)
class Service:
    """A model service: its fake, its client, and how the client asks about texts.

    Attributes:
        batch: How many texts a request has.
    """

    fake: ModuleType
    serve: Callable[..., Any]
    open: Callable[..., AbstractAsyncContextManager[Client]]
    ask: Callable[[Client, Sequence[str]], Any]
    batch: int = 1

    async def ask_once(self, server: Any, texts: Sequence[str] = ("one",), **options: Any) -> None:
        """Ask about texts with a new client."""
        async with self.open(server, **options) as client:
            await self.ask(client, texts)

    async def fail(self, server: Any, **options: Any) -> CarrelError:
        """Ask about the private text with a new client; return the error."""
        return await fail(self.ask_once(server, [PRIVATE_TEXT], **options))

    def make_texts(self, requests: int) -> list[str]:
        """Return the texts of so many requests."""
        return [f"text {number}" for number in range(requests * self.batch)]


OPENAI = Service(openai, FakeOpenAI, open_openai_embedder, embed, batch=32)
VERTEX = Service(vertex, FakeVertex, open_vertex_embedder, embed)
GENERATION = Service(vertex, FakeVertex, open_generator, generate)
CHAT = Service(openai, FakeOpenAI, open_chat_generator, generate)

every_service = pytest.mark.parametrize(
    "service", [OPENAI, VERTEX, GENERATION, CHAT], ids=["openai", "vertex", "generation", "chat"]
)
every_embedder = pytest.mark.parametrize("service", [OPENAI, VERTEX], ids=["openai", "vertex"])


@every_service
@pytest.mark.usefixtures("instant_sleep")
async def test_a_throttled_request_waits_for_retry_after(service: Service) -> None:
    with service.serve(service.fake.make_error_reply(429, retry_after="10")) as server:
        await service.ask_once(server)
    first_call, second_call = server.calls
    assert second_call.at - first_call.at >= 10


@pytest.mark.requirement("001-X3")
@pytest.mark.parametrize(
    ("service", "reply"),
    [
        *((OPENAI, openai.make_error_reply(status)) for status in (408, 429, 500, 503, 529)),
        *((VERTEX, vertex.make_error_reply(status)) for status in (500, 503)),
        (GENERATION, vertex.make_error_reply(500)),
        *((CHAT, openai.make_error_reply(status)) for status in (429, 503)),
        (OPENAI, openai.CUT_CONNECTION),
        (VERTEX, vertex.CUT_CONNECTION),
        (GENERATION, vertex.CUT_CONNECTION),
    ],
)
@pytest.mark.usefixtures("instant_sleep")
async def test_transient_failures_are_retried(service: Service, reply: Any) -> None:
    with service.serve(reply) as server:
        await service.ask_once(server)
    assert len(server.calls) == 2


@every_service
async def test_a_request_without_an_answer_leaves_time_for_a_retry(
    service: Service, monotonic: MonotonicClock
) -> None:
    with service.serve(service.fake.HANG) as server:
        server.on_hang = partial(monotonic.advance_soon, 60 / ATTEMPTS_IN_TIME)
        await service.ask_once(server, time_limit=60)
    assert len(server.calls) == 2


@every_service
async def test_a_wait_beyond_the_time_limit_is_reported(service: Service) -> None:
    reply = service.fake.make_error_reply(429, "", PRIVATE_TEXT, retry_after="60")
    with service.serve(usual=reply) as server:
        failure = await service.fail(server, time_limit=50)
    assert type(failure) is Unavailable
    assert failure.retry_after == 60.0
    assert len(server.calls) == 1


@every_service
@pytest.mark.parametrize("fault", [429, 500, "CUT_CONNECTION", "HANG"])
@pytest.mark.usefixtures("instant_sleep")
async def test_lasting_failures_are_unavailable(
    service: Service, fault: int | str, monotonic: MonotonicClock
) -> None:
    reply = (
        service.fake.make_error_reply(fault, "", PRIVATE_TEXT)
        if isinstance(fault, int)
        else getattr(service.fake, fault)
    )
    with service.serve(usual=reply) as server:
        server.on_hang = partial(monotonic.advance_soon, 60)
        failure = await service.fail(server, time_limit=60)
    assert type(failure) is Unavailable
    assert failure.retry_after == 10.0


@every_service
@pytest.mark.usefixtures("instant_sleep")
async def test_an_unreachable_server_is_unavailable(service: Service) -> None:
    with service.serve() as server:
        pass
    assert Unavailable is type(await service.fail(server, time_limit=60))


@every_embedder
async def test_the_time_limit_covers_all_texts_of_a_call(
    service: Service, monotonic: MonotonicClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service.serve(usual=service.fake.Reply(pause=20)) as server:
        monkeypatch.setattr(server, "pause", monotonic.advance)
        with pytest.raises(Unavailable):
            await service.ask_once(server, service.make_texts(10), concurrency=1, time_limit=90)
    assert len(server.calls) == 5


@every_embedder
async def test_a_query_has_a_shorter_time_limit(
    service: Service, monotonic: MonotonicClock
) -> None:
    with service.serve(usual=service.fake.HANG) as server:
        server.on_hang = partial(monotonic.advance_soon, QUERY_SECONDS)
        async with service.open(server, time_limit=3600) as embedder, asyncio.timeout(60):
            with pytest.raises(Unavailable):
                await embedder.embed(["one"], Purpose.QUERY)


@every_service
async def test_concurrency_is_limited_over_two_calls(service: Service) -> None:
    texts = service.make_texts(6)
    with service.serve(usual=service.fake.Reply(pause=0.05)) as server:
        async with service.open(server, concurrency=3) as client, asyncio.TaskGroup() as group:
            group.create_task(service.ask(client, texts))
            group.create_task(service.ask(client, texts))
    assert len(server.calls) == 12
    assert server.peak == 3


@every_service
async def test_five_failures_open_the_breaker_for_a_pause(service: Service) -> None:
    clock = SettableMonotonicClock()
    breaker = CircuitBreaker("The service", clock)
    reply = service.fake.make_error_reply(503, retry_after="60")
    with service.serve(usual=reply) as server:
        async with service.open(server, breaker=breaker, time_limit=50) as client:
            for _ in range(FAILURE_THRESHOLD):
                await fail(service.ask(client, [PRIVATE_TEXT]))
            refusal = await fail(service.ask(client, [PRIVATE_TEXT]))
            server.usual = service.fake.Reply()
            clock.now += 30
            await service.ask(client, ["one"])
            await service.ask(client, ["two"])
    assert type(refusal) is Unavailable
    assert refusal.retry_after == 30
    assert len(server.calls) == FAILURE_THRESHOLD + 2


@every_service
async def test_refused_texts_do_not_count_as_failures(service: Service) -> None:
    with service.serve() as server:
        server.rejected_words = PRIVATE_TEXT
        async with service.open(server) as client:
            for _ in range(FAILURE_THRESHOLD + 2):
                assert InvalidInput is type(await fail(service.ask(client, [PRIVATE_TEXT])))


@every_embedder
async def test_a_refused_text_is_named_by_its_index(service: Service) -> None:
    texts = [*service.make_texts(2), "", "last"]
    with service.serve() as server, pytest.raises(InvalidInput) as error:
        await service.ask_once(server, texts)
    assert error.value.details == {"text": 2 * service.batch}
    assert f"text {2 * service.batch}" in error.value.message


@every_embedder
async def test_the_first_failure_cancels_the_other_requests(service: Service) -> None:
    with service.serve(service.fake.make_error_reply(404), usual=service.fake.HANG) as server:
        async with asyncio.timeout(60):
            with pytest.raises(PlatformFault):
                await service.ask_once(server, service.make_texts(3), time_limit=3600)


@every_embedder
async def test_no_texts_or_half_a_character_need_no_request(service: Service) -> None:
    with service.serve() as server:
        await service.ask_once(server, [])
        with pytest.raises(InvalidInput, match="whole characters"):
            await service.ask_once(server, ["fine", "\ud83d"])
    assert server.calls == []


@pytest.mark.parametrize(
    ("service", "reply", "message"),
    [
        (OPENAI, openai.ONE_NUMBER_SHORT, "7 numbers, not 8"),
        (OPENAI, openai.NOT_A_NUMBER, "without a direction"),
        (OPENAI, openai.ZEROS, "without a direction"),
        (OPENAI, openai.ONE_MISSING, "1 vectors, not one for each of 2 texts"),
        (OPENAI, openai.ONE_TWICE, "2 vectors, not one for each of 2 texts"),
        (
            OPENAI,
            openai.Reply(body=b"no gzip", headers={"Content-Encoding": "gzip"}),
            "cannot be decoded",
        ),
        *((OPENAI, reply, "is not valid") for reply in openai.make_invalid_replies(PRIVATE_TEXT)),
        (VERTEX, vertex.make_vector_reply([0.1] * 7), "7 numbers, not 8"),
        (VERTEX, vertex.make_vector_reply([]), "0 numbers, not 8"),
        (VERTEX, vertex.make_vector_reply([0.0] * 8), "without a direction"),
        (VERTEX, vertex.make_vector_reply([math.nan] * 8), "without a direction"),
        (VERTEX, vertex.NO_EMBEDDING, "0 vectors for one text"),
        (VERTEX, vertex.CUT_JSON, "cannot be read"),
        (VERTEX, vertex.Reply(body=INVALID_BODY), "cannot be read"),
        (GENERATION, vertex.Reply(body=b'{"candidates": [{"con'), "cannot be read"),
        (GENERATION, vertex.Reply(body=b"[" * 100_000), "cannot be read"),
        *((CHAT, reply, "is not valid") for reply in openai.make_invalid_replies(PRIVATE_TEXT)[:6]),
        (CHAT, openai.Reply(body=b'{"choices": []}'), "is not valid"),
    ],
)
async def test_an_invalid_reply_is_a_fault_that_is_logged(
    service: Service, reply: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with service.serve(reply) as server:
        failure = await fail(service.ask_once(server, [PRIVATE_TEXT, "two"]))
    assert type(failure) is PlatformFault
    assert message in failure.message
    assert PRIVATE_TEXT not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("service", "status", "reason", "advice"),
    [
        (OPENAI, 302, "", "base URL"),
        (OPENAI, 400, "", "shortened"),
        (OPENAI, 401, "", "key that it accepts"),
        (OPENAI, 403, "", "may use the model"),
        (OPENAI, 404, "", "base URL"),
        (OPENAI, 413, "", "rejects every text"),
        (OPENAI, 422, "", "dimension"),
        (VERTEX, 400, "FAILED_PRECONDITION", "null"),
        (VERTEX, 401, "UNAUTHENTICATED", "credentials"),
        (VERTEX, 403, "PERMISSION_DENIED", "roles/aiplatform.user"),
        (VERTEX, 404, "NOT_FOUND", "location"),
        (GENERATION, 404, "NOT_FOUND", "names of the model"),
        (CHAT, 401, "", "key that it accepts"),
        (CHAT, 404, "", "ends before /chat/completions"),
    ],
)
async def test_a_wrong_configuration_is_logged_with_advice(
    service: Service, status: int, reason: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reply = service.fake.make_error_reply(status, reason, f"{PRIVATE_TEXT} {CREDENTIAL}")
    with service.serve(usual=reply) as server:
        failure = await service.fail(server)
    log_text = capsys.readouterr().err
    assert PlatformFault is type(failure)
    assert advice in log_text
    assert PRIVATE_TEXT not in log_text
    assert CREDENTIAL not in log_text


async def test_unusable_credentials_are_a_fault() -> None:
    with FakeVertex() as server:
        failure = await VERTEX.fail(server, credentials=AnonymousCredentials())
    assert type(failure) is PlatformFault
