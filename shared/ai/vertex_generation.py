"""Generation of text in a given shape by a Gemini model on Vertex AI, through google-genai.

The model's replies have these results:

- the requested shape                                           the answer
- another shape, nothing, or an answer that is cut off           asked again, then `InvalidAnswer`
- the prompt is blocked, or the answer withheld for its content `InvalidInput`

The instruction is the system's message, and the text the user's, enclosed so that it cannot be
mistaken for anything else. Instructions in the text may affect the content of the answer, never its
shape. No part of a text or an answer is logged or quoted in an error.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from shared.ai.embedding import require_unicode
from shared.ai.generation import Generated, InvalidAnswer
from shared.ai.vertex_client import VertexClient, VertexEndpoint
from shared.core.errors import CarrelError, InvalidInput
from shared.core.telemetry import SpanKind, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.auth.credentials import Credentials
    from google.genai.types import Content, GenerateContentConfig, GenerateContentResponse

    from shared.ai._gemini import Reply
    from shared.ai.generation import ModelT
    from shared.core.circuit_breaker import CircuitBreaker

ATTEMPTS: Final = 2
"""The maximum number of answers per text: the first one and one correction."""
_MAX_PROBLEMS: Final = 10
"""The maximum number of problems listed when the model is asked for a correction."""

_REJECTED: Final = (
    "The language model rejects this text: it is too long or not allowed. If it rejects every"
    " text, check GENERATION_MODEL: the model may not support the request."
)


class VertexGenerator:
    """A language model on Vertex AI. An instance belongs to the event loop that first uses it."""

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
        """Store the configuration. The client, which is slow to import, loads on first use.

        Args:
            project: The Google Cloud project that pays.
            location: The region that serves the model, or `global`.
            model: The model's name.
            concurrency: How many texts may be processed at once.
            time_limit: Seconds that a text may take, including retries.
            credentials: The credentials; by default, the application default credentials.
            base_url: An address other than Google's.
            breaker: The circuit breaker; by default, a new one.
        """
        self.model = model
        self._time_limit = time_limit
        endpoint = VertexEndpoint(
            project=project, location=location, credentials=credentials, base_url=base_url
        )
        self._vertex = VertexClient(endpoint, time_limit, breaker)
        self._slots = asyncio.Semaphore(concurrency)

    async def generate(
        self, instruction: str, text: str, schema: type[ModelT]
    ) -> Generated[ModelT]:
        """Apply the instruction to a text, and ask again if the answer has another shape.

        The details of an error contain the tokens of the answers before it.
        """
        require_unicode([text])
        if not text.strip():
            raise InvalidInput("The text is empty.")
        async with self._slots:
            replies: list[Reply] = []
            with self._vertex.guarded():
                try:
                    return await self._generate(instruction, text, schema, replies)
                except CarrelError as error:
                    error.details |= _sum_tokens(replies)
                    raise

    async def aclose(self) -> None:
        """Close the connections."""
        await self._vertex.aclose()

    async def _generate(
        self, instruction: str, text: str, schema: type[ModelT], replies: list[Reply]
    ) -> Generated[ModelT]:
        """Ask the model, and collect its replies in `replies` even if this fails.

        Raises:
            InvalidAnswer: No answer has the requested shape.
        """
        from shared.ai import _gemini as gemini

        config = gemini.make_config(instruction, schema, self.model)
        deadline = asyncio.get_running_loop().time() + self._time_limit
        contents = [gemini.user_message(text)]
        while len(replies) < ATTEMPTS:
            reply = await self._ask(contents, config, deadline)
            replies.append(reply)
            if reply.refused:
                raise InvalidInput(_REJECTED)
            result = _validate(reply, schema)
            if not isinstance(result, str):
                return Generated(result, **_sum_tokens(replies))
            contents += gemini.correction(reply, result)
        raise InvalidAnswer(
            "The language model answered twice, each time in another shape than requested."
        )

    async def _ask(
        self,
        contents: list[Content],
        config: GenerateContentConfig,
        deadline: float,
    ) -> Reply:
        """Send the conversation, and return the model's reply."""
        from shared.ai import _gemini as gemini
        from shared.ai._vertex import call_vertex

        async def attempt() -> GenerateContentResponse:
            return await self._vertex.aio.models.generate_content(
                model=self.model, contents=list(contents), config=config
            )

        # https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/#inference
        attributes = {
            "gen_ai.operation.name": "generate_content",
            "gen_ai.provider.name": "gcp.vertex_ai",
            "gen_ai.request.model": self.model,
        }
        with span(f"generate_content {self.model}", attributes, kind=SpanKind.CLIENT) as request:
            response = await call_vertex(
                attempt, deadline=deadline, refusal=InvalidInput(_REJECTED)
            )
            reply = gemini.parse_reply(response)
            request.set(
                {
                    "gen_ai.usage.input_tokens": reply.input_tokens,
                    "gen_ai.usage.output_tokens": reply.output_tokens,
                }
            )
        return reply


def _validate(reply: Reply, schema: type[ModelT]) -> ModelT | str:
    """Return the answer, or a description of its problems for the model."""
    if reply.cut_off:
        return "It was cut off: it is far too long."
    try:
        return schema.model_validate_json(reply.text)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
    return "\n".join(
        f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
        for problem in problems[:_MAX_PROBLEMS]
    )


def _sum_tokens(replies: Sequence[Reply]) -> dict[str, int]:
    return {
        "input_tokens": sum(reply.input_tokens for reply in replies),
        "output_tokens": sum(reply.output_tokens for reply in replies),
    }
