"""A chunk: a passage of a source, the unit that is embedded, searched and read."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from shared.core.dates import format_day
from shared.core.ids import make_passage_id
from shared.firestore.codec import added_field
from shared.index.facets import (
    FIRST,
    HAS_CARD,
    LATER,
    Facet,
    Kind,
    make_month_facet,
    make_named_facet,
    make_path_facets,
)
from shared.knowledge.source import (
    FACET_FIELDS,
    PAGE_FRAGMENT,
    SECTION_SEPARATOR,
    SOURCE_FIELDS,
    DateMeaning,
    SourceFields,
)
from shared.text.folding import fold_text
from shared.text.language import detect_language

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, tzinfo

    from shared.knowledge.knowledge_card import KnowledgeCard
    from shared.knowledge.source import Section, Source
    from shared.text.spans import Span

_MAX_OCCURRENCES: Final = 1_000
"""A passage that occurs more often in a source may get another id when it is imported."""


class Kept(StrEnum):
    """Why an origin that does not have a chunk leaves it alone."""

    ADDED = "added"
    """It came from a log of additions, and no whole origin has had it."""
    RESTORED = "restored"
    """Its owner restored it after its origin had deleted it."""


class PassageKind(StrEnum):
    """What a passage is."""

    HIGHLIGHT = "highlight"
    NOTE = "own note"
    PAGE = "saved page"
    TEXT = "file"


_KINDS_BY_ORIGIN: Final = {
    "kindle": PassageKind.HIGHLIGHT,
    "link": PassageKind.PAGE,
    "note": PassageKind.NOTE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(SourceFields):
    """A passage of a source.

    Attributes:
        chunk_id: See `make_passage_id`. Edits elsewhere in the source do not change it.
        start: The offset of the first character in the source's text, in code points.
        end: The offset after the last character; `source.text[start:end] == content`.
        position: The number of the chunk in its source, from 1.
        highlight_url: The highlight in the original, as a deep link.
        cluster_id: The ids of its clusters. The stored field has this name.
        page: The page of the original on which it begins, from 1.
        page_starts: The offsets in `content` at which the pages after `page` begin, in order. A
            page without text begins where the next one does.
        chapter: The title of the chapter in which it begins.
        location: Any other position in the original, such as a Kindle location.
        dated_at: The first known of its section's dates, or None: the day of an import says nothing
            about a text.
        date_meaning: What that date is.
        own_tags: The chunk's tags that its source does not have. Stored only if the owner set the
            tags of the source, because otherwise `tags` contains both.
        kept: Why an origin that does not have the chunk leaves it alone, or None if it deletes it.
    """

    chunk_id: str
    start: int
    end: int
    position: int
    total: int
    content: str
    highlight_url: str | None = None
    highlighted_at: datetime | None = None
    dated_at: datetime | None = None
    date_meaning: DateMeaning | None = None
    knowledge_card: KnowledgeCard | None = None
    cluster_id: tuple[str, ...] = ()
    own_tags: tuple[str, ...] | None = added_field()
    page: int | None = added_field()
    chapter: str | None = added_field()
    location: str | None = added_field()
    kept: Kept | None = added_field()  # noqa: RUF009 - as the fields above
    page_starts: tuple[int, ...] | None = added_field()

    @property
    def id(self) -> str:
        """The chunk id."""
        return self.chunk_id

    @property
    def kind(self) -> PassageKind:
        """What it is, by its origin."""
        if self.highlighted_at or self.readwise_url:
            return PassageKind.HIGHLIGHT
        return _KINDS_BY_ORIGIN.get(self.origin, PassageKind.TEXT)

    @property
    def chunk_info(self) -> str:
        """The position in the source for people, such as `1/5`."""
        return f"{self.position}/{self.total}"

    def format_day(self, zone: tzinfo) -> str | None:
        """Return the day of `dated_at` in a time zone for people, such as `2026-01-31`."""
        return format_day(self.dated_at, zone) if self.dated_at else None

    @property
    def summary(self) -> str | None:
        """The summary of its card, if it has a card that says more than its text."""
        return self.shown_card.summary if self.shown_card else None

    @property
    def shown_card(self) -> KnowledgeCard | None:
        """Its knowledge card, unless that only repeats the text.

        The card of a short text is the text, which people and models would read twice.
        """
        card = self.knowledge_card
        if card and not card.takeaways and fold_text(card.summary) == fold_text(self.content):
            return None
        return card

    @property
    def embedding_text(self) -> str:
        """The text to embed: the title, which gives a short text its subject, and the content."""
        return build_embedding_text(self.title, self.content)

    @property
    def indexed_text(self) -> str:
        """The text whose words are indexed, with the author, because people search for authors."""
        return f"{self.embedding_text} {self.author or ''}"

    @property
    def facets(self) -> Mapping[Facet, str]:
        """The facets by which search can filter the chunk, each with its name as written."""
        # Facets are stored in this order: another order would rewrite every chunk.
        names = {
            Facet(Kind.SOURCE, self.source_id): self.title,
            make_named_facet(Kind.TITLE, self.title): self.title,
            make_named_facet(Kind.CATEGORY, self.category): self.category,
        }
        for tag in self.tags:
            names |= make_path_facets(Kind.TAG, tag)
        names |= {Facet(Kind.CLUSTER, cluster): cluster for cluster in self.cluster_id}
        if self.author:
            names[make_named_facet(Kind.AUTHOR, self.author)] = self.author
        if self.knowledge_card:
            names[HAS_CARD] = "yes"
        if self.dated_at:
            names[make_month_facet(self.dated_at)] = f"{self.dated_at:%B %Y}"
        for field_name, kind in FACET_FIELDS.items():
            if name := getattr(self, field_name):
                names[make_named_facet(kind, name)] = name
        if self.language and "-" in self.language:
            # The filter `en` finds `en-US`, too.
            primary = self.language.partition("-")[0]
            names[make_named_facet(Kind.LANGUAGE, primary)] = primary
        if self.folder:
            names |= make_path_facets(Kind.FOLDER, self.folder)
        position_facet = FIRST if self.position == 1 else LATER
        names[position_facet] = position_facet.key
        return {facet: name for facet, name in names.items() if facet.key}

    @property
    def address(self) -> str | None:
        """The most specific address: of the highlight, of the original, or in Readwise."""
        return self.highlight_url or self.source_url or self.readwise_url

    def cite(self, offset: int) -> Chunk:
        """Return the chunk with the page, and the link to it, of the character at an offset."""
        if self.page is None or not self.page_starts:
            return self
        page = self.page + bisect_right(self.page_starts, offset)
        url = self.highlight_url
        link, fragment, number = (url or "").rpartition(PAGE_FRAGMENT)
        if fragment and number == str(self.page):
            url = f"{link}{PAGE_FRAGMENT}{page}"
        location = self.location if page == self.page else None  # the label of the first page
        return replace(self, page=page, highlight_url=url, location=location)

    @property
    def content_hash(self) -> str:
        """A hash of the text that is embedded."""
        return _compute_digest(self.embedding_text)


def build_embedding_text(title: str, content: str) -> str:
    """Return the text to embed for a chunk with this title and content."""
    return f"{title} {content}"


def split_source(source: Source, spans: Sequence[Sequence[Span]]) -> list[Chunk]:
    """Split a source into chunks.

    Args:
        spans: For each section of the source, where its chunks begin and end in the section's text.
    """
    chunks: list[Chunk] = []
    chunk_ids = _ChunkIds(source)
    offset = 0
    for section, section_spans in zip(source.sections, spans, strict=True):
        if section.start is not None:
            offset = section.start
        for span in section_spans:
            chunk = _build_chunk(source, section, span, offset)
            chunk_id = chunk_ids.choose(chunk.content, section.chunk_id)
            chunks.append(replace(chunk, chunk_id=chunk_id, position=len(chunks) + 1))
        offset += len(section.text) + len(SECTION_SEPARATOR)
    return [replace(chunk, total=len(chunks)) for chunk in chunks]


class _ChunkIds:
    """The ids of a source's chunks. Each is unique, and an exported id of the same text is kept."""

    def __init__(self, source: Source) -> None:
        """Reserve the exported ids for their sections."""
        self._source_id = source.source_id
        self._reserved = {section.chunk_id for section in source.sections}
        self._chosen: set[str] = set()
        self._occurrences: Counter[str] = Counter()

    def choose(self, text: str, exported_id: str | None) -> str:
        """Return the id of a passage: that in the export, or else that of the next occurrence."""
        chosen = exported_id if self._fits(text, exported_id) else None
        while chosen is None or chosen in self._chosen:
            self._occurrences[text] += 1
            candidate = make_passage_id(self._source_id, text, self._occurrences[text])
            chosen = None if candidate in self._reserved else candidate
        self._chosen.add(chosen)
        return chosen

    def _fits(self, text: str, exported_id: str | None) -> bool:
        """Return whether an exported id is that of any occurrence of a text.

        It may be a later one than in the export, because earlier ones may have been forgotten.
        """
        occurrences = range(1, _MAX_OCCURRENCES + 1)
        return exported_id is not None and any(
            exported_id == make_passage_id(self._source_id, text, n) for n in occurrences
        )


