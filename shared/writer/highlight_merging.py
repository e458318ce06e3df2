"""Merges the highlights that a file brings into those that are stored for the same source.

A Kindle's clippings and a Readwise export are logs of additions: a file that lacks a highlight does
not say that it was deleted. Two highlights are the same if they have the same id or, if one of them
has none, the same text. If two highlights are at one place in the book and one contains the other,
the longer is kept, because the reader extended it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from shared.knowledge.chunk import Kept
from shared.knowledge.highlight_versions import find_contained, list_versions, pair_same_texts
from shared.knowledge.overrides import apply_source_fields, get_own_tags
from shared.knowledge.source import SECTION_SEPARATOR, SOURCE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from shared.knowledge.chunk import Chunk
    from shared.knowledge.highlight_versions import Version
    from shared.knowledge.source import Source
    from shared.writer.chunked_source import ChunkedSource


@dataclass(frozen=True, slots=True)
class StoredHighlights:
    """What is stored for a source.

    Attributes:
        chunks: Its chunks in reading order.
        tags: The tags of the source at its origin.
        changed_at: When its origin last changed one of its highlights, as far as logs say.
        deleted_highlights: The highlights that logs have named as deleted.
    """

    chunks: Sequence[Chunk]
    tags: tuple[str, ...] = ()
    readwise_url: str | None = None
    changed_at: datetime | None = None
    deleted_highlights: frozenset[str] = frozenset()

    def is_newer_than(self, source: Source) -> bool:
        """Return whether a log was written before another one that is stored."""
        if not (source.adds_only and source.changed_at and self.changed_at):
            return False
        return source.changed_at < self.changed_at


@dataclass(frozen=True, slots=True)
class MergedHighlights:
    """The result of merging.

    Attributes:
        chunks: The chunks to store, in reading order.
        removed_ids: The ids of stored chunks whose highlights the origin has deleted. Chunks that
            another version replaces are not among them, nor those without a highlight's id: a text
            that is read as a whole is edited, not deleted.
        kept_count: The number of stored chunks that stay although the incoming source lacks them.
        replaced_by: The ids of the chunks with another text of a highlight, by the ids of those
            that they replace.
    """

    chunks: list[Chunk]
    removed_ids: frozenset[str] = frozenset()
    kept_count: int = 0
    replaced_by: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A chunk of the merged source, with its indexes in the two sources that are merged."""

    chunk: Chunk
    incoming_index: int | None = None
    stored_index: int | None = None


def merge_highlights(incoming: ChunkedSource, stored: StoredHighlights) -> MergedHighlights:
    """Merge what a file or Readwise brings into what is stored.

    A log of additions keeps all stored chunks, except earlier versions of its own highlights and
    those that it names as deleted. One that is older than what is stored only adds highlights that
    were never stored. Any other origin keeps only the chunks that are marked as
    `kept`; it removes the mark of those that it has, since from then on it may delete them.

    Args:
        incoming: The source as it was read, with the values that the owner set.
    """
    source = incoming.source
    stored_chunks = [_adopt(chunk, incoming, stored) for chunk in stored.chunks]
    new = list_versions(incoming.stored_chunks, source)
    old = list_versions(stored_chunks, source)
    pairs = pair_same_texts(new, old)
    unpaired = _leave_out(old, {version.index for version in pairs.values()})
    is_older = stored.is_newer_than(source)
    edited = set() if is_older else _find_edited(unpaired, new)
    extended = find_contained(unpaired, new, loses_ties=True)
    remaining = _leave_out(unpaired, edited | extended)
    if source.adds_only:
        removed = _find_deleted(remaining, source.deleted_highlights)
        kept = _leave_out(remaining, removed)
        # A log may also bring a shorter version than the one that is stored.
        superseded = find_contained(new, _leave_out(old, edited | removed), loses_ties=False)
        if is_older:
            known_ids = {version.highlight_id for version in old} | stored.deleted_highlights
            superseded |= pairs.keys()
            superseded |= {v.index for v in new if v.highlight_id and v.highlight_id in known_ids}
    else:
        removed = {v.index for v in remaining if v.highlight_id and not v.chunk.kept}
        kept = [version for version in remaining if version.chunk.kept]
        superseded = set()
    entries = [_Entry(version.chunk, stored_index=version.index) for version in kept]
    entries += _build_entries(new, pairs, superseded, adds_only=source.adds_only)
    entries = _sort_as_read(entries)
    # A log that says nothing new leaves the order as it is.
    if not source.adds_only or any(entry.stored_index is None for entry in entries):
        entries = _sort_by_place(entries, old, new)
    taken_ids = {chunk.chunk_id for chunk in stored_chunks} | incoming.forgotten_ids
    return MergedHighlights(
        _place_chunks(_choose_ids(entries, taken_ids), incoming.stored_chunks, stored_chunks),
        frozenset(stored_chunks[index].chunk_id for index in removed),
        len(kept),
    )


