"""Makes knowledge cards with a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, Field, StringConstraints, field_validator

from shared.ai.generation import count_tokens
from shared.knowledge.knowledge_card import KnowledgeCard

if TYPE_CHECKING:
    from shared.ai.generation import Generator
    from shared.core.meter import Meter

INSTRUCTION: Final = """\
You write knowledge cards, by which somebody recognises and remembers what they once highlighted.

The text is the title of a source, an empty line, and a passage of it. Say what the passage says, in
the language that it is written in: a summary that can be read alone, and takeaways, each of which
is a sentence of its own that somebody can act on or remember. Say only what the passage says, and
say it directly: never "the passage" or "the author says". Findings, decisions and advice come
before background. The summary is not a heading, and its first word does not point back, as
"however" and "this" do."""
PROBE: Final = (
    "A carrel is a small desk in a library, walled on three sides so that its reader is left in"
    " peace. Monks had them in their cloisters. Universities took them over, and a student may"
    " often keep one for a whole term. Whoever leaves notes in a carrel finds them the next day."
)
"""A text for which every working model can write a card."""

Takeaway = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]


class GeneratedCard(BaseModel):
    """The answer of the model: a summary of a chunk, and takeaways."""

    summary: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=400)
    ] = Field(description="The whole point, in one to three sentences.")
    takeaways: Annotated[tuple[Takeaway, ...], Field(min_length=3, max_length=5)] = Field(
        description="What to remember, one sentence each, none that the others say already."
    )

    @field_validator("takeaways")
    @classmethod
    def _require_different(cls, takeaways: tuple[str, ...]) -> tuple[str, ...]:
        if len({takeaway.casefold() for takeaway in takeaways}) < len(takeaways):
            raise ValueError("two takeaways say the same")
        return takeaways

    @property
    def card(self) -> KnowledgeCard:
        """The card as it is stored."""
        return KnowledgeCard(self.summary, self.takeaways)


async def generate_card(
    generator: Generator, title: str, content: str, meter: Meter
) -> KnowledgeCard:
    """Have the model write the card of a chunk, and count the tokens.

    Raises:
        CarrelError: The model failed, as `Generator.generate` describes.
    """
    answer = generator.generate(INSTRUCTION, f"{title}\n\n{content}", GeneratedCard)
    return (await count_tokens(answer, meter)).card


async def probe(generator: Generator, meter: Meter) -> None:
    """Have the model write the card of `PROBE`, to find out whether the model works.

    Raises:
        CarrelError: The model would fail for any chunk.
    """
    await generate_card(generator, "On Carrels", PROBE, meter)
