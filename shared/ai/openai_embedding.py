"""Embedding by any endpoint with OpenAI's API: OpenAI itself, a gateway, vLLM or Ollama."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from shared.ai.embedding import (
    PROBE,
    embedding_span,
    record_input_tokens,
    require_unicode,
    unit_vector,
)
from shared.ai.openai_endpoint import Key, OpenAIEndpoint, RejectedRequest
from shared.ai.retrying import compute_deadline, run_concurrently
from shared.core.bisection import bisect_batch
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.errors import CarrelError, InvalidInput, PlatformFault, Unavailable
from shared.core.http import retry_with_backoff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import SecretStr

    from shared.ai.embedding import Embedder, Purpose, Vector


@dataclass(frozen=True, slots=True)
class _EmbeddedTexts:
    """The vectors of the texts of a request.

    Attributes:
        vectors: The vectors, in the order of the texts.
        input_tokens: The tokens that the endpoint counted in all texts together, or 0 if it does
            not say.
    """

    vectors: list[Vector]
    input_tokens: int


@dataclass
class _Endpoint(OpenAIEndpoint):
    """A model at an embeddings endpoint, for requests with any key.

    Attributes:
        sends_dimension: Whether requests ask for vectors of this length.
        concurrency: The maximum number of simultaneous requests with one key.
        breaker: The circuit breaker, which all keys share.
    """

    dimension: int
    sends_dimension: bool
    concurrency: int
    breaker: CircuitBreaker

    def build_request(self, texts: Sequence[str]) -> dict[str, Any]:
        """Build the body of a request for the vectors of texts."""
        length = {"dimensions": self.dimension} if self.sends_dimension else {}
        return {"model": self.model, "input": list(texts), "encoding_format": "float", **length}

    def parse_answer(self, content: bytes, count: int) -> _EmbeddedTexts:
        """Parse the vectors of `count` texts, in the order of the texts, and their tokens.

        Raises:
            PlatformFault: The answer does not contain one valid vector for each text.
        """
        try:
            answer = _Answer.model_validate_json(content)
        except ValidationError:
            answer = None
        if answer is None:
            raise self.make_invalid_answer_error("an answer that is not valid")
        rows = sorted(answer.data, key=lambda row: row.index)
        if [row.index for row in rows] != list(range(count)):
            raise self.make_invalid_answer_error(
                f"{len(rows)} vectors, not one for each of {count} texts"
            )
        try:
            vectors = [unit_vector(row.embedding, self.dimension) for row in rows]
        except PlatformFault as fault:
            raise self.make_invalid_answer_error(
                f"a vector that is not valid. {fault.message.removesuffix('.')}"
            ) from None
        return _EmbeddedTexts(vectors, answer.input_tokens)


class _Row(BaseModel, strict=True):
    index: int
    embedding: list[float]


class _Answer(BaseModel, strict=True):
    data: list[_Row]
    usage: Any = None
    """Telemetry alone reads this field, so an endpoint may send anything here, or nothing."""

    @property
    def input_tokens(self) -> int:
        tokens = self.usage.get("prompt_tokens") if isinstance(self.usage, dict) else None
        return tokens if isinstance(tokens, int) else 0


class _KeyedEmbedder:
    """An embedder with one key. The endpoint owns the connections."""

    batch_size = 32

    def __init__(self, endpoint: _Endpoint, key: Key) -> None:
        self.model = endpoint.model
        self.dimension = endpoint.dimension
        self._endpoint = endpoint
        self._key = key
        # Each key has its own slots, so that its hanging calls do not block calls with other keys.
        self._slots = asyncio.Semaphore(endpoint.concurrency)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed the texts in parallel batches. The first failure cancels the other batches."""
        require_unicode(texts)
        if not texts:
            return []
        with (
            embedding_span("openai", self, texts) as request,
            self._endpoint.breaker.attempt() as attempt,
        ):
            try:
                embedded = await self._embed_all(texts, purpose)
            except CarrelError as error:
                if self._key.belongs_to_caller:
                    # The key may be at fault, so the failure says nothing about the endpoint.
                    attempt.healthy = None
                else:
                    # An endpoint that answers at all, even with an error, is reachable.
                    attempt.healthy = not isinstance(error, Unavailable)
                raise
            attempt.healthy = True
            record_input_tokens(request, embedded.input_tokens)
        return embedded.vectors

    async def aclose(self) -> None:
        """Do nothing, since the connections belong to the endpoint."""

    async def _embed_all(self, texts: Sequence[str], purpose: Purpose) -> _EmbeddedTexts:
        deadline = compute_deadline(purpose, self._endpoint.time_limit)
        batches = await run_concurrently(
            self._embed_batch(texts[offset : offset + self.batch_size], offset, deadline)
            for offset in range(0, len(texts), self.batch_size)
        )
        return _join(batches)

    async def _embed_batch(
        self, texts: Sequence[str], offset: int, deadline: float
    ) -> _EmbeddedTexts:
        """Embed a batch. If the endpoint rejects the batch, find the text at fault.

        The endpoint's error does not name a text. The batch may be too large, one text may be at
        fault, or the endpoint may reject every text because of its configuration. A probe with a
        harmless text rules out the configuration.

        Args:
            offset: The index of the batch's first text among all texts, for the error.
            deadline: When to stop, on the event loop's clock.

        Raises:
            InvalidInput: The endpoint rejects one of the texts.
        """
        is_probed = False

        async def embed_or_probe(batch: Sequence[str]) -> _EmbeddedTexts:
            nonlocal is_probed
            try:
                return await self._embed_with_retries(batch, deadline)
            except RejectedRequest as rejection:
                if not is_probed:
                    await self._probe(rejection.status, deadline)
                    is_probed = True
                raise

        parts: list[_EmbeddedTexts] = []
        async for _, outcome in bisect_batch(texts, embed_or_probe, RejectedRequest):
            if isinstance(outcome, RejectedRequest):
                # `bisect_batch` yields in order, so the rejected text follows those with a vector.
                embedded_count = sum(len(part.vectors) for part in parts)
                raise _make_rejection_error(offset + embedded_count)
            parts.append(outcome)
        return _join(parts)

    async def _probe(self, status: int, deadline: float) -> None:
        """Embed a harmless text, after texts were rejected with this status.

        Raises:
            PlatformFault: The endpoint rejects the harmless text, too.
        """
        try:
            await self._embed_with_retries([PROBE], deadline)
        except RejectedRequest:
            raise self._endpoint.make_configuration_error(status) from None

    async def _embed_with_retries(self, texts: Sequence[str], deadline: float) -> _EmbeddedTexts:
        return await retry_with_backoff(
            partial(self._request_vectors, texts, deadline), deadline=deadline
        )

    async def _request_vectors(self, texts: Sequence[str], deadline: float) -> _EmbeddedTexts:
        body = self._endpoint.build_request(texts)
        content = await self._endpoint.send(body, self._key, deadline, self._slots)
        return self._endpoint.parse_answer(content, len(texts))


