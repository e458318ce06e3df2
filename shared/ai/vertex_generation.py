"""Asks a Gemini model on Vertex AI, through google-genai, for an answer in a given shape.

- An answer in the requested shape is returned.
- After an answer that has another shape, is empty or is cut off, the model is asked once more. If
  that fails, too, `InvalidAnswer` is raised.
- If the prompt is blocked, or the answer is withheld for its content, `InvalidInput` is raised.

The instruction is the system's message. The text is the user's message, enclosed so that it cannot
be mistaken for an instruction. Instructions in the text may affect the content of the answer, but
never its shape. No part of a text or an answer is logged or quoted in an error.
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
"""The model answers at most this many times for a text: once, and once more as a correction."""
_MAX_PROBLEMS: Final = 10
"""A request for a correction lists at most this many problems."""

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
            concurrency: How many texts may be processed at once.
            time_limit: The seconds that a text may take, including retries.
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
        """Apply the instruction to a text, and ask again if the answer does not have the shape.

        The details of an error contain the tokens that the answers before it cost.
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
        """Ask the model, and add its replies to `replies`, even if this fails.

        Raises:
            InvalidAnswer: No answer has the requested shape.
        """
        from shared.ai import _gemini as gemini

        config = gemini.make_config(instruction, schema, self.model)
        deadline = asyncio.get_running_loop().time() + self._time_limit
        contents = [gemini.make_user_message(text)]
        while len(replies) < ATTEMPTS:
            reply = await self._ask(contents, config, deadline)
            replies.append(reply)
            if reply.refused:
                raise InvalidInput(_REJECTED)
            answer_or_problem = _validate(reply, schema)
            if not isinstance(answer_or_problem, str):
                return Generated(answer_or_problem, **_sum_tokens(replies))
            contents += gemini.make_correction(reply, answer_or_problem)
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
    """Return the answer in the requested shape, or describe its problems for the model."""
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