def _leave_out(versions: Iterable[Version], indexes: Collection[int]) -> list[Version]:
    return [version for version in versions if version.index not in indexes]


def _find_edited(unpaired: Iterable[Version], new: Iterable[Version]) -> set[int]:
    """Return the indexes of stored chunks whose highlight is incoming with another text."""
    highlight_ids = {version.highlight_id for version in new} - {None}
    return {version.index for version in unpaired if version.highlight_id in highlight_ids}


def _find_deleted(versions: Iterable[Version], deleted_highlights: Collection[str]) -> set[int]:
    """Return the indexes of chunks that a log names as deleted and that nobody restored."""
    return {
        version.index
        for version in versions
        if version.highlight_id in deleted_highlights and version.chunk.kept is not Kept.RESTORED
    }


def _build_entries(
    new: Sequence[Version],
    pairs: Mapping[int, Version],
    superseded: set[int],
    *,
    adds_only: bool,
) -> Iterator[_Entry]:
    """Yield the incoming chunks to store. Those that are stored already keep their ids.

    Args:
        pairs: The stored chunks with the same texts, by the index of the incoming chunk.
        superseded: The indexes of incoming chunks that are stored in a longer version.
        adds_only: Whether they come from a log.
    """
    for version in new:
        match = pairs.get(version.index)
        is_superseded = version.index in superseded
        if match and not adds_only:
            chunk = replace(version.chunk, chunk_id=match.chunk.chunk_id)
        elif match:
            chunk = match.chunk if is_superseded else _update(match, version)
        elif not is_superseded:
            chunk = replace(version.chunk, kept=Kept.ADDED if adds_only else None)
        else:
            continue
        yield _Entry(chunk, version.index, match.index if match else None)


def _update(match: Version, version: Version) -> Chunk:
    """Return an incoming chunk as the new state of a stored one with the same text.

    The place stays as it was first stored, unless the highlight was extended, and so does what the
    incoming chunk does not know.
    """
    is_extended = len(version.words) > len(match.words)
    has_place = match.place.page is not None or match.chunk.location is not None
    place = ("page", "chapter", "location") if has_place and not is_extended else ()
    names = ("highlighted_at", "highlight_url", "chapter", "kept")
    unknown = [name for name in names if getattr(version.chunk, name) is None]
    stays = {name: getattr(match.chunk, name) for name in (*place, *unknown)}
    return replace(version.chunk, chunk_id=match.chunk.chunk_id, **stays)


def _adopt(chunk: Chunk, incoming: ChunkedSource, stored: StoredHighlights) -> Chunk:
    """Return a stored chunk with what its source says now. It keeps its own tags and link."""
    source = incoming.source
    fields: dict[str, Any] = {name: getattr(source, name) for name in SOURCE_FIELDS}
    fields["language"] = source.language or chunk.language
    if chunk.readwise_url != stored.readwise_url:
        fields["readwise_url"] = chunk.readwise_url
    own_tags = get_own_tags(chunk, stored.tags)
    return apply_source_fields(
        replace(chunk, **fields | {"own_tags": own_tags}), source, incoming.origin_values
    )


