"""Merges a source into its stored document and chunks, which remember the logs it came from.

A log of additions may be read after a newer one, or again. The document of a source therefore has
the hash of each log that was merged into it, the time of the latest change that a log names, and
the highlights that logs named as deleted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.documents import get_fields
from shared.knowledge.chunk import Kept
from shared.knowledge.chunk_repository import to_chunk
from shared.knowledge.highlight_versions import compute_overlap, extract_words
from shared.knowledge.overrides import read_values, set_own_tags
from shared.knowledge.source_repository import build_origin_fields
from shared.writer.highlight_merging import (
    MergedHighlights,
    StoredHighlights,
    merge_highlights,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.firestore.documents import Document
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.source import Source
    from shared.writer.chunked_source import ChunkedSource

MAX_HASHES: Final = 50
"""The maximum number of logs whose hashes are stored with a source. Earlier ones are compared with
the stored chunks again in each run."""
MAX_DELETED: Final = 500
"""The maximum number of deleted highlights that are remembered of a source, the latest."""
MIN_OVERLAP: Final = 0.4
"""How much of a passage must stay (`compute_overlap`) for its edited tags to stay. Where passages
are divided anew, one part of a former passage may have half of it."""
INCOMPLETE: Final = "incomplete"
"""The field that the document of a new source has until its last commit."""
LOG_FIELDS: Final = ("content_hash", "changed_at", "deleted_highlights", INCOMPLETE)
"""The stored fields that this module reads, beside those of the source."""


def merge_into_stored(
    source: ChunkedSource, document: Document | None, stored_chunks: Mapping[str, Document]
) -> tuple[ChunkedSource, MergedHighlights]:
    """Merge a source into what is stored of it, if it adds to that or must keep some of it.

    Passages keep the tags that the owner set.
    """
    chunks = [to_chunk(chunk_id, chunk.fields) for chunk_id, chunk in stored_chunks.items()]
    data = get_fields(document)
    adds_only = source.source.adds_only
    has_highlights = any(
        chunk.kept or chunk.readwise_url != data.get("readwise_url") for chunk in chunks
    )
    if (not source.chunks and not adds_only) or not (adds_only or has_highlights):
        return _keep_edits(source, chunks), MergedHighlights(source.stored_chunks)
    origin_values = read_values(data.get("origin_values") or {})
    stored = StoredHighlights(
        # A restored chunk comes before the one that has taken its position.
        sorted(chunks, key=lambda chunk: (chunk.position, chunk.kept is not Kept.RESTORED)),
        tags=origin_values.get("tags", tuple(data.get("tags") or ())),
        readwise_url=data.get("readwise_url"),
        changed_at=data.get("changed_at"),
        deleted_highlights=frozenset(data.get("deleted_highlights") or ()),
    )
    merged = merge_highlights(source, stored)
    former_hashes = get_merged_hashes(data)[1 - MAX_HASHES :] if adds_only else ()
    hashes = (*former_hashes, source.content_hash)
    merged_source = replace(source, chunks=merged.chunks, merged_hashes=hashes)
    merged = replace(merged, replaced_by=_find_replaced(merged_source, chunks))
    return _keep_edits(merged_source, chunks), merged


def _keep_edits(source: ChunkedSource, stored: Sequence[Chunk]) -> ChunkedSource:
    """Return the source with the edits of its stored chunks, also of those that it replaces."""
    former_chunks = {chunk.chunk_id: chunk for chunk in stored}
    replaced = {new: former_chunks[old] for old, new in _find_replaced(source, stored).items()}
    replaced |= _find_edited(source.chunks, stored)

    def keep(chunk: Chunk) -> Chunk:
        former = former_chunks.get(chunk.chunk_id) or replaced.get(chunk.chunk_id)
        if former is None or not (former.revision or chunk.revision):
            return chunk
        tags = former.own_tags if former.origin_tags is not None else None
        edited = set_own_tags(chunk, tags, source.source, source.origin_values)
        return replace(edited, revision=former.revision)

    # The hash stays that of what was read, by which the next run recognises an unchanged source.
    hashes = source.merged_hashes or (source.content_hash,)
    return replace(source, chunks=[keep(chunk) for chunk in source.chunks], merged_hashes=hashes)


def _find_replaced(source: ChunkedSource, stored: Sequence[Chunk]) -> dict[str, str]:
    """Map the ids of stored chunks to those of the new chunks with another text of a highlight."""
    new = {chunk.chunk_id: chunk.readwise_url for chunk in source.chunks}
    old = {chunk.chunk_id: chunk.readwise_url for chunk in stored}
    added = {url: chunk_id for chunk_id, url in new.items() if chunk_id not in old}
    return {
        chunk_id: added[url]
        for chunk_id, url in old.items()
        if chunk_id not in new and url in added and url not in {None, source.source.readwise_url}
    }


def _find_edited(new: Sequence[Chunk], stored: Sequence[Chunk]) -> dict[str, Chunk]:
    """Map the ids of added chunks to the edited chunks, now gone, with much of the same text.

    Of several, one that is kept out comes first: none of its text must appear in searches.
    """
    new_ids, stored_ids = ({chunk.chunk_id for chunk in chunks} for chunks in (new, stored))
    gone = {
        chunk.chunk_id: (chunk, extract_words(chunk.content))
        for chunk in stored
        if chunk.origin_tags is not None and chunk.chunk_id not in new_ids
    }
    edited: dict[str, Chunk] = {}
    for chunk in new if gone else ():
        if chunk.chunk_id in stored_ids:
            continue
        words = extract_words(chunk.content)
        matches = [
            (former.is_kept_out, overlap, chunk_id)
            for chunk_id, (former, former_words) in gone.items()
            if (overlap := compute_overlap(words, former_words)) >= MIN_OVERLAP
        ]
        if matches:
            edited[chunk.chunk_id], _ = gone[max(matches)[-1]]
    return edited


def get_merged_hashes(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the content hashes of what was merged into a stored source."""
    return tuple((data.get("content_hash") or "").split())


def says_nothing_new(source: ChunkedSource, stored: Document) -> bool:
    """Return whether a log without new chunks changes nothing else of its source either."""
    data = stored.fields
    origin_values = build_origin_fields(source.origin_values).get("origin_values")
    is_complete = bool(data.get("content_hash")) and INCOMPLETE not in data
    return source.source.adds_only and is_complete and data.get("origin_values") == origin_values


def build_log_fields(source: Source, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields by which a later log is compared with those that are stored."""
    if not source.adds_only:
        return {}
    times = [time for time in (stored.get("changed_at"), source.changed_at) if time]
    deleted = dict.fromkeys(
        (*stored.get("deleted_highlights", ()), *sorted(source.deleted_highlights))
    )
    fields = {
        "changed_at": max(times, default=None),
        "deleted_highlights": list(deleted)[-MAX_DELETED:],
    }
    return {name: value for name, value in fields.items() if value}
