"""The interface of language models that answer in a given shape.

The shape of an answer is a pydantic model, whose descriptions the language model reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pydantic import BaseModel

from shared.core.errors import CarrelError, PlatformFault

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from shared.core.meter import Meter

ModelT = TypeVar("ModelT", bound=BaseModel)


class InvalidAnswer(PlatformFault):
    """The model was asked twice, and neither answer had the requested shape."""


@dataclass(frozen=True, slots=True)
class Generated(Generic[ModelT]):
    """A model's answer and the tokens it cost.

    Attributes:
        input_tokens: The tokens sent in all attempts together, as the provider bills them.
        output_tokens: The tokens written in all attempts together, thoughts included.
    """

    value: ModelT
    input_tokens: int
    output_tokens: int


class Generator(Protocol):
    """A provider of generated text."""

    model: str

    async def generate(
        self, instruction: str, text: str, schema: type[ModelT]
    ) -> Generated[ModelT]:
        """Apply an instruction to a text.

        If tokens were spent before an error, the error's details contain `input_tokens` and
        `output_tokens`, which `count_tokens` reads.

        Args:
            instruction: What the model is to do. The instruction is trusted.
            text: The text to work on. The model is told not to follow instructions in the text.
            schema: The shape of the answer, with descriptions for the model.

        Raises:
            Unavailable: The provider is down, slow or out of quota; `retry_after` is set.
            InvalidInput: The provider rejects the text as too long or not allowed.
            InvalidAnswer: Two answers in a row did not have the shape.
            PlatformFault: The provider is configured wrongly.
        """
        ...

    async def aclose(self) -> None:
        """Release connections and threads."""
        ...


async def count_tokens(generation: Awaitable[Generated[ModelT]], meter: Meter) -> ModelT:
    """Await a generation, and add the tokens that it cost to the meter, even if it fails.

    Raises:
        CarrelError: See `Generator.generate`.
    """
    try:
        generated = await generation
    except CarrelError as error:
        meter.input_tokens += error.details.get("input_tokens", 0)
        meter.output_tokens += error.details.get("output_tokens", 0)
        raise
    meter.input_tokens += generated.input_tokens
    meter.output_tokens += generated.output_tokens
    return generated.value