class OpenAIEmbedder(_KeyedEmbedder):
    """Embeds with a model at an OpenAI-compatible endpoint, with the deployment's key.

    An instance belongs to the event loop that first uses it.
    """

    def __init__(  # noqa: PLR0913 - keyword arguments from settings
        self,
        *,
        base_url: str,
        model: str,
        dimension: int,
        sends_dimension: bool = True,
        api_key: SecretStr | None = None,
        time_limit: float = 30.0,
        concurrency: int = 4,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        """Configure the endpoint. Connections open on first use.

        Args:
            base_url: The address without `/embeddings`, such as `https://api.openai.com/v1`.
            sends_dimension: Whether requests ask for vectors of this length. Many endpoints
                reject the parameter.
            time_limit: The seconds that a call of `embed` may take, including retries.
            concurrency: How many requests may run at once with one key.
        """
        endpoint = _Endpoint(
            kind="embeddings",
            base_url=base_url,
            path="embeddings",
            model=model,
            dimension=dimension,
            sends_dimension=sends_dimension,
            time_limit=time_limit,
            rejection_advice="check model, dimension, and whether vectors can be shortened",
            concurrency=concurrency,
            breaker=breaker or CircuitBreaker("The embeddings endpoint"),
        )
        super().__init__(endpoint, Key(api_key))

    def on_behalf_of(self, api_key: SecretStr) -> Embedder:
        """Return an embedder for the same model and connections, with a caller's key.

        In addition to the errors of any embedder, `embed` then raises `Forbidden` (the endpoint
        rejects the key), `PaymentRequired` (the key's account is empty) and `RateLimited` (the key
        is throttled). Failures with a caller's key do not count towards the circuit breaker.
        """
        return _KeyedEmbedder(self._endpoint, Key(api_key, belongs_to_caller=True))

    async def aclose(self) -> None:
        """Close the connections, which all callers share."""
        await self._endpoint.aclose()


def _join(parts: Sequence[_EmbeddedTexts]) -> _EmbeddedTexts:
    """Join the vectors of several requests in order, and add up their tokens."""
    vectors = [vector for part in parts for vector in part.vectors]
    return _EmbeddedTexts(vectors, sum(part.input_tokens for part in parts))


def _make_rejection_error(index: int) -> InvalidInput:
    return InvalidInput(
        f"The embedding model rejected text {index}: it may be empty or too long. Change it.",
        details={"text": index},
    )
