"""Arguments and results of the tools that query extractions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Generic, Literal, TypeVar

from pydantic import AliasChoices, Field, StringConstraints

from shared.extractions.model import ExtractionType
from shared.runtime.pagination import CursorText
from shared.runtime.schemas import Arguments, DocumentId, Result

if TYPE_CHECKING:
    from shared.extractions.model import Extraction

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class ExtractionArguments(Arguments):
    """Which extractions of a type."""

    topic: Name | None = Field(
        default=None,
        description="Only what is about this topic: one of list_topics, in any case, or a usual"
        " abbreviation or other spelling of it. Without it, all topics.",
    )
    query: (
        Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]
        | None
    ) = Field(
        default=None,
        description="What it should be about, in plain words: the results are then ordered by how"
        " near they come in meaning. Without it, the surest come first.",
        validation_alias=AliasChoices("query", "q"),
    )
    source_id: DocumentId | None = Field(
        default=None, description="Only what this source says; list_sources finds its id."
    )
    limit: int = Field(default=25, ge=1, le=100, description="How many results at most.")
    cursor: CursorText | None = Field(
        default=None,
        description="next_cursor of the page before, with the same topic, query and source_id.",
    )


class Identified(Result):
    """What begins a result.

    A result is `class DecisionResult(Attribution, Decision, Identified)`: of several bases,
    pydantic puts the fields of the last one first.
    """

    id: str = Field(description="Its id.")


class Attribution(Result):
    """What ends a result: what it is about, and where it comes from.

    Attributes:
        type: What it is a result of: its content's.
    """

    type: ClassVar[ExtractionType]

    topics: list[str] = Field(description="What it is about, the main topic first.")
    source_title: str = Field(description="Title of the source, to cite.")
    source_id: str = Field(description="Id of the source, for get_source.")
    chunk_id: str = Field(description="Id of the passage that it was read in, for get_chunk.")
    confidence: float = Field(
        description="How sure the model that read the passage was, from 0 to 1."
    )
    quote: str = Field(description="The words of the passage that it rests on, as they stand.")
    similarity: float | None = Field(
        description="Cosine similarity with the query: 1 the same, 0 unrelated; missing without."
    )


class Metadata(Result):
    """What is to know of the results."""

    query: str = Field(
        description="The topic that was filtered by, under its usual name, or all where none was."
    )
    sources_cited: list[str] = Field(
        description="Titles of the sources of these results, in their order, each once."
    )
    result_count: int = Field(description="How many results this answer holds.")
    search_type: Literal["filtered", "semantic"] = Field(
        description="filtered: the surest first. semantic: those nearest to the query first."
    )
    next_cursor: str | None = Field(
        description="Where the results go on; missing at their end. A short page may not be the"
        " last."
    )
    nearest_topics: list[str] | None = Field(
        description="Where the topic is unknown: known ones like it, the most alike first; the"
        " commonest where none is like it."
    )
    message: str | None = Field(description="What to know where nothing was found, or all shown.")


ResultT = TypeVar("ResultT", bound=Attribution)


class Answer(Result, Generic[ResultT]):
    """Results, and what is to know of them."""

    results: list[ResultT] = Field(description="What was found, best first.")
    metadata: Metadata = Field(description="What is to know of the results.")


def result_of(
    kind: type[ResultT], extraction: Extraction, source_title: str, similarity: float | None
) -> ResultT:
    """What a tool says of an extraction."""
    return kind.model_validate(
        dict(extraction.content)
        | {
            "id": extraction.extraction_id,
            "topics": list(extraction.topics),
            "source_title": source_title,
            "source_id": extraction.source_id,
            "chunk_id": extraction.chunk_id,
            "confidence": extraction.confidence,
            "quote": extraction.quote,
            "similarity": None if similarity is None else round(similarity, 4),
        }
    )
