"""A note: a short text that a user saves in the knowledge base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.ids import parse_source_id
from shared.firestore.codec import added_field
from shared.index.facets import Kind, make_named_facet
from shared.knowledge.source import Section, Source, SourceFields
from shared.text.folding import hash_texts
from shared.text.markup import to_plain_line
from shared.text.splitting import split_chunks
from shared.writer.chunked_source import ChunkedSource
from shared.writer.source_chunks import split_source

if TYPE_CHECKING:
    from datetime import datetime

    from shared.text.splitting import Limits

CATEGORY: Final = "note"
"""The category of notes, which is also their origin."""
NOTES: Final = make_named_facet(Kind.CATEGORY, CATEGORY)
"""The facet, a value to filter by, that all chunks of notes have."""
_TITLE_LENGTH: Final = 60
"""A title that is made from the text has at most this many characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteContent:
    """The part of a note that its author writes and can change.

    Attributes:
        text: The text, without leading and trailing white space.
        tags: The distinct tags, in the author's order.
        source_url: The address of the web page that the note is about, or None.
        about_id: The id of the chunk (the passage) or the source that the note is about, or None.
        corrects: Whether it corrects what it is about.
        about_gone: Whether the chunk that it was about is gone, so that it is about the source now.
        saved_with: The client with which it was saved, if it is known.
    """

    title: str
    text: str
    tags: tuple[str, ...] = ()
    source_url: str | None = None
    about_id: str | None = None
    corrects: bool = False
    about_gone: bool = False
    saved_with: str | None = added_field()

    @property
    def claim_id(self) -> str:
        """The id of the claim to this text about this passage, source or page.

        The title and the tags may differ, since they describe the text.
        """
        return hash_texts("note", self.text, self.about_id, self.source_url)

    def to_chunked_source(self, source_id: str, limits: Limits, now: datetime) -> ChunkedSource:
        """Convert the note to a source that is split into chunks, of which new ones get this date.

        Splitting takes some milliseconds of CPU time.
        """
        source = Source(
            source_id,
            self.title,
            origin=CATEGORY,
            category=CATEGORY,
            tags=self.tags,
            source_url=self.source_url,
            about_id=self.about_id,
            about_source_id=parse_source_id(self.about_id) if self.about_id else None,
            corrects=self.corrects if self.about_id else None,
            about_gone=self.about_gone or None,
            saved_with=self.saved_with,
            sections=(Section(self.text, saved_at=now),),
        )
        return ChunkedSource(source, split_source(source, [split_chunks(self.text, limits)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(SourceFields):
    """A note as it is stored."""

    text: str
    saved_by: str
    revision: int
    created_at: datetime
    updated_at: datetime

    @property
    def content(self) -> NoteContent:
        """The part of the note that its author can change."""
        return NoteContent(
            title=self.title,
            text=self.text,
            tags=self.tags,
            source_url=self.source_url,
            about_id=self.about_id,
            corrects=bool(self.corrects),
            about_gone=bool(self.about_gone),
            saved_with=self.saved_with,
        )


def default_title(text: str) -> str:
    """Return the first words of a text as its title, in at most 60 characters.

    A first word that is longer is cut.
    """
    line = to_plain_line(text) or " ".join(text.split())
    if len(line) <= _TITLE_LENGTH:
        return line
    words = line[:_TITLE_LENGTH].rpartition(" ")[0]
    return f"{words or line[: _TITLE_LENGTH - 1]}…"
