"""A source: a book, an article or a document, as it was read."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Final

from shared.firestore.codec import added_field
from shared.index.facets import Kind

if TYPE_CHECKING:
    from datetime import datetime

SECTION_SEPARATOR: Final = "\n\n"
"""What stands between two sections in a source's text."""


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of a source that no chunk may cross: one highlight, or a whole document.

    Attributes:
        text: The words themselves, not empty.
        tags: Tags of this section alone; a chunk carries them beside the source's.
        readwise_url: The highlight's page in Readwise.
        highlight_url: Where the highlight stands in the original, as a deep link.
        highlighted_at: When the reader marked it.
        written_at: When it was written, as far as its file tells. It is the date of what nobody
            marked, decided when that is first stored.
    """

    text: str
    tags: tuple[str, ...] = ()
    readwise_url: str | None = None
    highlight_url: str | None = None
    highlighted_at: datetime | None = None
    written_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SourceFields:
    """What is known of a source, and repeated in each of its chunks.

    Attributes:
        source_id: A legal Firestore document id (see `safe_id`), stable across runs.
        title: What people call it, not empty.
        author: Who wrote it, if known.
        origin: Where it came from: `kindle`, `reader`, `file`, `jsonl` ...
        category: What it is: `books`, `articles`, `documents` ...
        tags: Tags of the whole source; in a chunk, those of its section too.
        readwise_url: The source's page in Readwise; in a chunk, the highlight's if it has one.
        source_url: The original on the web.
        language: The language that its file names, such as `en`.
    """

    source_id: str
    title: str
    _: KW_ONLY
    author: str | None = None
    origin: str = "file"
    category: str = "documents"
    tags: tuple[str, ...] = ()
    readwise_url: str | None = None
    source_url: str | None = None
    language: str | None = added_field(facet=Kind.LANGUAGE)


SOURCE_FIELDS: Final = tuple(field.name for field in fields(SourceFields))
FACET_FIELDS: Final = {
    field.name: field.metadata["facet"]
    for field in fields(SourceFields)
    if "facet" in field.metadata
}
"""The fields that declare a facet of their own, with its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(SourceFields):
    """A source with its sections in reading order, before it is chunked.

    Attributes:
        sections: The text, piece by piece. None left means that the source was deleted.
        warnings: What could not be read of it, for people; the rest is here.
    """

    sections: tuple[Section, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The source's text: its sections, separated by a blank line. Chunks are slices of it."""
        return SECTION_SEPARATOR.join(section.text for section in self.sections)
