"""Builds what tools and jobs use from the settings: the composition root."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from shared.ai.embedding import Purpose
from shared.ai.vector_halves import QUERY_WEIGHTS, weigh
from shared.core.dates import load_time_zone, utc_now
from shared.core.errors import Forbidden, InvalidInput, PlatformFault, Unavailable
from shared.core.log import log
from shared.core.meter import Meter
from shared.core.settings import KNOWLEDGE_DATABASE
from shared.firestore.connection import Connection
from shared.firestore.database import Database
from shared.firestore.documents import Reference
from shared.runtime.capabilities import ALL_CAPABILITIES, Capability
from shared.runtime.outcome import to_outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from pydantic import SecretStr

    from shared.ai.embedding import Embedder
    from shared.ai.generation import Generator
    from shared.ai.vector_halves import WeightedVector
    from shared.core.caller import Caller
    from shared.core.dates import Clock
    from shared.core.settings import Settings
    from shared.firestore.writes import Write
    from shared.runtime.idempotency import IdempotencyGuard
    from shared.runtime.messages import CallRequest
    from shared.runtime.outcome import Outcome
    from shared.runtime.schemas import Result

_NO_KEY: Final = "OPENAI_KEY_OF_CALLER also needs OPENAI_API_KEY, since jobs have no caller."
_NO_ENDPOINT: Final = (
    "GENERATION_PROVIDER=openai also needs GENERATION_BASE_URL and GENERATION_MODEL."
)
AnswerT = TypeVar("AnswerT", bound="Result | Outcome[Any]")
TimedPart = Literal["embedding", "bm25"]
"""A part of a call whose duration the receipt reports."""
DEFAULT_VERTEX_MODEL: Final = "gemini-3.5-flash-lite"
"""The language model on Vertex AI, if the settings name none."""
QUERY_CACHE_SIZE: Final = 256
"""How many query vectors a process caches, so that further pages of a search need no embedding."""
BREAKER_THRESHOLD: Final = 20
"""The number of failures in a row that opens the language model's circuit breaker.

Only jobs use the model. A job sends eight texts at the same time. If all of them fail, it sends a
probe that any working model answers, and the breaker must still admit the probe."""


@dataclass(frozen=True)
class Context:
    """What a handler may use in one call. It is frozen, except for its meter and its timings.

    Attributes:
        database: The database, which counts this call's reads and writes.
        deadline: Unix time in seconds when the caller stops waiting, or None in a job.
        idempotency: Guards a call that writes from taking effect twice.
        milliseconds: The duration of each timed part.
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
    def zone(self) -> tzinfo:
        """The time zone of the owner's days."""
        return load_time_zone(self.settings.time_zone)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedding provider, loaded on first use.

        Raises:
            Forbidden: Calls embed with their callers' keys, and this caller passed none.
            InvalidInput: Calls embed with their callers' keys, and there is no key for jobs.
        """
        self.require(Capability.EMBEDDING)
        if self._request is None:
            if self.settings.embeds_with_callers_keys and self.settings.openai_api_key is None:
                raise InvalidInput(_NO_KEY)
            return self._app.embedder
        return self._app.get_embedder(self._request.embedding_key)

    @property
    def generator(self) -> Generator | None:
        """The language model, or None if none is configured.

        Raises:
            InvalidInput: The settings do not say where the model is.
        """
        self.require(Capability.GENERATION)
        return self._app.generator

    def require(self, capability: Capability) -> None:
        """Check that the function declares a capability, before the capability is used.

        Raises:
            PlatformFault: The function does not declare the capability. In the cloud, it would have
                neither the code nor the role for it.
        """
        if capability not in self.capabilities:
            log.error("need_not_declared", need=str(capability))
            raise PlatformFault(f"This function does not declare the capability {capability}.")

    @property
    def seconds_left(self) -> float | None:
        """How many more seconds the caller waits for the answer, or None in a job."""
        return None if self.deadline is None else max(0.0, self.deadline - time.time())

    async def embed_query(self, query: str, purpose: Purpose = Purpose.QUERY) -> WeightedVector:
        """Embed a query, or return its vector from the process's cache.

        A caller with an embedding key gets only vectors that were embedded with the same key.
        """
        embedding_key = self._request.embedding_key if self._request else None
        cache_key = (_hash_key(embedding_key), purpose, query)
        embedder = self.embedder  # loaded here, so that the timing below covers only the embedding
        vectors = self._app.query_vectors
        if cache_key in vectors:
            vectors.move_to_end(cache_key)
            return vectors[cache_key]
        with self.timed("embedding"):
            [embedded] = await embedder.embed([query], purpose)
        vector = vectors[cache_key] = weigh(embedded, embedder.model, QUERY_WEIGHTS[purpose])
        if len(vectors) > QUERY_CACHE_SIZE:
            vectors.popitem(last=False)
        return vector

    @contextmanager
    def timed(self, part: TimedPart) -> Iterator[None]:
        """Add the duration of the `with` block to a part's milliseconds."""
        start = time.perf_counter()
        try:
            yield
        finally:
            milliseconds_taken = (time.perf_counter() - start) * 1000
            self.milliseconds[part] = round(
                self.milliseconds.get(part, 0.0) + milliseconds_taken, 1
            )

    async def commit(self, writes: Sequence[Write], answer: AnswerT) -> AnswerT:
        """Commit all writes of a call or none, and return the call's answer.

        Every tool that writes ends with this method. It stores the answer in the same commit, so
        that a retry of the call returns the answer and has no further effect.

        Raises:
            WriteConflict: A document changed since it was read; `retry_on_conflict` tries again.
        """
        if self.idempotency:
            await self.idempotency.commit(writes, to_outcome(answer))
        else:
            await self.database.commit(writes)
        return answer


