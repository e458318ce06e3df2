"""Embeddings from Vertex AI, through the google-genai client."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING

from shared.ai.embedding import Purpose, Vector, require_unicode, unit_vector
from shared.ai.retrying import ATTEMPTS_IN_TIME, concurrently, deadline_for
from shared.breaker import Breaker
from shared.errors import CarrelError, InvalidInput, PlatformFault, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx2
    from google import genai
    from google.auth.credentials import Credentials
    from google.genai.types import EmbedContentConfig, EmbedContentResponse

_TASK_TYPES = {Purpose.DOCUMENT: "RETRIEVAL_DOCUMENT", Purpose.QUERY: "RETRIEVAL_QUERY"}


class VertexEmbedder:
    """A model on Vertex AI. An instance belongs to the event loop it is first used in.

    Each request carries one text: `gemini-embedding-001` accepts no more, and newer models may fuse
    a list into one vector. Text past the model's limit (2,048 tokens) is left out.
    """

    batch_size = 32

    def __init__(  # noqa: PLR0913 - what differs between deployments, all by name
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
        breaker: Breaker | None = None,
    ) -> None:
        """Connect to nothing yet: importing the client takes most of a second.

        Args:
            project: The Google Cloud project that pays.
            location: The region that serves the model, or `global`.
            model: The model's name.
            dimension: The length of its vectors.
            concurrency: How many requests may be under way at once.
            time_limit: Seconds that one call of `embed` may take, retries and pauses included.
            credentials: Whose name to call in; without, the application default credentials.
            base_url: Another endpoint than Google's.
            breaker: Leaves it alone while it is down; one of its own by default.
        """
        self.model = model
        self.dimension = dimension
        self._project = project
        self._location = location
        self._credentials = credentials
        self._base_url = base_url
        self._time_limit = time_limit
        self._breaker = breaker or Breaker("Vertex AI")
        self._slots = asyncio.Semaphore(concurrency)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed each text, several at a time; the first failure ends the others."""
        require_unicode(texts)
        if not texts:
            return []
        with self._breaker.attempt() as attempt:
            try:
                vectors = await self._embed_all(texts, purpose)
            except CarrelError as error:
                attempt.well = not isinstance(error, Unavailable)  # one that refuses is up
                raise
            attempt.well = True
        return vectors

    async def _embed_all(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        config = self._config(purpose)
        deadline = deadline_for(purpose, self._time_limit)
        return await concurrently(
            self._embed_one(index, text, config, deadline) for index, text in enumerate(texts)
        )

    async def aclose(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await self._client.aio.aclose()
            self._client.close()
            await self._http.aclose()

    async def _embed_one(
        self, index: int, text: str, config: EmbedContentConfig, deadline: float
    ) -> Vector:
        from shared.ai._vertex import call

        async def attempt() -> EmbedContentResponse:
            return await self._client.aio.models.embed_content(
                model=self.model, contents=text, config=config
            )

        async with self._slots:
            response = await call(attempt, deadline=deadline, refused=_refused(index))
        return self._vector(response)

    def _vector(self, response: EmbedContentResponse) -> Vector:
        embeddings = response.embeddings or []
        if len(embeddings) != 1:
            raise PlatformFault(f"Vertex AI answered {len(embeddings)} vectors for one text.")
        return unit_vector(embeddings[0].values or [], self.dimension)

    def _config(self, purpose: Purpose) -> EmbedContentConfig:
        from google.genai.types import EmbedContentConfig

        return EmbedContentConfig(
            task_type=_TASK_TYPES[purpose],
            output_dimensionality=self.dimension,
            auto_truncate=True,
        )

    @cached_property
    def _http(self) -> httpx2.AsyncClient:
        """Our own, so that the client neither picks another library nor retries by itself."""
        import httpx2

        return httpx2.AsyncClient()

    @cached_property
    def _client(self) -> genai.Client:
        from google import genai
        from google.genai.types import HttpOptions

        return genai.Client(
            vertexai=True,
            project=self._project,
            location=self._location,
            credentials=self._credentials,
            http_options=HttpOptions(
                base_url=self._base_url,
                httpx_async_client=self._http,
                timeout=round(1000 * self._time_limit / ATTEMPTS_IN_TIME),
            ),
        )


def _refused(index: int) -> InvalidInput:
    return InvalidInput(
        f"The embedding model refused text {index}: it may be empty or too long. Change that text.",
        details={"text": index},
    )
