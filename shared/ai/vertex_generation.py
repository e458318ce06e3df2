"""Generates with a Gemini model on Vertex AI, through google-genai."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.ai.chat import REJECTED, ChatGenerator
from shared.ai.vertex_client import VertexClient, VertexEndpoint
from shared.core.circuit_breaker import CircuitBreaker
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.genai.types import GenerateContentResponse

    from shared.ai.chat import Conversation, Reply


class VertexGenerator(ChatGenerator):
    """A language model on Vertex AI."""

    provider = "gcp.vertex_ai"
    operation = "generate_content"

    def __init__(  # noqa: PLR0913 - keyword arguments from settings
        self,
        *,
        project: str,
        location: str,
        model: str,
        concurrency: int = 8,
        time_limit: float = 90.0,
        credentials: Credentials | None = None,
        base_url: str | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        """Store the configuration. The client, which is slow to import, loads on first use."""
        super().__init__(
            model,
            concurrency=concurrency,
            time_limit=time_limit,
            breaker=breaker or CircuitBreaker("Vertex AI"),
        )
        endpoint = VertexEndpoint(
            project=project, location=location, credentials=credentials, base_url=base_url
        )
        self._vertex = VertexClient(endpoint, time_limit)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._vertex.aclose()

    async def _request(self, conversation: Conversation, deadline: float) -> Reply:
        from shared.ai import _gemini as gemini
        from shared.ai._vertex import call_vertex

        config = gemini.make_config(conversation, self.model)
        contents = gemini.make_contents(conversation)

        async def attempt() -> GenerateContentResponse:
            return await self._vertex.aio.models.generate_content(
                model=self.model, contents=contents, config=config
            )

        response = await call_vertex(attempt, deadline=deadline, refusal=InvalidInput(REJECTED))
        return gemini.parse_reply(response)
