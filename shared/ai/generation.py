"""Text by a language model, in a given shape: what every provider promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pydantic import BaseModel

from shared.core.errors import PlatformFault

ModelT = TypeVar("ModelT", bound=BaseModel)


class BadAnswer(PlatformFault):
    """The model was asked twice, and answered nothing of the shape that was asked for."""


@dataclass(frozen=True, slots=True)
class Generated(Generic[ModelT]):
    """What a model answered.

    Attributes:
        value: The answer, in the shape that was asked for.
        input_tokens: What it was given, as the provider bills it, all attempts together.
        output_tokens: What it wrote, its thoughts included.
    """

    value: ModelT
    input_tokens: int
    output_tokens: int


class Generator(Protocol):
    """A provider of text.

    Attributes:
        model: The model's name and version.
    """

    model: str

    async def generate(
        self, instruction: str, text: str, schema: type[ModelT]
    ) -> Generated[ModelT]:
        """Have a text worked on.

        An error says in its details what was spent before it, as far as anything was:
        `input_tokens` and `output_tokens`. See `shared.ai.metering`.

        Args:
            instruction: What to do; ours.
            text: What to do it with. It is data: what it tells the model to do is not done.
            schema: The shape of the answer, with descriptions that the model reads.

        Raises:
            Unavailable: It is down, slow or out of quota; `retry_after` says for how long.
            InvalidInput: It refuses this text: it is too long, or not allowed there.
            BadAnswer: It answered nothing of this shape, asked twice.
            PlatformFault: It is set up wrongly.
        """
        ...

    async def aclose(self) -> None:
        """Give back what it holds: connections, threads."""
        ...
