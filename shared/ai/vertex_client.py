"""The google-genai client for Vertex AI, which embedding and generation share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from shared.ai.retrying import ATTEMPTS_IN_TIME

if TYPE_CHECKING:
    import httpx2
    from google import genai
    from google.auth.credentials import Credentials
    from google.genai.client import AsyncClient


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexEndpoint:
    """The address of Vertex AI and the credentials for it.

    Attributes:
        project: The Google Cloud project that pays.
        location: The region that serves the model, or `global`.
        credentials: The credentials; by default, the application default credentials.
        base_url: An address other than Google's.
    """

    project: str
    location: str
    credentials: Credentials | None = None
    base_url: str | None = None


class VertexClient:
    """Connections to Vertex AI. An instance belongs to the event loop that first uses it."""

    def __init__(self, endpoint: VertexEndpoint, time_limit: float) -> None:
        """Store the configuration. The client, which is slow to import, loads on first use.

        Args:
            time_limit: The seconds that all attempts of a call may take together.
        """
        self._endpoint = endpoint
        self._time_limit = time_limit

    @property
    def aio(self) -> AsyncClient:
        """The asynchronous client."""
        return self._client.aio

    async def aclose(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await self._client.aio.aclose()
            self._client.close()
            await self._http.aclose()

    @cached_property
    def _http(self) -> httpx2.AsyncClient:
        """The HTTP client for google-genai, which would otherwise choose its own and retry."""
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
