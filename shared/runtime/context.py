"""The composition root: settings become the capabilities that tools and jobs are given."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from shared.ai.embedding import Purpose
from shared.core.dates import utc_now
from shared.core.errors import Forbidden, InvalidInput, PlatformFault, Unavailable
from shared.core.log import log
from shared.core.meter import Meter
from shared.firestore.database import Connection, Database
from shared.runtime.capabilities import ALL_CAPABILITIES, Capability
from shared.runtime.outcome import as_outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import SecretStr

    from shared.ai.embedding import Embedder, Vector
    from shared.ai.generation import Generator
    from shared.core.caller import Caller
    from shared.core.dates import Clock
    from shared.core.settings import Settings
    from shared.firestore.database import Write
    from shared.runtime.idempotency import IdempotencyGuard
    from shared.runtime.messages import CallRequest
    from shared.runtime.outcome import Outcome
    from shared.runtime.schemas import Result

_NO_KEY: Final = "OPENAI_KEY_OF_CALLER needs OPENAI_API_KEY too: jobs have no caller."
AnswerT = TypeVar("AnswerT", bound="Result | Outcome[Any]")
TimedPart = Literal["embedding", "bm25"]
"""A part of a call whose time is worth knowing."""
QUERY_CACHE_SIZE: Final = 256
"""Query vectors that a process keeps: walking through pages embeds nothing twice."""
BREAKER_THRESHOLD: Final = 20
"""Failures in a row of a language model before it is left alone. Only jobs ask it: eight
texts at once, and then one that any model answers, which must not be refused for the others."""


@dataclass(frozen=True)
class Context:
    """What a handler may use: one per call. Nobody assigns to it; its meter and timings count up.

    Attributes:
        caller: On whose behalf it runs.
        settings: Everything that was configured.
        clock: What time it is.
        meter: What its requests to the database cost so far.
        database: The database, counting what this call reads and writes.
        deadline: Unix time in seconds after which nobody waits for it; None where nobody does, as
            in a job.
        capabilities: What it may reach beside the database.
        idempotency: What keeps a call that writes from happening twice.
        milliseconds: How long each part took that the call needed.
    """

    caller: Caller
    settings: Settings
    clock: Clock
    meter: Meter
    database: Database
    _app: App
    _request: CallRequest | None = None
    deadline: float | None = None
    capabilities: frozenset[Capability] = ALL_CAPABILITIES
    idempotency: IdempotencyGuard | None = None
    milliseconds: dict[TimedPart, float] = field(default_factory=dict)

    @cached_property
    def embedder(self) -> Embedder:
        """Text to vectors; loaded by the first call that needs it. A job's is the deployment's own.

        Raises:
            Forbidden: Callers embed with their own keys, and this one has not shown any.
            InvalidInput: They do, and a job has no key to embed with.
        """
        self.require(Capability.EMBEDDING)
        if self._request is None:
            if self.settings.embeds_with_callers_keys and self.settings.openai_api_key is None:
                raise InvalidInput(_NO_KEY)
            return self._app.embedder
        return self._app.embedder_for(self._request.embedding_key)

    @property
    def generator(self) -> Generator | None:
        """A language model, where one is configured."""
        self.require(Capability.GENERATION)
        return self._app.generator

    def require(self, capability: Capability) -> None:
        """Make sure that the function declares what it is about to reach.

        Raises:
            PlatformFault: It does not: in the cloud it has neither the code for it nor the right.
        """
        if capability not in self.capabilities:
            log.error("need_not_declared", need=str(capability))
            raise PlatformFault(f"This function does not declare that it needs: {capability}.")

    @property
    def seconds_left(self) -> float | None:
        """How much longer the caller waits for the answer; None where nobody does, as in a job."""
        return None if self.deadline is None else max(0.0, self.deadline - time.time())

    async def query_vector(self, query: str) -> Vector:
        """The vector of a query; the process remembers those of its latest queries.

        Who embeds with a key of their own is only given what that key was accepted for.
        """
        key = self._request.embedding_key if self._request else None
        asked = (_digest(key), query)
        embedder = self.embedder  # loading it is no embedding
        vectors = self._app.query_vectors
        if asked in vectors:
            vectors.move_to_end(asked)
            return vectors[asked]
        with self.timed("embedding"):
            [vector] = await embedder.embed([query], Purpose.QUERY)
        vectors[asked] = vector
        if len(vectors) > QUERY_CACHE_SIZE:
            vectors.popitem(last=False)
        return vector

    @contextmanager
    def timed(self, part: TimedPart) -> Iterator[None]:
        """Add the time until the block ends to that of a part."""
        began = time.perf_counter()
        try:
            yield
        finally:
            passed = (time.perf_counter() - began) * 1000
            self.milliseconds[part] = round(self.milliseconds.get(part, 0.0) + passed, 1)

    async def commit(self, writes: Sequence[Write], answer: AnswerT) -> AnswerT:
        """Write what a call changes, all of it or nothing, and return what it answers.

        Every tool that writes ends with this: the answer is stored with the effect, so that the
        same call, sent again, is not done again.

        Args:
            writes: What to write.
            answer: The result, or the outcome that says what the call costs too.

        Raises:
            WriteConflict: A document changed since it was read; `retry_on_conflict` tries again.
        """
        if self.idempotency:
            await self.idempotency.commit(writes, as_outcome(answer))
        else:
            await self.database.commit(writes)
        return answer


class App:
    """What a process opens once and its calls share. It belongs to one event loop."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock = utc_now,
        embedder: Embedder | None = None,
        generator: Generator | None = None,
    ) -> None:
        """Open nothing before it is used; an argument beats what the settings would choose."""
        self.settings = settings
        self.clock = clock
        self._embedder = embedder
        self._generator = generator
        self.query_vectors: OrderedDict[tuple[bytes, str], Vector] = OrderedDict()

    @cached_property
    def connection(self) -> Connection:
        """The database."""
        return Connection(self.settings.google_cloud_project, self.settings.firestore_database)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedding provider, imported only now."""
        return self._embedder or _configured_embedder(self.settings)

    @cached_property
    def generator(self) -> Generator | None:
        """The language model, imported only now; None where none is configured."""
        return self._generator or _configured_generator(self.settings)

    def embedder_for(self, key: SecretStr | None) -> Embedder:
        """The embedder of a call: with its caller's own key where that is configured.

        Raises:
            Forbidden: It is, and there is no key.
        """
        if not self.settings.embeds_with_callers_keys:
            return self.embedder
        if key is None:
            raise Forbidden(
                "This server embeds with its callers' own keys: connect with an access key of this"
                " server, rather than by signing in."
            )
        from shared.ai.openai_embedding import OpenAIEmbedder

        embedder = self.embedder
        return embedder.on_behalf_of(key) if isinstance(embedder, OpenAIEmbedder) else embedder

    def context(self, caller: Caller, meter: Meter) -> Context:
        """The capabilities of one run of a job."""
        return self._context(caller, meter, Database(self.connection, meter))

    def call_context(
        self,
        request: CallRequest,
        meter: Meter,
        *,
        capabilities: frozenset[Capability] = ALL_CAPABILITIES,
        read_only: bool = False,
    ) -> Context:
        """The capabilities of one call, which may reach this, and write unless it only reads."""
        database = Database(self.connection, meter, read_only=read_only)
        context = self._context(request.caller, meter, database)
        return replace(
            context, _request=request, deadline=request.deadline, capabilities=capabilities
        )

    def _context(self, caller: Caller, meter: Meter, database: Database) -> Context:
        return Context(caller, self.settings, self.clock, meter, database, self)

    async def ping(self) -> None:
        """Ask the database for one document.

        Raises:
            Unavailable: It does not answer within three seconds.
        """
        try:
            async with asyncio.timeout(3):
                database = Database(self.connection, Meter())
                await database.get(database.document("meta", "embedding"))
        except TimeoutError:
            raise Unavailable("The database does not answer.", retry_after=5) from None

    async def aclose(self) -> None:
        """Close what was opened here; a provider that was passed in stays its owner's."""
        if "embedder" in self.__dict__ and not self._embedder:
            await self.embedder.aclose()
        if "generator" in self.__dict__ and self.generator and not self._generator:
            await self.generator.aclose()
        await self.connection.aclose()


