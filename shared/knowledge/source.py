"""A source, which is an ingested book, article or document."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from shared.core.caller import Role
from shared.firestore.codec import added_field
from shared.index.facets import Kind
from shared.index.on_request import is_kept_out

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from shared.core.caller import Caller
    from shared.knowledge.knowledge_card import KnowledgeCard

SECTION_SEPARATOR: Final = "\n\n"
"""The separator of two sections in a source's text."""
PAGE_FRAGMENT: Final = "#page="
"""What precedes the number of a page in a link to it: RFC 8118, section 3."""


@dataclass(frozen=True, slots=True)
class Locator:
    """A position in the original, as people cite it.

    Attributes:
        page: The page, from 1.
        location: Any other position, such as a Kindle location: `1204-1207`.
        url: A link that opens the original there.
    """

    page: int | None = None
    chapter: str | None = None
    location: str | None = None
    url: str | None = None


class DateMeaning(StrEnum):
    """What the date of a passage is the date of."""

    HIGHLIGHTED = "highlighted"
    WRITTEN = "written"
    PUBLISHED = "published"
    SAVED = "saved"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a source that is split into chunks by itself: a highlight, or a whole document.

    Attributes:
        text: The text, not empty.
        readwise_url: The highlight's page in Readwise.
        highlight_url: The highlight in the original, as a deep link.
        highlighted_at: When the reader highlighted it, or the equal of `written_at` if a later date
            of writing replaces it. A reader leaves out the zone of dates if the file names none.
        locators: Positions in the original, in order, each with the offset in `text` where it
            begins. A chunk gets the position in which it begins, and the starts of further pages.
        written_at: When it was written, if its file says so. This and the following dates count
            only when the text is first stored.
        published_at: When it was published.
        saved_at: When the file or the note was saved.
        start: If the section is a chunk from an export, its offset in the source's text. Such a
            section is not split again. Otherwise None.
        chunk_id: The id of the chunk from an export.
        card: The knowledge card of the chunk from an export.
        origin_tags: If the owner set the tags of the chunk from an export, those of its origin.
    """

    text: str
    tags: tuple[str, ...] = ()
    readwise_url: str | None = None
    highlight_url: str | None = None
    highlighted_at: datetime | None = None
    locators: tuple[tuple[int, Locator], ...] = ()
    written_at: datetime | None = None
    published_at: datetime | None = None
    saved_at: datetime | None = None
    start: int | None = None
    chunk_id: str | None = None
    card: KnowledgeCard | None = None
    origin_tags: tuple[str, ...] | None = None

    @property
    def dates(self) -> dict[DateMeaning, datetime]:
        """Its dates, of which the first counts."""
        dates = {
            DateMeaning.WRITTEN: self.written_at,
            DateMeaning.PUBLISHED: self.published_at,
            DateMeaning.SAVED: self.saved_at,
        }
        if self.highlighted_at != self.written_at:
            dates = {DateMeaning.HIGHLIGHTED: self.highlighted_at} | dates
        return {meaning: date for meaning, date in dates.items() if date}

    def find_locator(self, offset: int) -> Locator:
        """Return the position in the original of the character at an offset, empty if unknown."""
        preceding = [locator for start, locator in self.locators if start <= offset]
        return preceding[-1] if preceding else Locator()


@dataclass(frozen=True, slots=True)
class SourceFields:
    """The fields of a source, which each of its chunks repeats.

    Attributes:
        source_id: Stable across ingestions (see `make_id`).
        origin: Where it came from: `kindle`, `reader`, `file`, `jsonl` ...
        category: What it is: `books`, `articles`, `documents` ...
        tags: The tags of the whole source. A chunk also has the tags of its section.
        readwise_url: The source's page in Readwise. A chunk has the page of its highlight instead,
            if there is one.
        source_url: The original on the web.
        language: The language that its file names, such as `en`. A chunk has that of its text if
            its file names none.
        folder: The followed folder of its file, with the subfolder: `vault/recipes/bread`.
        about_id: The id of the chunk or of the source that a note is about.
        about_source_id: That source, or the source of that chunk.
        corrects: Whether the note corrects what it is about; None for what is about nothing.
        about_gone: True if the text of the chunk that the note was about has changed or is gone, so
            that the note is about the source now.
        saved_with: The client with which a note was last saved, if it is known.
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
    folder: str | None = added_field()
    about_id: str | None = added_field()
    about_source_id: str | None = added_field()
    corrects: bool | None = added_field()
    about_gone: bool | None = added_field()
    saved_with: str | None = added_field()

    @property
    def is_kept_out(self) -> bool:
        """Whether a tag keeps it out of search, lists and exports."""
        return is_kept_out(self.tags)


SOURCE_FIELDS: Final = tuple(spec.name for spec in fields(SourceFields))
"""The names of the fields of a source."""
FACET_FIELDS: Final = {
    spec.name: spec.metadata["facet"] for spec in fields(SourceFields) if "facet" in spec.metadata
}
"""The names of the fields that declare a facet, each with the kind of the facet."""


@dataclass(frozen=True, slots=True)
class NoteFields:
    """The fields that only the document of a note has."""

    text: str
    saved_by: str
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(SourceFields):
    """A source with its sections in reading order, before it is chunked.

    Attributes:
        sections: The text in sections. Empty if the source was deleted, or if a log of additions
            has no text for it.
        adds_only: Whether the source comes from a log of additions, such as a Kindle's clippings.
            Stored chunks that such a source lacks stay.
        is_deleted: Whether its file says that it was deleted.
        deleted_highlights: The pages in Readwise of highlights that its file names as deleted.
        changed_at: When a highlight was last changed at the origin, if the file says so. An earlier
            one shows that a log is older than what is stored.
        warnings: What could not be read, in messages for the user.
        links_to: The ids of the sources that its text links to, whether or not they are stored.
            None if there are no links.
        unread: What its file has that could not be read as text, such as scanned pages.
        markdown: True if the text is Markdown.
        created_at: When it was first stored. Set if it comes from an export.
        updated_at: When it last changed. Set if it comes from an export.
        note: The fields of a note. Set if it is a note that comes from an export.
        overrides: What the owner set in place of the origin's values, by field name. Set if it
            comes from an export. Only a new source gets them; a stored source keeps its own.
    """

    sections: tuple[Section, ...] = ()
    adds_only: bool = False
    is_deleted: bool = False
    deleted_highlights: frozenset[str] = frozenset()
    changed_at: datetime | None = None
    warnings: tuple[str, ...] = ()
    links_to: tuple[str, ...] | None = None
    unread: str | None = None
    markdown: bool | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    note: NoteFields | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The whole text: the sections, joined by blank lines. Chunks are slices of it."""
        return SECTION_SEPARATOR.join(section.text for section in self.sections)


def may_edit(saved_by: str | None, caller: Caller) -> bool:
    """Return whether a caller may change or forget a source."""
    is_own = saved_by is not None and saved_by == caller.user_id
    return is_own or caller.role.includes(Role.OWNER)
