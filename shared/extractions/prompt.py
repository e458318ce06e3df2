"""The prompt with which a language model finds extractions, and the schema of its answer.

A finding is a possible extraction in the model's answer. It becomes an extraction if the passage
contains its quote (`shared.extractions.quotes`).
"""

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
at work. The first line is the title of the source: it says what the passage is about, and is not
part of it.

Find these, and nothing else:
- decisions: a choice that the passage weighs, with its alternatives. Without alternatives it is not
  a decision.
- patterns: a solution to a recurring problem, which the passage explains.
- warnings: something that goes wrong, and how or why; not a mere complaint.
- methodologies: a way of working in steps, which the passage describes in order.

Most passages contain none or one of them, and many contain nothing at all: then all lists are
empty, and that is a good answer. If a passage contains several, each is a separate entry. Report
the same thing once, under the type that fits it best.

For each entry:
- quote: the words of the passage that support it, one to three sentences, copied word for word
  without omissions. Do not report what you cannot quote.
- content: what the passage says, in its language and in your own plain words. Add nothing that it
  does not say, and leave out what it leaves open.
- topics: one to five subjects that somebody would look for, the main one first, in English, each of
  one to three words in lower case: testing, rate limiting, on-call.
- confidence: how sure you are that the passage says this and that it is of this type: 0.9 if it
  says so explicitly, 0.6 if you had to read between the lines."""

MAX_FINDINGS: Final = 10
"""An answer may contain at most this many findings of a type. A passage of two thousand characters
contains fewer."""
MAX_TOPICS_READ: Final = 12
"""A finding may name at most this many topics. Models do not always keep to the five that the
prompt asks for; the first five different topics are used."""


def _clamp(value: object) -> object:
    """Limit a number to the range from 0 to 1, because a very sure model may answer 1.2."""
    if isinstance(value, float | int):
        return min(1.0, max(0.0, float(value)))
    return value


def _remove_blanks(value: Any) -> Any:
    """Remove blank strings, which models return for fields about which the passage says nothing."""
    match value:
        case dict():
            fields = {name: _remove_blanks(field) for name, field in value.items()}
            return {name: field for name, field in fields.items() if not _is_blank(field)}
        case list():
            return [element for element in map(_remove_blanks, value) if not _is_blank(element)]
    return value


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


class Finding(BaseModel, Generic[ContentT]):
    """A possible extraction in the model's answer, before its quote is checked."""

    model_config = ConfigDict(frozen=True)

    quote: Annotated[str, StringConstraints(min_length=1, max_length=2_000)] = Field(
        description="The words of the passage that support it, word for word."
    )
    content: ContentT = Field(description="What the passage says.")
    topics: Annotated[tuple[str, ...], Field(max_length=MAX_TOPICS_READ)] = Field(
        description="What it is about: one to five subjects, the main one first."
    )
    confidence: Annotated[float, BeforeValidator(_clamp), Field(ge=0, le=1)] = Field(
        description="How sure you are."
    )


class Findings(BaseModel):
    """All findings in a passage, by type."""

    model_config = ConfigDict(frozen=True)

    decisions: Annotated[tuple[Finding[Decision], ...], Field(max_length=MAX_FINDINGS)] = Field(
        default=(), description="Choices that the passage weighs; empty if there are none."
    )
    patterns: Annotated[tuple[Finding[Pattern], ...], Field(max_length=MAX_FINDINGS)] = Field(
        default=(), description="Solutions it explains; empty if there are none."
    )
    warnings: Annotated[tuple[Finding[Pitfall], ...], Field(max_length=MAX_FINDINGS)] = Field(
        default=(), description="What it warns of; empty if nothing."
    )
    methodologies: Annotated[tuple[Finding[Methodology], ...], Field(max_length=MAX_FINDINGS)] = (
        Field(default=(), description="Ways of working in steps; empty if there are none.")
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_blanks(cls, value: Any) -> Any:
        return _remove_blanks(value)


def build_passage_prompt(title: str, content: str) -> str:
    """Format a passage and its source's title as the prompt, which follows `INSTRUCTION`."""
    return f"{title}\n\n{content}"
