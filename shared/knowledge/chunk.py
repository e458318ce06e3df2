"""A chunk: a passage of a source, the unit that is embedded, searched and read."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from shared.core.dates import format_day
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
    DateMeaning,
    SourceFields,
)
from shared.text.folding import fold_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, tzinfo

    from shared.knowledge.knowledge_card import KnowledgeCard


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
    CONVERSATION = "conversation"
    TEXT = "file"


_KINDS_BY_ORIGIN: Final = {
    **dict.fromkeys(
        ("bookmark", "hypothesis", "kindle", "koreader", "raindrop"), PassageKind.HIGHLIGHT
    ),
    **dict.fromkeys(("chatgpt", "claude"), PassageKind.CONVERSATION),
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
        own_tags: The chunk's tags that its source does not have. Stored only if the owner set its
            tags or those of the source, because otherwise `tags` contains both.
        origin_tags: What the origin says of `own_tags`. Stored only if the owner set them.
        revision: The number of its revision. Each edit increments it.
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
    origin_tags: tuple[str, ...] | None = added_field()
    revision: int | None = added_field()
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
        if self.readwise_url or self.date_meaning is DateMeaning.HIGHLIGHTED:
            return PassageKind.HIGHLIGHT
        return _KINDS_BY_ORIGIN.get(self.origin, PassageKind.TEXT)

    @property
    def chunk_info(self) -> str:
        """The position in the source for people, such as `1/5`."""
        return f"{self.position}/{self.total}"

    def format_day(self, zone: tzinfo) -> str | None:
        """Return the day of `dated_at` in a time zone for people, such as `2026-01-31`."""
        return format_day(self.dated_at, zone) if self.dated_at else None

    def format_date(self, zone: tzinfo) -> str | None:
        """Return the day with its meaning, such as `written 2026-01-31`."""
        day = self.format_day(zone)
        return day and " ".join(filter(None, [self.date_meaning, day]))

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
        if card and not card.takeaways and _fold(card.summary) == _fold(self.content):
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


def _fold(text: str) -> str:
    """Fold a text, and omit its spaces: a summary has some between Chinese sentences."""
    return fold_text(text).replace(" ", "")


def _compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
