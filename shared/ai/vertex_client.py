"""The google-genai client, as all that asks Vertex AI uses it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from shared.ai.retrying import ATTEMPTS_IN_TIME
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.errors import CarrelError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2
    from google import genai
    from google.auth.credentials import Credentials
    from google.genai.client import AsyncClient


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexEndpoint:
    """Where Vertex AI is asked, and in whose name.

    Attributes:
        project: The Google Cloud project that pays.
        location: The region that serves the model, or `global`.
        credentials: Whose name to call in; without, the application default credentials.
        base_url: Another endpoint than Google's.
    """

    project: str
    location: str
    credentials: Credentials | None = None
    base_url: str | None = None


class VertexClient:
    """Connections to Vertex AI. An instance belongs to the event loop it is first used in."""

    def __init__(
        self, endpoint: VertexEndpoint, time_limit: float, breaker: CircuitBreaker | None
    ) -> None:
        """Connect to nothing yet: importing the client takes most of a second.

        Args:
            endpoint: Whom to ask.
            time_limit: Seconds that all attempts of a call have together.
            breaker: Leaves it alone while it is down; one of its own by default.
        """
        self._endpoint = endpoint
        self._time_limit = time_limit
        self._breaker = breaker or CircuitBreaker("Vertex AI")

    @property
    def aio(self) -> AsyncClient:
        """The client: its models embed and write, its batches do so in bulk."""
        return self._client.aio

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Let calls through unless it is down, and learn from what becomes of them.

        Raises:
            Unavailable: It is left alone for now.
        """
        with self._breaker.attempt() as attempt:
            try:
                yield
            except CarrelError as error:
                attempt.healthy = not isinstance(error, Unavailable)  # one that refuses is up
                raise
            attempt.healthy = True

    async def aclose(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await self._client.aio.aclose()
            self._client.close()
            await self._http.aclose()

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
            project=self._endpoint.project,
            location=self._endpoint.location,
            credentials=self._endpoint.credentials,
            http_options=HttpOptions(
                base_url=self._endpoint.base_url,
                httpx_async_client=self._http,
                timeout=round(1000 * self._time_limit / ATTEMPTS_IN_TIME),
            ),
        )
