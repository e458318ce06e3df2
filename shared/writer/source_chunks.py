"""Splits a source into chunks, each with its fields, its place in the source, and its id."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from shared.core.ids import make_passage_id
from shared.knowledge.chunk import Chunk
from shared.knowledge.source import SECTION_SEPARATOR, SOURCE_FIELDS
from shared.text.language import detect_language

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.knowledge.source import Section, Source
    from shared.text.spans import Span

_MAX_OCCURRENCES: Final = 1_000
"""A passage that occurs more often in a source may get another id when it is imported."""


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
        own_tags=section.tags if section.origin_tags is not None else None,
        origin_tags=section.origin_tags,
        revision=1 if section.origin_tags is not None else None,
    )


def _find_page_starts(section: Section, span: Span) -> tuple[int, ...]:
    """Return the offsets in a span at which the pages after its first one begin."""
    page = section.find_locator(span.start).page
    starts: list[int] = []
    for start, locator in section.locators:
        if page and locator.page and span.start < start < span.end:
            starts += [start - span.start] * (locator.page - page - len(starts))
    return tuple(starts)
