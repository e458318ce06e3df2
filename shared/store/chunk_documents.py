"""How a chunk is laid out as a document."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from shared.domain.chunk import Chunk, KnowledgeCard

if TYPE_CHECKING:
    from datetime import datetime

STEPS: Final = ("embed",)
"""What jobs do to a new chunk, one after the other."""

READ_FIELDS: Final = (
    "source_id",
    "start",
    "end",
    "position",
    "total",
    "title",
    "author",
    "source",
    "category",
    "tags",
    "content",
    "readwise_url",
    "source_url",
    "highlight_url",
    "highlighted_at",
    "knowledge_card",
    "cluster_id",
)
"""What a reader sees of a chunk: everything but its vector and the jobs' bookkeeping."""


def to_chunk(chunk_id: str, data: dict[str, Any]) -> Chunk:
    """Read a chunk from its document; what jobs have not made yet is empty."""
    card = data.get("knowledge_card")
    return Chunk(
        chunk_id=chunk_id,
        source_id=data["source_id"],
        start=data["start"],
        end=data["end"],
        position=data["position"],
        total=data["total"],
        title=data["title"],
        author=data.get("author"),
        source=data["source"],
        category=data["category"],
        tags=tuple(data.get("tags") or ()),
        content=data["content"],
        readwise_url=data.get("readwise_url"),
        source_url=data.get("source_url"),
        highlight_url=data.get("highlight_url"),
        highlighted_at=data.get("highlighted_at"),
        knowledge_card=_card(card) if card else None,
        cluster_id=tuple(data.get("cluster_id") or ()),
    )


def ingested(chunk: Chunk) -> dict[str, Any]:
    """The fields that ingest owns; cards, clusters and vectors belong to other jobs."""
    return {
        "source_id": chunk.source_id,
        "start": chunk.start,
        "end": chunk.end,
        "position": chunk.position,
        "total": chunk.total,
        "title": chunk.title,
        "author": chunk.author,
        "source": chunk.source,
        "category": chunk.category,
        "tags": list(chunk.tags),
        "content": chunk.content,
        "readwise_url": chunk.readwise_url,
        "source_url": chunk.source_url,
        "highlight_url": chunk.highlight_url,
        "highlighted_at": chunk.highlighted_at,
        "content_hash": chunk.content_hash,
    }


def fingerprint(chunk: Chunk) -> str:
    """Changes exactly when a field that ingest owns changes."""
    return hashlib.sha256(_canonical(chunk)).hexdigest()


def size(chunk: Chunk) -> int:
    """About how many bytes a write of this chunk takes: what it says, and a kilobyte of names."""
    return 1_000 + len(_canonical(chunk))


def created(chunk: Chunk, now: datetime) -> dict[str, Any]:
    """A new chunk: every step waits on it, and may be tried at once."""
    return edited(chunk, now) | {"created_at": now} | _waiting(now)


def edited(chunk: Chunk, now: datetime) -> dict[str, Any]:
    """A chunk whose surroundings changed: its place, its tags, but not what is embedded."""
    return ingested(chunk) | {"fingerprint": fingerprint(chunk), "updated_at": now}


def rewritten(chunk: Chunk, now: datetime) -> dict[str, Any]:
    """A chunk of which what is embedded changed: its steps wait on it again."""
    return edited(chunk, now) | _waiting(now)


def _waiting(now: datetime) -> dict[str, Any]:
    return {"pending": list(STEPS), "retry_at": now, "tries": {}, "parked": {}}


def _canonical(chunk: Chunk) -> bytes:
    document = ingested(chunk)
    return json.dumps(document, sort_keys=True, default=str, ensure_ascii=False).encode()


def _card(data: dict[str, Any]) -> KnowledgeCard:
    return KnowledgeCard(data["summary"], tuple(data.get("takeaways") or ()))
