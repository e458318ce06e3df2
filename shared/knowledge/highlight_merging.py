"""Merges the highlights that a file brings into those that are stored of the same source.

A Kindle's clippings and a Readwise export are logs of additions: a file that lacks a highlight does
not say that it was deleted. Two highlights are the same if they have the same id or, if one of them
has none, the same text. Of two at one place in the book, one of which contains the other, the
longer is kept, because the reader extended it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import chain, count, groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from shared.knowledge.overrides import apply_source_fields, get_own_tags
from shared.knowledge.source import SECTION_SEPARATOR, SOURCE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from shared.knowledge.chunk import Chunk
    from shared.knowledge.chunked_source import ChunkedSource

_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
"""A location, or a first and a last one."""
_BUCKET_SIZE: Final = 50
"""Highlights are compared with those in the same bucket of this many locations."""
_MAX_BUCKETS: Final = 20
"""The maximum number of buckets of one highlight. Longer highlights occur only in damaged files."""
_MAX_COMPARED: Final = 200
"""A highlight is compared with at most this many in a bucket, so that merging takes linear time."""


@dataclass(frozen=True, slots=True)
class StoredHighlights:
    """What is stored of a source.

    Attributes:
        chunks: Its chunks in reading order.
        tags: The tags of the source at its origin.
        readwise_url: The source's page in Readwise.
    """

    chunks: Sequence[Chunk]
    tags: tuple[str, ...] = ()
    readwise_url: str | None = None


@dataclass(frozen=True, slots=True)
class MergedHighlights:
    """The result of merging.

    Attributes:
        chunks: The chunks to store, in reading order.
        removed_ids: The ids of stored chunks whose highlights the origin has deleted. Chunks that
            another version replaces are not among them.
        kept_count: The number of stored chunks that stay although the incoming source lacks them.
    """

    chunks: list[Chunk]
    removed_ids: frozenset[str] = frozenset()
    kept_count: int = 0


class _Place(NamedTuple):
    """A position in the original: first and last location, page, and any other location."""

    locations: tuple[int, int] | None
    page: int | None
    other: str | None


class _Version(NamedTuple):
    """A chunk with what it is compared by.

    Attributes:
        chunk: The chunk.
        highlight_id: The id of its highlight; None if its origin gives none.
        place: Its place.
        number: Its index among the chunks of its source.
    """

    chunk: Chunk
    highlight_id: str | None
    place: _Place
    number: int


@dataclass(slots=True)
class _Entry:
    """A chunk of the merged source, with its indexes in the two sources that are merged."""

    chunk: Chunk
    incoming_index: int | None = None
    stored_index: int | None = None


def merge_highlights(incoming: ChunkedSource, stored: StoredHighlights) -> MergedHighlights:
    """Merge what a file or Readwise brings into what is stored.

    A log of additions keeps all stored chunks, except earlier versions of its own highlights and
    those that it names as deleted. Any other origin keeps only the chunks that are marked as
    `kept`; it removes the mark of those that it has, since from then on it may delete them.

    Args:
        incoming: The source as it was read, with the values that the owner set.
        stored: What is stored of it.
    """
    source = incoming.source
    new = _list_versions(incoming.stored_chunks, source.readwise_url)
    old = _list_versions(stored.chunks, stored.readwise_url)
    pairs = _pair_same_texts(new, old)
    paired = {version.number for version in pairs.values()}
    unpaired = [version for version in old if version.number not in paired]
    highlight_ids = {version.highlight_id for version in new} - {None}
    replaced = {version.number for version in unpaired if version.highlight_id in highlight_ids}
    replaced |= _find_contained(unpaired, old, new, loses_ties=True)
    remaining = [version for version in unpaired if version.number not in replaced]
    removed: set[int] = set()
    superseded: set[int] = set()
    if source.adds_only:
        removed = {v.number for v in remaining if v.highlight_id in source.deleted_highlights}
        added = [version for version in new if version.number not in pairs]
        superseded = _find_contained(added, new, old, loses_ties=False)
        kept = [version for version in remaining if version.number not in removed]
    else:
        kept = [version for version in remaining if version.chunk.kept]
        gone = [version for version in remaining if not version.chunk.kept]
        removed = {version.number for version in gone if version.highlight_id}
    entries = _sort_by_place(
        [
            _Entry(_adopt(version.chunk, incoming, stored), stored_index=version.number)
            for version in kept
        ],
        list(_build_entries(new, pairs, superseded, adds_only=source.adds_only)),
        old,
        new,
    )
    _choose_ids(entries, {chunk.chunk_id for chunk in stored.chunks} | incoming.forgotten_ids)
    return MergedHighlights(
        _place_chunks(entries, incoming.stored_chunks, stored.chunks),
        frozenset(stored.chunks[index].chunk_id for index in removed),
        len(kept),
    )


def extract_letters(text: str) -> str:
    """Return the letters and digits of a text, for comparison; the text itself if it has none."""
    folded = unicodedata.normalize("NFC", text).casefold()
    return "".join(re.findall(r"\w+", folded)) or text


def _list_versions(chunks: Sequence[Chunk], source_url: str | None) -> list[_Version]:
    return [
        _Version(
            chunk,
            chunk.readwise_url if chunk.readwise_url != source_url else None,
            _parse_place(chunk),
            index,
        )
        for index, chunk in enumerate(chunks)
    ]


def _parse_place(chunk: Chunk) -> _Place:
    match = _RANGE.fullmatch(chunk.location or "")
    if match is None:
        return _Place(None, chunk.page, chunk.location)
    first = int(match[1])
    return _Place((first, max(first, int(match[2] or 0))), chunk.page, None)


def _pair_same_texts(new: Sequence[_Version], old: Sequence[_Version]) -> dict[int, _Version]:
    """Pair incoming with stored chunks of the same text, by the index of the incoming chunk.

    Of several stored ones, the one with the same id is preferred, then one at the same place.
    """
    by_text: dict[str, list[_Version]] = defaultdict(list)
    for version in old:
        by_text[version.chunk.content].append(version)
    pairs: dict[int, _Version] = {}
    for version in new:
        same_text = by_text.get(version.chunk.content, [])
        candidates = [other for other in same_text if not _are_distinct(version, other)]
        if candidates:
            best = min(candidates, key=lambda other: _compare_identity(version, other))
            same_text.remove(best)
            pairs[version.number] = best
    return pairs


def _are_distinct(one: _Version, other: _Version) -> bool:
    """Return whether two chunks belong to different highlights by their ids."""
    ids = {one.highlight_id, other.highlight_id}
    return len(ids) == 2 and None not in ids  # noqa: PLR2004 - two chunks


def _compare_identity(one: _Version, other: _Version) -> tuple[bool, bool, bool]:
    """Return a sort key by which the stored chunk that is most likely the same comes first."""
    return (
        one.highlight_id != other.highlight_id,
        not _may_overlap(one.place, other.place),
        one.chunk.chunk_id != other.chunk.chunk_id,
    )


def _find_contained(
    candidates: Sequence[_Version],
    versions: Sequence[_Version],
    others: Sequence[_Version],
    *,
    loses_ties: bool,
) -> set[int]:
    """Return the indexes of candidates that a longer highlight at their place contains.

    Args:
        candidates: Some of `versions`.
        versions: The chunks of one source.
        others: The chunks of the other source.
        loses_ties: Whether a candidate is dropped if the other highlight has the same letters.
    """
    if not candidates:
        return set()
    letters, other_letters = _join_letters(versions), _join_letters(others)
    by_bucket: dict[object, list[int]] = defaultdict(list)
    for position, other in enumerate(others):
        for bucket in _find_buckets(other.place):
            by_bucket[bucket].append(position)
    lengths = {
        version.number: len(joined) for version, joined in zip(versions, letters, strict=True)
    }
    contained: set[int] = set()
    for version in candidates:
        nearby = chain.from_iterable(
            by_bucket.get(bucket, [])[:_MAX_COMPARED] for bucket in _find_buckets(version.place)
        )
        needed = lengths[version.number] + (not loses_ties)
        for position in nearby:
            other, whole = others[position], other_letters[position]
            if (
                len(whole) >= needed
                and not _are_distinct(version, other)
                and _may_overlap(version.place, other.place)
                and _contains(whole, version, other.place)
            ):
                contained.add(version.number)
                break
    return contained


def _join_letters(versions: Sequence[_Version]) -> list[str]:
    """Return for each chunk the letters of its highlight, which may have several chunks.

    Consecutive chunks with the same date or location, and the same id, are of one highlight.
    """
    joined: list[str] = []
    for _, run in groupby(versions, key=_make_highlight_key):
        chunks = [version.chunk for version in run]
        joined += ["".join(extract_letters(chunk.content) for chunk in chunks)] * len(chunks)
    return joined


def _make_highlight_key(version: _Version) -> tuple[object, ...]:
    date = version.chunk.highlighted_at
    is_known = date is not None or version.place.locations is not None
    return (version.highlight_id, version.place, date, None if is_known else version.number)


def _contains(whole: str, version: _Version, place: _Place) -> bool:
    """Return whether the letters of a highlight contain those of each paragraph of another.

    A note is a paragraph of its own, so it may have been extended as well. A highlight that was
    extended to the previous page must begin or end like the longer one, because the pages alone do
    not show that the two overlap.
    """
    paragraphs = [extract_letters(text) for text in version.chunk.content.split("\n\n")]
    has_locations = version.place.locations and place.locations
    if not has_locations and version.place.page != place.page:
        letters = "".join(paragraphs)
        return whole.startswith(letters) or whole.endswith(letters)
    return all(paragraph in whole for paragraph in paragraphs)


def _find_buckets(place: _Place) -> Iterator[object]:
    """Yield the buckets that a place touches. Places without a common bucket are not compared."""
    if place.locations:
        first, last = place.locations
        yield from range(first // _BUCKET_SIZE, last // _BUCKET_SIZE + 1)[:_MAX_BUCKETS]
    if place.page is not None:  # highlights on adjacent pages may overlap
        yield from (("page", page) for page in (place.page, place.page + 1))
    elif place.other is not None:
        yield place.other


def _may_overlap(one: _Place, other: _Place) -> bool:
    """Return whether two highlights may overlap. Without comparable places, they do not."""
    if one.locations and other.locations:
        return one.locations[0] <= other.locations[1] and other.locations[0] <= one.locations[1]
    if one.page is None or other.page is None:
        return one.other is not None and one.other == other.other
    return abs(one.page - other.page) <= 1


def _build_entries(
    new: Sequence[_Version],
    pairs: Mapping[int, _Version],
    superseded: set[int],
    *,
    adds_only: bool,
) -> Iterator[_Entry]:
    """Yield the incoming chunks that are stored. Those that are stored already keep their ids."""
    for version in new:
        if former := pairs.get(version.number):
            chunk = replace(
                version.chunk,
                chunk_id=former.chunk.chunk_id,
                kept=former.chunk.kept if adds_only else None,
            )
            yield _Entry(chunk, version.number, former.number)
        elif version.number not in superseded:
            yield _Entry(replace(version.chunk, kept=adds_only or None), version.number)


def _adopt(chunk: Chunk, incoming: ChunkedSource, stored: StoredHighlights) -> Chunk:
    """Return a stored chunk with what its source says now. It keeps its own tags and link."""
    source = incoming.source
    fields: dict[str, Any] = {name: getattr(source, name) for name in SOURCE_FIELDS}
    if chunk.readwise_url != stored.readwise_url:
        fields["readwise_url"] = chunk.readwise_url
    own_tags = get_own_tags(chunk, stored.tags)
    return apply_source_fields(
        replace(chunk, **fields | {"own_tags": own_tags}), source, incoming.origin_values
    )


def _sort_by_place(
    kept: list[_Entry],
    new: list[_Entry],
    old_versions: Sequence[_Version],
    new_versions: Sequence[_Version],
) -> list[_Entry]:
    """Merge the entries of two sources, each of which stays in its own reading order."""
    old_keys, new_keys = _make_keys(old_versions), _make_keys(new_versions)
    keyed = [(old_keys[entry.stored_index or 0], entry) for entry in kept]
    keyed += [(new_keys[entry.incoming_index or 0], entry) for entry in new]
    return [entry for _, entry in sorted(keyed, key=lambda item: item[0])]


def _make_keys(versions: Iterable[_Version]) -> list[tuple[int, int, float]]:
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


def _choose_ids(entries: Sequence[_Entry], taken: set[str]) -> None:
    """Give each new chunk an id that no other chunk has, in place."""
    for entry in entries:
        if entry.stored_index is None:
            base = re.sub(r"(-[0-9a-f]{12})-[0-9]+$", r"\1", entry.chunk.chunk_id)
            candidates = (f"{base}-{number}" for number in count(2))
            ids = chain([entry.chunk.chunk_id, base], candidates)
            chunk_id = next(candidate for candidate in ids if candidate not in taken)
            taken.add(chunk_id)
            entry.chunk = replace(entry.chunk, chunk_id=chunk_id)


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
    """Return the number of characters between two chunks, or None if they are no neighbours.

    The beginning of the text, with index -1, is the neighbour of the first chunk.
    """
    if index is None or before is None or index != before + 1:
        return None
    return chunks[index].start - (chunks[before].end if before >= 0 else 0)
