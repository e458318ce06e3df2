"""A language model in this process whose answers a test determines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from shared.ai.generation import Generated, InvalidAnswer
from shared.core.errors import CarrelError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.ai.generation import ModelT


class ScriptedGenerator:
    """Answers each text with the result of `answering`.

    Attributes:
        answering: Makes the answer of a text.
        texts: The texts so far, in the order of arrival.
        down: Whether it cannot be reached.
    """

    model = "scripted"

    def __init__(self, answer: Callable[[str], Any]) -> None:
        """Answer with what this returns, of the shape that is asked for, or raise what it raises.

        It may be awaitable, for one that answers late.
        """
        self.answering = answer
        self.texts: list[str] = []
        self.down = False

    async def generate(
        self,
        instruction: str,  # noqa: ARG002 - a test knows its instruction
        text: str,
        schema: type[ModelT],
    ) -> Generated[ModelT]:
        """Answer a text.

        Raises:
            Unavailable: It is down.
            InvalidAnswer: The test's answer does not have the requested shape.
        """
        self.texts.append(text)
        if self.down:
            raise Unavailable("The language model does not answer.", retry_after=5)
        answer = self.answering(text)
        if isinstance(answer, CarrelError):
            raise answer
        if hasattr(answer, "__await__"):
            answer = await answer
        try:
            return Generated(schema.model_validate(answer), input_tokens=100, output_tokens=10)
        except ValidationError as error:
            cost = {"input_tokens": 200, "output_tokens": 20}
            raise InvalidAnswer("It answered in another shape.", details=cost) from error

    async def aclose(self) -> None:
        """Do nothing."""