def _sort_as_read(entries: Sequence[_Entry]) -> list[_Entry]:
    """Keep stored entries in their order, and put each new one before the stored one it precedes.

    Args:
        entries: Those that are only stored, and then the incoming ones in their order.
    """
    keyed: list[tuple[tuple[float, bool, int], _Entry]] = []
    following = float("inf")
    for entry in reversed(entries):
        is_stored = entry.stored_index is not None
        following = following if entry.stored_index is None else entry.stored_index
        keyed.append(((following, is_stored, entry.incoming_index or 0), entry))
    return [entry for _, entry in sorted(keyed, key=lambda item: item[0])]


def _sort_by_place(
    entries: Sequence[_Entry], old: Sequence[Version], new: Sequence[Version]
) -> list[_Entry]:
    """Merge the entries of two sources, each of which stays in its own reading order."""
    old_keys, new_keys = _make_keys(old), _make_keys(new)

    def get_key(entry: _Entry) -> tuple[int, int, float]:
        if entry.incoming_index is not None:
            return new_keys[entry.incoming_index]
        return old_keys[entry.stored_index or 0]

    return sorted(entries, key=get_key)


def _make_keys(versions: Iterable[Version]) -> list[tuple[int, int, float]]:
    """Return ascending sort keys: location, page and date.

    A chunk that is not where its place or date would put it follows its predecessor.
    """
    keys: list[tuple[int, int, float]] = []
    location, page, date = -1, -1, float("-inf")
    for version in versions:
        place, highlighted_at = version.place, version.chunk.highlighted_at
        where = (location, page)
        if place.locations or place.page is not None:
            where = (place.locations[0] if place.locations else 0, place.page or 0)
        moment = highlighted_at.timestamp() if highlighted_at else date
        location, page, date = max((location, page, date), (*where, moment))
        keys.append((location, page, date))
    return keys


def _choose_ids(entries: Sequence[_Entry], taken_ids: Collection[str]) -> list[_Entry]:
    """Return the entries, with an id for each new chunk that no other chunk has."""
    taken = set(taken_ids)
    chosen = []
    for entry in entries:
        chunk = entry.chunk
        if entry.stored_index is None:
            # Another file may have numbered a repeated text, as in `...-2`.
            base = re.sub(r"(-[0-9a-f]{12})-[0-9]+$", r"\1", chunk.chunk_id)
            ids = chain([chunk.chunk_id, base], (f"{base}-{number}" for number in count(2)))
            chunk = replace(chunk, chunk_id=next(name for name in ids if name not in taken))
            taken.add(chunk.chunk_id)
        chosen.append(replace(entry, chunk=chunk))
    return chosen


def _place_chunks(
    entries: Sequence[_Entry], incoming: Sequence[Chunk], stored: Sequence[Chunk]
) -> list[Chunk]:
    """Return the chunks with their positions and offsets in the merged text.

    Chunks that were neighbours stay as far apart as they were. Others are separate sections.
    """
    chunks: list[Chunk] = []
    end = 0
    before: tuple[int | None, int | None] = (-1, -1)
    for position, entry in enumerate(entries, start=1):
        gaps = [
            _find_gap(incoming, before[0], entry.incoming_index),
            _find_gap(stored, before[1], entry.stored_index),
            len(SECTION_SEPARATOR) if chunks else 0,
        ]
        start = end + next(gap for gap in gaps if gap is not None)
        end = start + len(entry.chunk.content)
        chunks.append(
            replace(entry.chunk, start=start, end=end, position=position, total=len(entries))
        )
        before = (entry.incoming_index, entry.stored_index)
    return chunks


def _find_gap(chunks: Sequence[Chunk], before: int | None, index: int | None) -> int | None:
    """Return the number of characters between two chunks, or None if they are not neighbours.

    The beginning of the text, with index -1, is the neighbour of the first chunk.
    """
    if index is None or before is None or index != before + 1:
        return None
    return chunks[index].start - (chunks[before].end if before >= 0 else 0)
