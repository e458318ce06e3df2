"""A source with its chunks, and what ingest stores of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from shared.index.facets import Kind
from shared.knowledge.overrides import apply_source_fields
from shared.knowledge.source import Source
from shared.knowledge.source_repository import (
    build_origin_fields,
    build_source_fields,
    make_title_key,
)
from shared.writer.chunk_documents import compute_fingerprint, estimate_write_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from shared.knowledge.chunk import Chunk

MAX_CHUNK_BYTES: Final = 500_000
"""The maximum number of bytes that ingest writes of a chunk. A document may have 1 MiB, and other
jobs add fields."""
MAX_TAGS: Final = 4_000
"""The maximum number of different tags of a source and its chunks."""
MAX_TAG_BYTES: Final = 300_000
"""The maximum size of these tags, in bytes. A tag takes three index entries, one of which repeats
the title. A document may have 40,000 entries, of 8 MiB together."""
_SOURCE_FILTERS: Final = frozenset({Kind.AUTHOR, Kind.CATEGORY, Kind.LANGUAGE, Kind.TAG})
"""The kinds of facets by which sources are filtered. A source has the facets of all its chunks."""


@dataclass(frozen=True, slots=True)
class ChunkedSource:
    """A source with its chunks.

    Attributes:
        chunks: All chunks of its text. Empty if the source is to be deleted.
        forgotten_ids: The ids of chunks that were forgotten. These are not stored.
        origin_values: What the origin says of the fields that the owner set, by field name.
        merged_hashes: The content hashes of what was merged into these chunks, the latest last.
    """

    source: Source
    chunks: list[Chunk]
    forgotten_ids: frozenset[str] = frozenset()
    origin_values: Mapping[str, Any] = field(default_factory=dict)
    merged_hashes: tuple[str, ...] = ()

    def override(self, values: Mapping[str, Any]) -> ChunkedSource:
        """Return the source with the values that the owner set, by field name."""
        if not values:
            return self
        origin_values = {name: getattr(self.source, name) for name in values}
        source = replace(self.source, **values)
        chunks = [apply_source_fields(chunk, source, origin_values) for chunk in self.chunks]
        return replace(self, source=source, chunks=chunks, origin_values=origin_values)

    @classmethod
    def deleted(cls, source_id: str) -> ChunkedSource:
        """Return the source without chunks, so that `Ingestion.save` deletes it."""
        return cls(Source(source_id, title=source_id), [])

    @property
    def stored_chunks(self) -> list[Chunk]:
        """The chunks to store: all except the forgotten ones."""
        return [chunk for chunk in self.chunks if chunk.chunk_id not in self.forgotten_ids]

    @property
    def deletes_highlights(self) -> bool:
        """Whether the source comes from a log that names highlights as deleted."""
        return self.source.adds_only and bool(self.source.deleted_highlights)

    @property
    def content_hash(self) -> str:
        """A hash of everything that ingest writes of the source and its chunks."""
        parts = [
            build_source_fields(self.source) | build_origin_fields(self.origin_values),
            *(compute_fingerprint(chunk) for chunk in self.chunks),
            *(sorted(self.source.deleted_highlights) if self.deletes_highlights else ()),
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def excess(self) -> str | None:
        """A message that says what is too large for a document, or None if everything fits."""
        largest = max(map(estimate_write_size, self.chunks), default=0)
        if largest > MAX_CHUNK_BYTES:
            return (
                f"has a passage of {largest:,} bytes with its tags; at most {MAX_CHUNK_BYTES:,} are"
                " allowed: remove tags from it"
            )
        return describe_excess_tags(collect_source_facets(self.stored_chunks))


def describe_excess_tags(facets: Iterable[str]) -> str | None:
    """Return a message if a source with these facets would have too many tags, or None."""
    tags = [facet for facet in facets if facet.startswith(Kind.TAG)]
    tag_bytes = sum(len(tag.encode()) for tag in tags)
    if len(tags) > MAX_TAGS or tag_bytes > MAX_TAG_BYTES:
        return (
            f"has {len(tags):,} different tags of {tag_bytes:,} bytes; at most {MAX_TAGS:,} of"
            f" {MAX_TAG_BYTES:,} bytes are allowed: remove some of them"
        )
    return None


def build_source_document(source: ChunkedSource, now: datetime) -> dict[str, Any]:
    """Return the fields that every write of a source sets."""
    fields = build_source_fields(source.source) | build_origin_fields(source.origin_values)
    return fields | {
        "title_key": make_title_key(source.source.title),
        "facets": collect_source_facets(source.stored_chunks),
        "chunk_count": len(source.stored_chunks),
        "content_hash": " ".join(source.merged_hashes) or source.content_hash,
        "updated_at": now,
    }


def collect_source_facets(chunks: Iterable[Chunk]) -> list[str]:
    """Return the ids of the chunks' facets by which their source can be filtered, sorted."""
    facets = {facet for chunk in chunks for facet in chunk.facets}
    return sorted(facet.id for facet in facets if facet.kind in _SOURCE_FILTERS)
