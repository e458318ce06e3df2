"""The lines of a `carrel export`, from which `carrel ingest` restores sources as they were.

A file begins with the header. Each source follows as the line {"source": {...}}, a line
{"chunk": {...}} for each of its chunks, and the line {"chunks": 3} with their number. If chunks are
left out, that line has their number as well: {"chunks": 3, "left_out": 1}.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from shared.knowledge.overrides import get_own_tags
from shared.knowledge.source import SOURCE_FIELDS

if TYPE_CHECKING:
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.knowledge_card import KnowledgeCard
    from shared.knowledge.source import NoteFields
    from shared.knowledge.source_repository import StoredSource

FORMAT: Final = 1
"""The version of the lines. Raise it when older releases could not read them."""
HEADER_FIELD: Final = "carrel_export"
HEADER: Final = {HEADER_FIELD: FORMAT}
MANIFEST: Final = "carrel-export.json"
"""The name of the file by which a folder is recognised as an export."""
KNOWLEDGE: Final = "knowledge-*.jsonl"
"""The pattern of the names of files with sources."""


def build_source_line(source: StoredSource, note: NoteFields | None) -> dict[str, Any]:
    """Build the line of a source.

    The line of an edited source has the values that the owner set, and in `origin_values` those of
    the origin.
    """
    fields = {name: getattr(source, name) for name in SOURCE_FIELDS}
    dates = {"created_at": source.created_at, "updated_at": source.updated_at}
    other_fields = {
        "links_to": source.links_to,
        "unread": source.unread,
        "markdown": source.markdown,
        "origin_values": source.origin_values,
        "note": note and asdict(note),
    }
    return {"source": _to_json_fields({**fields, **dates, **other_fields})}


def build_chunk_line(chunk: Chunk, source: StoredSource) -> dict[str, Any]:
    """Build the line of a chunk: what the line of its source does not say."""
    fields = {
        "chunk_id": chunk.chunk_id,
        "start": chunk.start,
        "text": chunk.content,
        "tags": get_own_tags(chunk, (source.origin_values or {}).get("tags", source.tags)),
        "origin_values": None if chunk.origin_tags is None else {"tags": chunk.origin_tags},
        "readwise_url": chunk.readwise_url if chunk.readwise_url != source.readwise_url else None,
        "highlight_url": chunk.highlight_url,
        "highlighted_at": chunk.highlighted_at,
        "dated_at": chunk.dated_at,
        "date_meaning": chunk.date_meaning,
        "page": chunk.page,
        "page_starts": chunk.page_starts,
        "chapter": chunk.chapter,
        "location": chunk.location,
        "card": chunk.knowledge_card and _to_card_fields(chunk.knowledge_card),
    }
    return {"chunk": _to_json_fields(fields)}


def build_end_line(chunk_count: int, left_out: int) -> dict[str, Any]:
    """Build the line after the chunks of a source, with the number of those that are left out."""
    return {"chunks": chunk_count} | ({"left_out": left_out} if left_out else {})


def _to_card_fields(card: KnowledgeCard) -> dict[str, Any]:
    fields = {
        "summary": card.summary,
        "takeaways": list(card.takeaways),
        "model": card.model,
        "generated_at": card.generated_at,
    }
    return _to_json_fields(fields)


def _to_json_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Convert fields to JSON's types, and drop the empty ones."""
    return {
        name: value.isoformat() if isinstance(value, date) else value
        for name, value in fields.items()
        if value is not None and value not in ((), [])
    }
