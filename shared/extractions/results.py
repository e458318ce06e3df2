"""What the tools over extractions answer: a type's own fields, between an id and a provenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar

from pydantic import Field

from shared.domain.extraction import ExtractionType
from shared.runtime.tool import Result

if TYPE_CHECKING:
    from shared.domain.extraction import Extraction


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
