"""Embedding by Vertex AI, through the google-genai client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from shared.ai.embedding import (
    Purpose,
    Vector,
    embedding_span,
    record_input_tokens,
    require_unicode,
    unit_vector,
)
from shared.ai.retrying import compute_deadline, run_concurrently
from shared.ai.vertex_client import VertexClient, VertexEndpoint
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.errors import InvalidInput, PlatformFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.auth.credentials import Credentials
    from google.genai.types import ContentEmbedding, EmbedContentConfig, EmbedContentResponse

_TASK_TYPES = {Purpose.DOCUMENT: "RETRIEVAL_DOCUMENT", Purpose.QUERY: "RETRIEVAL_QUERY"}


class VertexEmbedder:
    """An embedding model on Vertex AI. An instance belongs to the event loop that first uses it.

    Each request contains one text, because `gemini-embedding-001` accepts no more, and newer models
    may merge several into one vector. Text beyond the model's limit (2,048 tokens) is ignored.
    """

    batch_size = 32

    def __init__(  # noqa: PLR0913 - keyword arguments from settings
        self,
        *,
        project: str,
        location: str,
        model: str = "gemini-embedding-001",
        dimension: int = 768,
        concurrency: int = 8,
        time_limit: float = 30.0,
        credentials: Credentials | None = None,
        base_url: str | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        """Store the configuration. The client, which is slow to import, loads on first use.

        Args:
            time_limit: The seconds that a call of `embed` may take, including retries.
        """
        self.model = model
        self.dimension = dimension
        self._time_limit = time_limit
        endpoint = VertexEndpoint(
            project=project, location=location, credentials=credentials, base_url=base_url
        )
        self._vertex = VertexClient(endpoint, time_limit)
        self._breaker = breaker or CircuitBreaker("Vertex AI")
        self._slots = asyncio.Semaphore(concurrency)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed the texts, several at a time. The first failure cancels the other requests."""
        require_unicode(texts)
        if not texts:
            return []
        with embedding_span("gcp.vertex_ai", self, texts) as request, self._breaker.guard():
            config = self._build_config(purpose)
            deadline = compute_deadline(purpose, self._time_limit)
            embeddings = await run_concurrently(
                self._embed_one(index, text, config, deadline) for index, text in enumerate(texts)
            )
            record_input_tokens(request, sum(map(_count_tokens, embeddings)))
            return [unit_vector(item.values or [], self.dimension) for item in embeddings]

    async def aclose(self) -> None:
        """Close the connections."""
        await self._vertex.aclose()

    async def _embed_one(
        self, index: int, text: str, config: EmbedContentConfig, deadline: float
    ) -> ContentEmbedding:
        from shared.ai._vertex import call_vertex

        async def attempt() -> EmbedContentResponse:
            return await self._vertex.aio.models.embed_content(
                model=self.model, contents=text, config=config
            )

        async with self._slots:
            response = await call_vertex(
                attempt, deadline=deadline, refusal=_make_rejection_error(index)
            )
        embeddings = response.embeddings or []
        if len(embeddings) != 1:
            raise PlatformFault(f"Vertex AI answered {len(embeddings)} vectors for one text.")
        return embeddings[0]

    def _build_config(self, purpose: Purpose) -> EmbedContentConfig:
        from google.genai.types import EmbedContentConfig

        return EmbedContentConfig(
            task_type=_TASK_TYPES[purpose],
            output_dimensionality=self.dimension,
            auto_truncate=True,
        )


def _count_tokens(embedding: ContentEmbedding) -> int:
    """Return the number of tokens that Vertex AI counted in a text, or 0 if it names none."""
    statistics = embedding.statistics
    return int(statistics.token_count or 0) if statistics else 0


def _make_rejection_error(index: int) -> InvalidInput:
    return InvalidInput(
        f"The embedding model rejected text {index}: it may be empty or too long. Change it.",
        details={"text": index},
    )
