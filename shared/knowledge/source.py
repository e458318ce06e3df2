"""A source, which is an ingested book, article or document."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Final

from shared.firestore.codec import added_field
from shared.index.facets import Kind

if TYPE_CHECKING:
    from datetime import datetime

SECTION_SEPARATOR: Final = "\n\n"
"""The separator of two sections in a source's text."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a source that no chunk crosses: one highlight, or a whole document.

    Attributes:
        text: The text, not empty.
        tags: Tags of this section alone; a chunk has them in addition to the source's.
        readwise_url: The highlight's page in Readwise.
        highlight_url: The highlight in the original, as a deep link.
        highlighted_at: When the reader highlighted it.
        written_at: When it was written, if its file says so. It becomes the date of a text that is
            not a highlight, when that is first stored.
    """

    text: str
    tags: tuple[str, ...] = ()
    readwise_url: str | None = None
    highlight_url: str | None = None
    highlighted_at: datetime | None = None
    written_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SourceFields:
    """The fields of a source, which each of its chunks repeats.

    Attributes:
        source_id: A legal Firestore document id (see `safe_id`), stable across runs.
        title: Its title, not empty.
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
        sections: The text in sections. Empty if the source was deleted.
        warnings: What could not be read, for people.
    """

    sections: tuple[Section, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole text: sections joined by a blank line. Chunks are slices of it."""
        return SECTION_SEPARATOR.join(section.text for section in self.sections)
