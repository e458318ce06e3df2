"""A chunk: a passage of a source, the unit that is embedded, searched and read."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from shared.index.facets import FIRST, HAS_CARD, LATER, Facet, Kind, month_facet, named_facet
from shared.knowledge.source import FACET_FIELDS, SECTION_SEPARATOR, SOURCE_FIELDS, SourceFields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from shared.knowledge.source import Section, Source
    from shared.text.spans import Span

_CHUNK_ID: Final = re.compile(r"(.+)-[0-9a-f]{12}(?:-[0-9]+)?")


@dataclass(frozen=True, slots=True)
class KnowledgeCard:
    """A summary and a few takeaways of a chunk."""

    summary: str
    takeaways: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(SourceFields):
    """A passage of a source.

    Attributes:
        chunk_id: Source id, hash of the content and, for repeats, a counter: the id survives edits
            elsewhere in the source.
        start: Offset of the first character in the source's text, in code points.
        end: Offset after the last one; `source.text[start:end] == content`.
        position: Its place among the source's chunks, from 1.
        total: How many chunks the source has.
        dated_at: When it was highlighted, else written, if its file said so when it was first
            stored, else added. Before it is stored, the date in the file.
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
        """The chunk id."""
        return self.chunk_id

    @property
    def chunk_info(self) -> str:
        """Its place in the source for people, such as `1/5`."""
        return f"{self.position}/{self.total}"

    @property
    def date(self) -> str | None:
        """The day of `dated_at` in UTC for people, such as `2026-01-31`."""
        return f"{self.dated_at:%Y-%m-%d}" if self.dated_at else None

    @property
    def summary(self) -> str | None:
        """The summary of its knowledge card, if it has one."""
        return self.knowledge_card.summary if self.knowledge_card else None

    @property
    def embedding_text(self) -> str:
        """The text to embed."""
        return embedding_text(self.title, self.content)

    @property
    def indexed_text(self) -> str:
        """The text whose words are indexed. It includes the author, whom people search for."""
        return f"{self.embedding_text} {self.author or ''}"

    @property
    def facets(self) -> Mapping[Facet, str]:
        """The facets it can be filtered by, each with its name as written."""
        # Facets are stored in this order: another order would rewrite every chunk.
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
        position = FIRST if self.position == 1 else LATER
        names[position] = position.key
        return {facet: name for facet, name in names.items() if facet.key}

    @property
    def content_hash(self) -> str:
        """A hash of the text that is embedded."""
        return _digest(self.embedding_text)


def embedding_text(title: str, content: str) -> str:
    """Return the text to embed for a chunk. The title gives a short passage its subject."""
    return f"{title} {content}"


def chunks_of(source: Source, spans: Sequence[Sequence[Span]]) -> list[Chunk]:
    """Cut a source into chunks.

    Args:
        source: The source.
        spans: For each of the source's sections, the spans of its chunks.
    """
    chunks: list[Chunk] = []
    occurrences: dict[str, int] = {}
    offset = 0
    text = source.text
    for section, section_spans in zip(source.sections, spans, strict=True):
        for span in section_spans:
            chunk = _chunk(source, section, text, offset + span.start, offset + span.end)
            occurrences[chunk.chunk_id] = occurrence = occurrences.get(chunk.chunk_id, 0) + 1
            suffix = f"-{occurrence}" if occurrence > 1 else ""
            position = len(chunks) + 1
            chunks.append(replace(chunk, chunk_id=chunk.chunk_id + suffix, position=position))
        offset += len(section.text) + len(SECTION_SEPARATOR)
    return [replace(chunk, total=len(chunks)) for chunk in chunks]


def source_id_of(chunk_id: str) -> str:
    """Return the source id in a chunk id from `chunks_of`, or any other id unchanged."""
    match = _CHUNK_ID.fullmatch(chunk_id)
    return match[1] if match else chunk_id


def _chunk(source: Source, section: Section, text: str, start: int, end: int) -> Chunk:
    content = text[start:end]
    source_fields = {name: getattr(source, name) for name in SOURCE_FIELDS}
    source_fields["tags"] = tuple(dict.fromkeys(source.tags + section.tags))
    source_fields["readwise_url"] = section.readwise_url or source.readwise_url
    return Chunk(
        **source_fields,
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
