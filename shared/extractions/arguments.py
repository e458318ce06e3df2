"""What the tools over extractions take."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field, StringConstraints

from shared.runtime.pagination import CursorText
from shared.runtime.tool import Arguments, DocumentId

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