def _build_chunk(source: Source, section: Section, span: Span, offset: int) -> Chunk:
    content = section.text[span.start : span.end]
    source_fields = {name: getattr(source, name) for name in SOURCE_FIELDS}
    source_fields["tags"] = tuple(dict.fromkeys(source.tags + section.tags))
    source_fields["language"] = source.language or detect_language(content)
    source_fields["readwise_url"] = section.readwise_url or source.readwise_url
    locator = section.find_locator(span.start)
    date_meaning, dated_at = next(iter(section.dates.items()), (None, None))
    return Chunk(
        **source_fields,
        chunk_id="",
        start=offset + span.start,
        end=offset + span.end,
        position=0,
        total=0,
        content=content,
        highlight_url=section.highlight_url or locator.url,
        highlighted_at=section.highlighted_at,
        dated_at=dated_at,
        date_meaning=date_meaning,
        page=locator.page,
        page_starts=_find_page_starts(section, span) or None,
        chapter=locator.chapter,
        location=locator.location,
        knowledge_card=section.card,
    )


def _find_page_starts(section: Section, span: Span) -> tuple[int, ...]:
    """Return the offsets in a span at which the pages after its first one begin."""
    page = section.find_locator(span.start).page
    starts: list[int] = []
    for start, locator in section.locators:
        if page and locator.page and span.start < start < span.end:
            starts += [start - span.start] * (locator.page - page - len(starts))
    return tuple(starts)


def _compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
