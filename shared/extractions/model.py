"""Extractions: the decisions, patterns, warnings and methodologies that a passage holds.

A language model reads a passage and answers in the shape of these contents; people and agents read
them in the same shape. The descriptions here are what the model is told.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

SCHEMA_VERSION: Final = 1
"""Raise it when the shape of a content changes: passages are then read again. Until they are, what
was stored in the old shape must be readable in the new one."""
LONGEST_QUOTE: Final = 600
"""Characters of a quote that are kept: its beginning, which stands in the passage as well."""

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]
Lines = Annotated[tuple[Line, ...], Field(max_length=12)]


class ExtractionType(StrEnum):
    """What an extraction is."""

    DECISION = "decision"
    PATTERN = "pattern"
    WARNING = "warning"
    METHODOLOGY = "methodology"


class Content(BaseModel):
    """What an extraction says. Its first field names it.

    Attributes:
        type: What an extraction with such a content is.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    type: ClassVar[ExtractionType]

    @property
    def text(self) -> str:
        """What is embedded of it: that by which people ask for it."""
        return " ".join(str(value) for value in self._asked_by())

    def _asked_by(self) -> tuple[str, ...]:
        raise NotImplementedError


class Decision(Content):
    """A choice that the passage weighs."""

    type: ClassVar = ExtractionType.DECISION

    question: Line = Field(description="What is to be decided, as a question.")
    options: Lines = Field(description="The alternatives that the passage names, one each.")
    considerations: Lines = Field(description="What speaks for or against them.")
    recommended_approach: Text | None = Field(
        default=None, description="What the author recommends; missing where none is."
    )

    def _asked_by(self) -> tuple[str, ...]:
        return (self.question, self.recommended_approach or "; ".join(self.options))


class Pattern(Content):
    """A solution that the passage gives to a problem that comes up again and again."""

    type: ClassVar = ExtractionType.PATTERN

    name: Line = Field(description="What the pattern is called, in a few words.")
    problem: Text = Field(description="The problem that it solves.")
    solution: Text = Field(description="How it solves it.")
    code_example: Annotated[str, Field(max_length=4_000)] | None = Field(
        default=None, description="Code from the passage, word for word; missing where none is."
    )
    context: Text | None = Field(
        default=None, description="Where it applies; missing where the passage does not say."
    )
    trade_offs: Lines | None = Field(
        default=None, description="What it costs; missing where the passage does not say."
    )

    def _asked_by(self) -> tuple[str, ...]:
        return (self.name, self.problem, self.solution)


class Pitfall(Content):
    """A warning: something that goes wrong, and how."""

    type: ClassVar = ExtractionType.WARNING

    title: Line = Field(description="What is warned of, in a few words.")
    description: Text = Field(description="What goes wrong, and why.")
    symptoms: Lines | None = Field(
        default=None, description="How it shows; missing where the passage does not say."
    )
    consequences: Lines | None = Field(
        default=None, description="What it leads to; missing where the passage does not say."
    )
    prevention: Text | None = Field(
        default=None, description="How to avoid it; missing where the passage does not say."
    )

    def _asked_by(self) -> tuple[str, ...]:
        return (self.title, self.description)


class Step(BaseModel):
    """One step of a methodology."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    order: Annotated[int, Field(ge=1, le=100)] = Field(description="Its place, from 1.")
    title: Line = Field(description="What to do, in a few words.")
    description: Text = Field(description="How.")
    tips: Lines = Field(default=(), description="Hints; none where the passage gives none.")


class Methodology(Content):
    """A way of working in steps that the passage describes."""

    type: ClassVar = ExtractionType.METHODOLOGY

    name: Line = Field(description="What the way of working is called, in a few words.")
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=20)] = Field(
        description="The steps, in their order."
    )
    prerequisites: Lines = Field(default=(), description="What is needed before.")
    outputs: Lines = Field(default=(), description="What one has afterwards.")

    @field_validator("steps")
    @classmethod
    def _in_order(cls, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Number them from 1, whatever they were numbered by."""
        ordered = sorted(steps, key=lambda step: step.order)
        return tuple(step.model_copy(update={"order": n}) for n, step in enumerate(ordered, 1))

    def _asked_by(self) -> tuple[str, ...]:
        return (self.name, *(step.title for step in self.steps))


CONTENTS: Final[dict[ExtractionType, type[Content]]] = {
    model.type: model for model in (Decision, Pattern, Pitfall, Methodology)
}
ContentT = TypeVar("ContentT", bound=Content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """An extraction, with where it comes from.

    Attributes:
        extraction_id: As `extraction_id` makes it: the same again has the same.
        content: What it says.
        topics: What it is about, as `normal_topic` writes topics; the first is the main one.
        quote: The words of the passage that it rests on, exactly as they stand there; at most
            `LONGEST_QUOTE` characters are kept.
        source_id: The source of the passage.
        chunk_id: The passage.
        confidence: How sure the model was, from 0 to 1.
        model: Who extracted it.
        extracted_at: When.
        duplicate_of: The extraction that says the same and is shown in its place, if one is.
    """

    extraction_id: str
    content: Content
    topics: tuple[str, ...]
    quote: str
    source_id: str
    chunk_id: str
    confidence: float
    model: str
    extracted_at: datetime
    duplicate_of: str | None = None

    @property
    def type(self) -> ExtractionType:
        """What it is."""
        return self.content.type

    @property
    def facets(self) -> list[str]:
        """What it is found by; nothing finds a duplicate."""
        return [] if self.duplicate_of else facets(self.type, self.topics, self.source_id)


def extraction_id(chunk_id: str, content: Content) -> str:
    """The id of what a passage says: a legal Firestore document id.

    It is made of the passage's id, the type and the content: the same again has the same.
    """
    said = content.model_dump(mode="json", exclude_none=True)
    plain = json.dumps([chunk_id, content.type, said], sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{content.type}-{digest[:20]}"


def facet(kind: ExtractionType, topic: str | None = None, source_id: str | None = None) -> str:
    """What all extractions bear that a combination of filters is to find, and no other does."""
    parts = [kind.value]
    if topic is not None:
        # Topics hold spaces, and a space parts a facet's parts.
        parts.append(f"topic:{topic.replace('%', '%25').replace(' ', '%20')}")
    if source_id is not None:
        parts.append(f"source:{source_id}")
    return " ".join(parts)


def facets(kind: ExtractionType, topics: Sequence[str], source_id: str) -> list[str]:
    """What an extraction is found by: each combination of filters that it passes."""
    return list(_facets(kind, topics, source_id))


def _facets(kind: ExtractionType, topics: Sequence[str], source_id: str) -> Iterator[str]:
    for topic in (None, *topics):
        yield facet(kind, topic)
        yield facet(kind, topic, source_id)
