"""Arguments and results of the tools that look up extractions.

An extraction is a decision, pattern, warning or methodology found in a passage. A result contains
the fields of its content between those of `WithId` and `Attribution`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Generic, Literal, TypeVar

from pydantic import AliasChoices, Field, StringConstraints

from shared.extractions.model import ExtractionType
from shared.runtime.pagination import PagedArguments
from shared.runtime.schemas import FOR_APPS, Result, SourceId

if TYPE_CHECKING:
    from shared.extractions.model import Extraction

TopicText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
"""A topic as the caller wrote it."""


class ExtractionArguments(PagedArguments):
    """The arguments of a tool that looks up extractions."""

    topic: TopicText | None = Field(
        default=None,
        description="From list_topics.",
    )
    query: (
        Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]
        | None
    ) = Field(
        default=None,
        description="In plain words.",
        validation_alias=AliasChoices("query", "q"),
    )
    source_id: SourceId | None = Field(default=None, description="Only from this source.")
    limit: int = Field(default=25, ge=1, le=100, description="Maximum number of results.")


class WithId(Result):
    """The first field of a result.

    The class of a result is, for instance, `class DecisionResult(Attribution, Decision, WithId)`.
    Pydantic puts the fields of the last base class first.
    """

    id: str = Field(description="Id of the extraction.", json_schema_extra=FOR_APPS)


class Attribution(Result):
    """The last fields of a result: its topics, its source, and the evidence for it."""

    type: ClassVar[ExtractionType]

    topics: list[str] = Field(description="Its topics, the main one first.")
    source_title: str = Field(description="Title of the source, to cite.")
    source_id: str = Field(description="Id of the source, for get_source.")
    chunk_id: str = Field(description="Id of the passage it was read from, for get_chunk.")
    quote: str = Field(description="The words of the passage that support it, verbatim.")
    confidence: float = Field(
        description="How sure the extracting model was, from 0 to 1.", json_schema_extra=FOR_APPS
    )
    similarity: float | None = Field(
        description="Cosine similarity to the query: 1 is the same, 0 unrelated. Missing without a"
        " query.",
        json_schema_extra=FOR_APPS,
    )


class LookupMetadata(Result):
    """Information about the results."""

    query: str = Field(
        description="The canonical name of the topic to filter by; all if none was named."
    )
    sources_cited: list[str] = Field(
        description="Titles of the sources of these results, in their order, each once."
    )
    result_count: int = Field(description="Number of results in this answer.")
    total: int | None = Field(
        description="Number on all pages; on the first of several, without a query."
    )
    search_type: Literal["filtered", "semantic"] = Field(
        description="filtered: ordered by confidence. semantic: ordered by similarity to the query."
    )
    next_cursor: str | None = Field(
        description="Send it as cursor for the next page; missing on the last page. A page may be"
        " short without being the last."
    )
    nearest_topics: list[str] | None = Field(
        description="If the topic is unknown: the most similar topics, or the most frequent ones if"
        " none is similar.",
        json_schema_extra=FOR_APPS,
    )
    message: str | None = Field(
        description="What to do if nothing was found, or if no more results can be shown."
    )


ResultT = TypeVar("ResultT", bound=Attribution)


class LookupAnswer(Result, Generic[ResultT]):
    """The results of a lookup, and information about them."""

    results: list[ResultT] = Field(description="The results, best first.")
    metadata: LookupMetadata = Field(description="About the results.")


def to_result(
    result_type: type[ResultT], extraction: Extraction, source_title: str, similarity: float | None
) -> ResultT:
    """Convert an extraction to a tool's result."""
    return result_type.model_validate(
        dict(extraction.content)
        | {
            "id": extraction.extraction_id,
            "topics": list(extraction.topics),
            "source_title": source_title,
            "source_id": extraction.source_id,
            "chunk_id": extraction.chunk_id,
            "confidence": extraction.confidence,
            "quote": extraction.quote,
            "similarity": None if similarity is None else round(similarity, 3),
        }
    )
