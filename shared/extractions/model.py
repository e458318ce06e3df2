"""Extractions: the decisions, patterns, warnings and methodologies in a passage.

A language model reads a passage (a chunk of a source) and answers with the content of each
extraction. The tools return the contents unchanged. The descriptions of the fields are part of the
model's prompt.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from shared.core.ids import IdKind, make_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

SCHEMA_VERSION: Final = 1
"""Extractions are stored with this version of the content schemas. New schemas must accept the old
contents."""
MAX_QUOTE: Final = 600
"""A stored quote has at most this many characters: three long sentences."""

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]
"""A short text: a name, a question or an entry of a list."""
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]
"""A text of one or more sentences."""
Lines = Annotated[tuple[Line, ...], Field(max_length=12)]
"""A list of short texts."""


class ExtractionType(StrEnum):
    """The type of an extraction."""

    DECISION = "decision"
    PATTERN = "pattern"
    WARNING = "warning"
    METHODOLOGY = "methodology"


class Content(BaseModel):
    """The content of an extraction. Its first field serves as its name."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    type: ClassVar[ExtractionType]

    @property
    def text(self) -> str:
        """The embedded text: the fields that people are likely to search for."""
        return " ".join(str(value) for value in self._get_searchable())

    def _get_searchable(self) -> tuple[str, ...]:
        """Return the texts of the fields that people are likely to search for."""
        raise NotImplementedError


class Decision(Content):
    """A choice that the passage weighs."""

    type: ClassVar = ExtractionType.DECISION

    question: Line = Field(description="What is to be decided, as a question.")
    options: Lines = Field(description="The alternatives that the passage names.")
    considerations: Lines = Field(description="The arguments for and against them.")
    recommended_approach: Text | None = Field(
        default=None, description="What the author recommends; missing if nothing."
    )

    def _get_searchable(self) -> tuple[str, ...]:
        return (self.question, self.recommended_approach or "; ".join(self.options))


class Pattern(Content):
    """A solution to a recurring problem."""

    type: ClassVar = ExtractionType.PATTERN

    name: Line = Field(description="The name of the pattern, in a few words.")
    problem: Text = Field(description="The problem it solves.")
    solution: Text = Field(description="How it solves it.")
    code_example: Annotated[str, Field(max_length=4_000)] | None = Field(
        default=None, description="Code from the passage, verbatim; missing if there is none."
    )
    context: Text | None = Field(
        default=None, description="Where it applies; missing if the passage does not say."
    )
    trade_offs: Lines | None = Field(
        default=None, description="Its drawbacks; missing if the passage does not say."
    )

    def _get_searchable(self) -> tuple[str, ...]:
        return (self.name, self.problem, self.solution)


class Pitfall(Content):
    """A warning: what can go wrong, and why."""

    type: ClassVar = ExtractionType.WARNING

    title: Line = Field(description="What the warning is about, in a few words.")
    description: Text = Field(description="What goes wrong, and why.")
    symptoms: Lines | None = Field(
        default=None, description="How to recognize it; missing if the passage does not say."
    )
    consequences: Lines | None = Field(
        default=None, description="What it leads to; missing if the passage does not say."
    )
    prevention: Text | None = Field(
        default=None, description="How to avoid it; missing if the passage does not say."
    )

    def _get_searchable(self) -> tuple[str, ...]:
        return (self.title, self.description)


class Step(BaseModel):
    """One step of a methodology."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    order: Annotated[int, Field(ge=1, le=100)] = Field(description="Its number, from 1.")
    title: Line = Field(description="What to do, in a few words.")
    description: Text = Field(description="How to do it.")
    tips: Lines = Field(default=(), description="Hints; empty if the passage gives none.")


class Methodology(Content):
    """A way of working, step by step."""

    type: ClassVar = ExtractionType.METHODOLOGY

    name: Line = Field(description="The name of the way of working, in a few words.")
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=20)] = Field(
        description="The steps, in order."
    )
    prerequisites: Lines = Field(default=(), description="What is needed before you start.")
    outputs: Lines = Field(default=(), description="What you have at the end.")

    @field_validator("steps")
    @classmethod
    def _sort_steps(cls, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Sort the steps, and number them from 1."""
        sorted_steps = sorted(steps, key=lambda step: step.order)
        return tuple(
            step.model_copy(update={"order": number}) for number, step in enumerate(sorted_steps, 1)
        )

    def _get_searchable(self) -> tuple[str, ...]:
        return (self.name, *(step.title for step in self.steps))


CONTENTS: Final[dict[ExtractionType, type[Content]]] = {
    model.type: model for model in (Decision, Pattern, Pitfall, Methodology)
}
"""The class of the content of each type of extraction."""
ContentT = TypeVar("ContentT", bound=Content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """A decision, pattern, warning or methodology from a passage.

    Attributes:
        extraction_id: A hash of the chunk's id, the type and the content.
        topics: The canonical names of the topics, the main one first.
        quote: The words of the passage that support the content, verbatim. At most `MAX_QUOTE`
            characters are stored.
        confidence: How sure the model was, from 0 to 1.
        group: The id of the first extraction that made the same statement. Of a group, tools show
            one extraction.
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
    group: str

    @property
    def type(self) -> ExtractionType:
        """The type of the content."""
        return self.content.type


def compute_extraction_id(chunk_id: str, content: Content) -> str:
    """Return the id for an extraction with this content of a chunk."""
    fields = content.model_dump(mode="json", exclude_none=True)
    text = json.dumps([chunk_id, content.type, fields], sort_keys=True, ensure_ascii=False)
    return make_id(IdKind.EXTRACTION, text)


def build_facet(
    extraction_type: ExtractionType, topic: str | None = None, source_id: str | None = None
) -> str:
    """Return the facet that exactly the extractions matching all these filters have."""
    parts = [extraction_type.value]
    if topic is not None:
        # Spaces separate the parts of a facet, so those within a topic are escaped.
        parts.append(f"topic:{topic.replace('%', '%25').replace(' ', '%20')}")
    if source_id is not None:
        parts.append(f"source:{source_id}")
    return " ".join(parts)


def build_facets(
    extraction_type: ExtractionType, topics: Sequence[str], source_id: str
) -> list[str]:
    """Return the facets of an extraction: one for each combination of filters that matches it."""
    return [
        build_facet(extraction_type, topic, source)
        for topic in (None, *topics)
        for source in (None, source_id)
    ]