class App:
    """The connections and caches that the calls of a process share, on one event loop."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock = utc_now,
        embedder: Embedder | None = None,
        generator: Generator | None = None,
    ) -> None:
        """Store the settings. Connections open on first use."""
        self.settings = settings
        self.clock = clock
        self._embedder = embedder
        self._generator = generator
        self.query_vectors: OrderedDict[tuple[bytes, Purpose, str], WeightedVector] = OrderedDict()

    @cached_property
    def connection(self) -> Connection:
        """The connection to the database."""
        return Connection(self.settings.google_cloud_project, KNOWLEDGE_DATABASE)

    @cached_property
    def zone(self) -> tzinfo:
        """The time zone of the owner's days."""
        return load_time_zone(self.settings.time_zone)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedding provider, imported on first use."""
        return self._embedder or _make_embedder(self.settings)

    @cached_property
    def generator(self) -> Generator | None:
        """The language model, imported on first use, or None if none is configured."""
        return self._generator or _make_generator(self.settings)

    def get_embedder(self, key: SecretStr | None) -> Embedder:
        """Return the embedder of a call, which uses the caller's key if so configured.

        Raises:
            Forbidden: Calls embed with their callers' keys, and there is none.
        """
        if not self.settings.embeds_with_callers_keys:
            return self.embedder
        if key is None:
            raise Forbidden(
                "This server embeds with its callers' keys. Connect with an access key instead of"
                " signing in."
            )
        from shared.ai.openai_embedding import OpenAIEmbedder

        embedder = self.embedder
        return embedder.on_behalf_of(key) if isinstance(embedder, OpenAIEmbedder) else embedder

    def context(self, caller: Caller, meter: Meter) -> Context:
        """Make the context of one run of a job."""
        database = Database(self.connection, meter)
        return Context(caller, self.settings, self.clock, meter, database, self)

    def call_context(
        self,
        request: CallRequest,
        meter: Meter,
        *,
        capabilities: frozenset[Capability] = ALL_CAPABILITIES,
        read_only: bool = False,
    ) -> Context:
        """Make the context of one call, with these capabilities."""
        database = Database(self.connection, meter, read_only=read_only)
        return Context(
            request.caller,
            self.settings,
            self.clock,
            meter,
            database,
            self,
            request,
            request.deadline,
            capabilities,
        )

    async def ping(self) -> None:
        """Read one document, to check the connection.

        Raises:
            Unavailable: The database does not answer within three seconds.
        """
        try:
            async with asyncio.timeout(3):
                database = Database(self.connection, Meter())
                await database.get(Reference("meta", "embedding"))
        except TimeoutError:
            raise Unavailable("The database does not answer.", retry_after=5) from None

    async def aclose(self) -> None:
        """Close the connection and the configured providers, but not those passed to `__init__`."""
        if "embedder" in self.__dict__ and not self._embedder:
            await self.embedder.aclose()
        if "generator" in self.__dict__ and self.generator and not self._generator:
            await self.generator.aclose()
        await self.connection.aclose()


def _make_embedder(settings: Settings) -> Embedder:
    match settings.embedding_provider:
        case "local":
            from shared.ai.local_embedding import LocalEmbedder

            return LocalEmbedder()
        case "vertex":
            from shared.ai.vertex_embedding import VertexEmbedder

            return VertexEmbedder(
                project=settings.google_cloud_project,
                location=settings.vertex_location,
                model=settings.embedding_model_or_default,
                dimension=settings.embedding_dimension,
                base_url=settings.vertex_base_url,
            )
        case "openai":
            from shared.ai.openai_embedding import OpenAIEmbedder

            return OpenAIEmbedder(
                base_url=settings.openai_base_url,
                model=settings.embedding_model_or_default,
                dimension=settings.embedding_dimension,
                sends_dimension=settings.openai_shortens,
                api_key=settings.openai_api_key,
            )


def _make_generator(settings: Settings) -> Generator | None:
    from shared.core.circuit_breaker import CircuitBreaker

    match settings.generation_provider:
        case "extractive":
            return None
        case "vertex":
            from shared.ai.vertex_generation import VertexGenerator

            return VertexGenerator(
                project=settings.google_cloud_project,
                location=settings.generation_location,
                model=settings.generation_model or DEFAULT_VERTEX_MODEL,
                base_url=settings.vertex_base_url,
                breaker=CircuitBreaker("Vertex AI", failures=BREAKER_THRESHOLD),
            )
        case "openai":
            from shared.ai.openai_generation import OpenAIGenerator

            if not (settings.generation_base_url and settings.generation_model):
                raise InvalidInput(_NO_ENDPOINT)
            return OpenAIGenerator(
                base_url=settings.generation_base_url,
                model=settings.generation_model,
                api_key=settings.generation_api_key,
                breaker=CircuitBreaker("The chat endpoint", failures=BREAKER_THRESHOLD),
            )


def _hash_key(key: SecretStr | None) -> bytes:
    return hashlib.sha256(key.get_secret_value().encode()).digest() if key else b""
