"""A language model in a test's own process, whose answers the test provides."""

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from shared.ai.generation import Generated, InvalidAnswer, ModelT
from shared.core.errors import CarrelError, Unavailable


class ScriptedGenerator:
    """A generator that answers each text with the result of a function.

    Attributes:
        make_answer: A function that returns the answer to a text.
        texts: The texts so far, in order of arrival.
        is_down: Whether the model is unavailable.
    """

    model = "scripted"

    def __init__(self, answer: Callable[[str], Any]) -> None:
        """Answer with the results of a function.

        A result is a value of the requested schema, an error to raise, or an awaitable value.
        """
        self.make_answer = answer
        self.texts: list[str] = []
        self.is_down = False

    async def generate(
        self,
        instruction: str,  # noqa: ARG002 - a test knows its instruction
        text: str,
        schema: type[ModelT],
    ) -> Generated[ModelT]:
        """Answer a text.

        Raises:
            Unavailable: The model is down.
            InvalidAnswer: The test's answer does not match the schema.
        """
        self.texts.append(text)
        if self.is_down:
            raise Unavailable("The language model does not answer.", retry_after=5)
        answer = self.make_answer(text)
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
