"""A note: a short text that a user saves in the knowledge base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.index.facets import Kind, named_facet
from shared.knowledge.chunk import parse_source_id, split_source
from shared.knowledge.ingestion import ChunkedSource
from shared.knowledge.source import Section, Source, SourceFields
from shared.text.chunking import split_chunks

if TYPE_CHECKING:
    from datetime import datetime

CATEGORY: Final = "note"
"""The category and the origin of notes."""
NOTES: Final = named_facet(Kind.CATEGORY, CATEGORY)
"""The facet of notes."""
_TITLE_LENGTH: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteContent:
    """The part of a note that its author writes and can change.

    Attributes:
        title: The title, not empty.
        text: The text, without white space around it.
        tags: The tags in the author's order, without duplicates.
        source_url: The web page that it is about.
        about_chunk_id: The chunk that it is about.
    """

    title: str
    text: str
    tags: tuple[str, ...] = ()
    source_url: str | None = None
    about_chunk_id: str | None = None

    def chunked(self, source_id: str) -> ChunkedSource:
        """Return the note as a source with its chunks. Takes some milliseconds."""
        source = Source(
            source_id,
            self.title,
            origin=CATEGORY,
            category=CATEGORY,
            tags=self.tags,
            source_url=self.source_url,
            about_chunk_id=self.about_chunk_id,
            about_source_id=parse_source_id(self.about_chunk_id) if self.about_chunk_id else None,
            sections=(Section(self.text),),
        )
        return ChunkedSource(source, split_source(source, [split_chunks(self.text)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(SourceFields):
    """A note as it is stored.

    Attributes:
        text: The text.
        saved_by: The user who saved it.
        revision: The number of its revision, from 1.
        created_at: When it was first saved.
        updated_at: When it last changed.
    """

    text: str
    saved_by: str
    revision: int
    created_at: datetime
    updated_at: datetime

    @property
    def content(self) -> NoteContent:
        """The part that can be changed."""
        return NoteContent(
            title=self.title,
            text=self.text,
            tags=self.tags,
            source_url=self.source_url,
            about_chunk_id=self.about_chunk_id,
        )


def default_title(text: str) -> str:
    """Return the first words of a text."""
    line = " ".join(text.split())
    if len(line) <= _TITLE_LENGTH:
        return line
    words = line[:_TITLE_LENGTH].rpartition(" ")[0]
    return f"{words or line[: _TITLE_LENGTH - 1]}…"
