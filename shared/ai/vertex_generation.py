"""Text in a given shape from a Gemini model on Vertex AI, through the google-genai client.

Of what the model answers, this is made:

- the shape that was asked for                                   the answer
- another shape, nothing, or an answer that is cut off           asked again, then `InvalidAnswer`
- the prompt is blocked, or the answer withheld for what it says `InvalidInput`

The instruction is the system's, the text the user's: marked off so that it cannot pass for anything
else. What a text demands may change what an answer says, never its shape. Nothing of a text or an
answer is logged or stands in an error.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from shared.ai.embedding import require_unicode
from shared.ai.generation import Generated, InvalidAnswer
from shared.ai.vertex_client import VertexClient, VertexEndpoint
from shared.core.errors import CarrelError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.auth.credentials import Credentials
    from google.genai.types import Content, GenerateContentConfig, GenerateContentResponse

    from shared.ai._gemini import Reply
    from shared.ai.generation import ModelT
    from shared.core.circuit_breaker import CircuitBreaker

ATTEMPTS: Final = 2
"""How often the model may answer: once, and once more when it is told what is wrong."""
_MOST_PROBLEMS: Final = 10
"""Of what is wrong with an answer, how much the model is told."""

_REFUSED: Final = (
    "The language model refuses this text: it is too long, or not allowed there. If it refuses"
    " every text, check GENERATION_MODEL: it may not take what it is asked with."
)


class VertexGenerator:
    """A model on Vertex AI. An instance belongs to the event loop it is first used in."""

    def __init__(  # noqa: PLR0913 - what differs between deployments, all by name
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
        """Connect to nothing yet: importing the client takes most of a second.

        Args:
            project: The Google Cloud project that pays.
            location: The region that serves the model, or `global`.
            model: The model's name.
            concurrency: How many texts may be worked on at once.
            time_limit: Seconds that one text may take, retries and pauses included.
            credentials: Whose name to call in; without, the application default credentials.
            base_url: Another endpoint than Google's.
            breaker: Leaves it alone while it is down; one of its own by default.
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
        """Have a text worked on; where the answer has another shape, ask once more.

        An error says in its details what the answers before it cost.
        """
        require_unicode([text])
        if not text.strip():
            raise InvalidInput("There is no text to work on.")
        async with self._slots:
            replies: list[Reply] = []
            with self._vertex.watched():
                try:
                    return await self._generate(instruction, text, schema, replies)
                except CarrelError as error:
                    error.details |= _cost(replies)
                    raise

    async def aclose(self) -> None:
        """Close the connections."""
        await self._vertex.aclose()

    async def _generate(
        self, instruction: str, text: str, schema: type[ModelT], replies: list[Reply]
    ) -> Generated[ModelT]:
        """Have a text worked on, and put to `replies` what the model says, whatever becomes of it.

        Raises:
            BadAnswer: It does not say it in this shape.
        """
        from shared.ai import _gemini as gemini

        config = gemini.configured(instruction, schema, self.model)
        deadline = asyncio.get_running_loop().time() + self._time_limit
        contents = [gemini.opening(text)]
        while len(replies) < ATTEMPTS:
            reply = await self._ask(contents, config, deadline)
            replies.append(reply)
            if reply.refused:
                raise InvalidInput(_REFUSED)
            found = _checked(reply, schema)
            if not isinstance(found, str):
                return Generated(found, **_cost(replies))
            contents += gemini.objection(reply, found)
        raise InvalidAnswer(
            "The language model twice answered in another shape than it was asked for."
        )

    async def _ask(
        self,
        contents: list[Content],
        config: GenerateContentConfig,
        deadline: float,
    ) -> Reply:
        """What the model says."""
        from shared.ai import _gemini as gemini
        from shared.ai._vertex import call

        async def attempt() -> GenerateContentResponse:
            return await self._vertex.aio.models.generate_content(
                model=self.model, contents=list(contents), config=config
            )

        response = await call(attempt, deadline=deadline, refused=InvalidInput(_REFUSED))
        return gemini.read(response)


def _checked(reply: Reply, schema: type[ModelT]) -> ModelT | str:
    """The answer, or what is wrong with it, in words for the model alone."""
    if reply.cut_off:
        return "It was cut off: it is far too long."
    try:
        return schema.model_validate_json(reply.text)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
    listed = found[:_MOST_PROBLEMS]
    return "\n".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in listed)


def _cost(replies: Sequence[Reply]) -> dict[str, int]:
    return {
        "input_tokens": sum(reply.input_tokens for reply in replies),
        "output_tokens": sum(reply.output_tokens for reply in replies),
    }
