"""What a language model is asked to find in a passage, and the shape in which it answers."""

from __future__ import annotations

from typing import Annotated, Any, Final, Generic

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from shared.extractions.model import ContentT, Decision, Methodology, Pattern, Pitfall

INSTRUCTION: Final = """\
You read a passage of a book, an article or a note, and find the knowledge in it that others can use
at work. The first line is the title of the source: it tells what the passage is about, and is no
part of it.

Find these, and nothing else:
- decisions: a choice that the passage weighs, with its alternatives. One without alternatives is
  none.
- patterns: a solution to a problem that comes up again and again, which the passage explains.
- warnings: something that goes wrong, and how or why; not a mere complaint.
- methodologies: a way of working in steps, which the passage describes in their order.

Most passages hold none or one of them, and many hold nothing at all: then all lists are empty, and
that is a good answer. Where a passage holds several, each is an entry of its own. The same thing is
told once, under the type that fits it best.

For each entry:
- quote: the words of the passage that it rests on, one to three sentences, copied word for word and
  without anything left out. What you cannot quote you must not tell.
- content: what the passage says, in its language and in your own plain words. Add nothing that it
  does not say: what it leaves open is left out.
- topics: one to five subjects that somebody would look for, the main one first, in English, each of
  one to three words in lower case: testing, rate limiting, on-call.
- confidence: how sure you are that the passage says this and that it is of this type: 0.9 where it
  says so in as many words, 0.6 where you had to read between the lines."""

MOST: Final = 10
"""Entries of a type: a passage of two thousand characters has no more."""
MOST_TOPICS: Final = 12
"""Topics of an entry that are read; of more than five, the first five count."""


def _clamped(value: object) -> object:
    """A number at the nearest end of what it must lie in: a model that is sure says 1.2."""
    if isinstance(value, float | int):
        return min(1.0, max(0.0, float(value)))
    return value


def _without_blanks(value: Any) -> Any:
    """What a model leaves open it tells as an empty string: as if it had said nothing."""
    match value:
        case dict():
            told = {name: _without_blanks(each) for name, each in value.items()}
            return {name: each for name, each in told.items() if not _blank(each)}
        case list():
            return [each for each in map(_without_blanks, value) if not _blank(each)]
    return value


def _blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


class Found(BaseModel, Generic[ContentT]):
    """One entry."""

    model_config = ConfigDict(frozen=True)

    quote: Annotated[str, StringConstraints(min_length=1, max_length=2_000)] = Field(
        description="The words of the passage that it rests on, word for word."
    )
    content: ContentT = Field(description="What the passage says.")
    topics: Annotated[tuple[str, ...], Field(max_length=MOST_TOPICS)] = Field(
        description="What it is about: one to five subjects, the main one first."
    )
    confidence: Annotated[float, BeforeValidator(_clamped), Field(ge=0, le=1)] = Field(
        description="How sure you are."
    )


class Findings(BaseModel):
    """All entries, by their types."""

    model_config = ConfigDict(frozen=True)

    decisions: Annotated[tuple[Found[Decision], ...], Field(max_length=MOST)] = Field(
        default=(), description="Choices that the passage weighs; empty if there are none."
    )
    patterns: Annotated[tuple[Found[Pattern], ...], Field(max_length=MOST)] = Field(
        default=(), description="Solutions that it explains; empty if there are none."
    )
    warnings: Annotated[tuple[Found[Pitfall], ...], Field(max_length=MOST)] = Field(
        default=(), description="What it warns of; empty if there is nothing."
    )
    methodologies: Annotated[tuple[Found[Methodology], ...], Field(max_length=MOST)] = Field(
        default=(), description="Ways of working in steps; empty if there are none."
    )

    @model_validator(mode="before")
    @classmethod
    def _told(cls, value: Any) -> Any:
        return _without_blanks(value)


def material(title: str, content: str) -> str:
    """A passage as the model is given it."""
    return f"{title}\n\n{content}"