def _configured_embedder(settings: Settings) -> Embedder:
    match settings.embedding_provider:
        case "local":
            from shared.ai.local_embedding import LocalEmbedder

            return LocalEmbedder()
        case "vertex":
            from shared.ai.vertex_embedding import VertexEmbedder

            return VertexEmbedder(
                project=settings.google_cloud_project,
                location=settings.vertex_location,
                model=settings.vertex_model,
                dimension=settings.vertex_dimension,
                base_url=settings.vertex_base_url,
            )
        case "openai":
            from shared.ai.openai_embedding import OpenAIEmbedder

            return OpenAIEmbedder(
                base_url=settings.openai_base_url,
                model=settings.openai_model,
                dimension=settings.openai_dimension,
                shortens=settings.openai_shortens,
                api_key=settings.openai_api_key,
            )


def _configured_generator(settings: Settings) -> Generator | None:
    if settings.generation_provider == "extractive":
        return None
    from shared.ai.vertex_generation import VertexGenerator
    from shared.core.circuit_breaker import CircuitBreaker

    return VertexGenerator(
        project=settings.google_cloud_project,
        location=settings.generation_location,
        model=settings.generation_model,
        base_url=settings.vertex_base_url,
        breaker=CircuitBreaker("Vertex AI", failures=BREAKER_THRESHOLD),
    )


def _digest(key: SecretStr | None) -> bytes:
    return hashlib.sha256(key.get_secret_value().encode()).digest() if key else b""
