"""A chunk: the passage of a source that is embedded, found and read."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from shared.index.facets import HAS_CARD, Facet, Kind, month_facet, named_facet
from shared.knowledge.source import FACET_FIELDS, SECTION_SEPARATOR, SOURCE_FIELDS, SourceFields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.knowledge.source import Section, Source
    from shared.text.spans import Span

_CHUNK_ID: Final = re.compile(r"(.+)-[0-9a-f]{12}(?:-[0-9]+)?")


@dataclass(frozen=True, slots=True)
class KnowledgeCard:
    """What a chunk says, in short: a summary and a few takeaways."""

    summary: str
    takeaways: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(SourceFields):
    """A passage of a source, with what a reader wants to see beside it.

    Attributes:
        chunk_id: Source id, hash of the content and, for repeats, a counter: it survives edits
            elsewhere in the source.
        start: Where it starts in the source's text, in code points.
        end: Where it ends; `source.text[start:end] == content`.
        position: Its place among the source's chunks, from 1.
        total: How many chunks the source has.
        dated_at: When it was highlighted, else written, as far as its file told when it was first
            stored, else put in: the date that people mean. Before it is stored, what the file says.
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
    knowledge_card: KnowledgeCard | None = None
    cluster_id: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Its id."""
        return self.chunk_id

    @property
    def chunk_info(self) -> str:
        """Its place in the source, for people: `1/5`."""
        return f"{self.position}/{self.total}"

    @property
    def date(self) -> str | None:
        """The day of `dated_at`, for people: `2026-01-31`, in UTC."""
        return f"{self.dated_at:%Y-%m-%d}" if self.dated_at else None

    @property
    def summary(self) -> str | None:
        """The summary of its knowledge card, once one was made."""
        return self.knowledge_card.summary if self.knowledge_card else None

    @property
    def embedding_text(self) -> str:
        """What is embedded of this chunk."""
        return embedding_text(self.title, self.content)

    @property
    def indexed_text(self) -> str:
        """What is indexed by its words: the author too, by whom people ask."""
        return f"{self.embedding_text} {self.author or ''}"

    @property
    def facets(self) -> Mapping[Facet, str]:
        """What it can be filtered by, each with the name that people know it by."""
        # Facets are stored in this order: another would write every chunk anew.
        names = {
            Facet(Kind.SOURCE, self.source_id): self.title,
            named_facet(Kind.TITLE, self.title): self.title,
            named_facet(Kind.CATEGORY, self.category): self.category,
        }
        names |= {named_facet(Kind.TAG, tag): tag for tag in self.tags}
        names |= {Facet(Kind.CLUSTER, cluster): cluster for cluster in self.cluster_id}
        if self.author:
            names[named_facet(Kind.AUTHOR, self.author)] = self.author
        if self.knowledge_card:
            names[HAS_CARD] = "yes"
        if self.dated_at:
            names[month_facet(self.dated_at)] = f"{self.dated_at:%B %Y}"
        for field, kind in FACET_FIELDS.items():
            if name := getattr(self, field):
                names[named_facet(kind, name)] = name
        return {facet: name for facet, name in names.items() if facet.key}

    @property
    def content_hash(self) -> str:
        """Changes exactly when what is embedded changes."""
        return _digest(self.embedding_text)


def embedding_text(title: str, content: str) -> str:
    """What is embedded of a chunk: the title gives a short passage its subject."""
    return f"{title} {content}"


def chunks_of(source: Source, spans: Sequence[Sequence[Span]]) -> list[Chunk]:
    """Cut a source into chunks.

    Args:
        source: The source.
        spans: For each of the source's sections, the spans of its chunks.
    """
    chunks: list[Chunk] = []
    seen: dict[str, int] = {}
    offset = 0
    text = source.text
    for section, section_spans in zip(source.sections, spans, strict=True):
        for span in section_spans:
            chunk = _chunk(source, section, text, offset + span.start, offset + span.end)
            seen[chunk.chunk_id] = occurrence = seen.get(chunk.chunk_id, 0) + 1
            suffix = f"-{occurrence}" if occurrence > 1 else ""
            position = len(chunks) + 1
            chunks.append(replace(chunk, chunk_id=chunk.chunk_id + suffix, position=position))
        offset += len(section.text) + len(SECTION_SEPARATOR)
    return [replace(chunk, total=len(chunks)) for chunk in chunks]


def source_id_of(chunk_id: str) -> str:
    """The source that a chunk belongs to, from an id that `chunks_of` made; others stay whole."""
    match = _CHUNK_ID.fullmatch(chunk_id)
    return match[1] if match else chunk_id


def _chunk(source: Source, section: Section, text: str, start: int, end: int) -> Chunk:
    content = text[start:end]
    described = {name: getattr(source, name) for name in SOURCE_FIELDS}
    described["tags"] = tuple(dict.fromkeys(source.tags + section.tags))
    described["readwise_url"] = section.readwise_url or source.readwise_url
    return Chunk(
        **described,
        chunk_id=f"{source.source_id}-{_digest(content)[:12]}",
        start=start,
        end=end,
        position=0,
        total=0,
        content=content,
        highlight_url=section.highlight_url,
        highlighted_at=section.highlighted_at,
        dated_at=section.written_at,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
