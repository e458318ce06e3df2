"""From a source to what the database is compared with."""

from __future__ import annotations

from shared.domain.chunk import chunks_of
from shared.domain.source import Source
from shared.retrieval.chunking import split
from shared.store.ingestion import ChunkedSource


def chunked(source: Source) -> ChunkedSource:
    """Cut a source into chunks. A megabyte takes a second: not on the event loop."""
    spans = [split(section.text) for section in source.sections]
    return ChunkedSource(source, chunks_of(source, spans))


def gone(source_id: str) -> ChunkedSource:
    """A source that is to be deleted."""
    return ChunkedSource(Source(source_id, title=source_id), [])
