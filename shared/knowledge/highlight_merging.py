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
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from shared.knowledge.chunk import Kept
from shared.knowledge.overrides import apply_source_fields, get_own_tags
from shared.knowledge.source import SECTION_SEPARATOR, SOURCE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from shared.knowledge.chunk import Chunk
    from shared.knowledge.chunked_source import ChunkedSource
    from shared.knowledge.source import Source

_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
"""A location, or a first and a last one."""
_BUCKET_SIZE: Final = 50
"""Highlights are compared with those in the same bucket of this many locations."""
_MAX_BUCKETS: Final = 20
"""The maximum number of buckets of one highlight. Longer highlights occur only in damaged files."""
_MAX_COMPARED: Final = 200
"""A highlight is compared with at most this many in a bucket, so that merging takes linear time."""
_WORD: Final = re.compile(
    r"(?:(?<!\w)[-+\u2212](?=\d))?"
    r"(?:[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+)"
)
"""A word, a number with its sign, or a character of Chinese or Japanese."""
_MIN_DIVIDED: Final = 200
"""A chunk with fewer characters is the last one of its highlight."""


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
        words: The words of its highlight, which may have several chunks.
    """

    chunk: Chunk
    highlight_id: str | None
    place: _Place
    number: int
    words: str = ""


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
    former = [_adopt(chunk, incoming, stored) for chunk in stored.chunks]
    new = _list_versions(incoming.stored_chunks, source)
    old = _list_versions(former, source)
    pairs = _pair_same_texts(new, old)
    paired = {version.number for version in pairs.values()}
    unpaired = [version for version in old if version.number not in paired]
    highlight_ids = {version.highlight_id for version in new} - {None}
    replaced = {version.number for version in unpaired if version.highlight_id in highlight_ids}
    contained = _find_contained(unpaired, new, loses_ties=True)
    remaining = [v for v in unpaired if v.number not in replaced | contained]
    superseded: set[int] = set()
    if source.adds_only:
        removed = {
            version.number
            for version in remaining
            if version.highlight_id in source.deleted_highlights
            and version.chunk.kept is not Kept.RESTORED
        }
        others = [version for version in old if version.number not in replaced | removed]
        superseded = _find_contained(new, others, loses_ties=False)
    else:
        removed = {v.number for v in remaining if v.highlight_id and not v.chunk.kept}
        remaining = [version for version in remaining if version.chunk.kept]
    kept = [version for version in remaining if version.number not in removed]
    entries = [_Entry(version.chunk, stored_index=version.number) for version in kept]
    entries += _build_entries(new, pairs, superseded, adds_only=source.adds_only)
    # A log that says nothing new leaves the order as it is.
    has_new = not source.adds_only or any(entry.stored_index is None for entry in entries)
    entries = _sort_as_read(entries)
    if has_new:
        entries = _sort_by_place(entries, old, new)
    _choose_ids(entries, {chunk.chunk_id for chunk in former} | incoming.forgotten_ids)
    return MergedHighlights(
        _place_chunks(entries, incoming.stored_chunks, former),
        frozenset(former[index].chunk_id for index in removed),
        len(kept),
    )


def extract_words(text: str) -> str:
    """Return the words of a text for comparison, each between spaces; without words, the text.

    A part of a text thus is a part of its words, but `ire` is no part of `the entire fleet`. A sign
    before a number counts. Each character of a script without spaces is a word.
    """
    folded = unicodedata.normalize("NFC", text).casefold()
    return f" {' '.join(_WORD.findall(folded)) or text} "


def _list_versions(chunks: Sequence[Chunk], source: Source) -> list[_Version]:
    versions = [
        _Version(
            chunk,
            chunk.readwise_url if chunk.readwise_url != source.readwise_url else None,
            _parse_place(chunk),
            index,
        )
        for index, chunk in enumerate(chunks)
    ]
    return [
        version._replace(words=words)
        for version, words in zip(versions, _join_words(versions), strict=True)
    ]


def _parse_place(chunk: Chunk) -> _Place:
    match = _RANGE.fullmatch(chunk.location or "")
    if match is None:
        return _Place(None, chunk.page, chunk.location)
    first = int(match[1])
    return _Place((first, max(first, int(match[2] or 0))), chunk.page, None)


def _pair_same_texts(new: Sequence[_Version], old: Sequence[_Version]) -> dict[int, _Version]:
    """Pair incoming with stored chunks of the same text, by the index of the incoming chunk.

    Of several with this text, those with the same id are paired first, then those at one place.
    """
    by_text: dict[str, list[_Version]] = defaultdict(list)
    for version in old:
        by_text[version.chunk.content].append(version)
    candidates = [
        (_compare_identity(version, other), version.number, other)
        for version in new
        for other in by_text.get(version.chunk.content, [])[:_MAX_COMPARED]
        if not _are_distinct(version, other)
    ]
    pairs: dict[int, _Version] = {}
    paired: set[int] = set()
    for _, number, other in sorted(candidates, key=lambda candidate: candidate[:2]):
        if number not in pairs and other.number not in paired:
            pairs[number] = other
            paired.add(other.number)
    return pairs


def _are_distinct(one: _Version, other: _Version) -> bool:
    """Return whether two chunks belong to different highlights by their ids."""
    ids = {one.highlight_id, other.highlight_id}
    return len(ids) == 2 and None not in ids  # noqa: PLR2004 - two chunks


def _compare_identity(one: _Version, other: _Version) -> tuple[bool, ...]:
    """Return a sort key by which the chunks that are most likely the same come first."""
    return (
        one.highlight_id != other.highlight_id,
        one.place != other.place,
        not _may_overlap(one.place, other.place),
        one.chunk.chunk_id != other.chunk.chunk_id,
    )


def _find_contained(
    versions: Sequence[_Version], others: Sequence[_Version], *, loses_ties: bool
) -> set[int]:
    """Return the numbers of chunks that a longer highlight at their place contains.

    Args:
        versions: Chunks of one source.
        others: Chunks of the other source.
        loses_ties: Whether a chunk is dropped if the other highlight has the same words.
    """
    by_bucket: dict[object, list[_Version]] = defaultdict(list)
    for other in others if versions else ():
        for bucket in _find_buckets(other.place):
            by_bucket[bucket].append(other)
    contained: set[int] = set()
    for version in versions:
        nearby = chain.from_iterable(
            by_bucket.get(bucket, [])[:_MAX_COMPARED] for bucket in _find_buckets(version.place)
        )
        needed = len(version.words) + (not loses_ties)
        if any(
            len(other.words) >= needed
            and not _are_distinct(version, other)
            and _may_overlap(version.place, other.place)
            and _contains(other, version)
            for other in nearby
        ):
            contained.add(version.number)
    return contained


def _join_words(versions: Sequence[_Version]) -> list[str]:
    """Return for each chunk the words of its highlight, which may have several chunks.

    Consecutive chunks of one id, place and date are of one highlight, unless they are too short to
    be divided.
    """
    texts: list[str] = []
    highlights: list[int] = []  # the index of each chunk's text
    former: _Version | None = None
    for version in versions:
        overlap = 0
        if former is None or not _continues(former, version):
            texts.append("")
        else:
            overlap = max(0, former.chunk.end - version.chunk.start)
        texts[-1] += version.chunk.content[overlap:]
        highlights.append(len(texts) - 1)
        former = version
    words = [extract_words(text) for text in texts]
    return [words[index] for index in highlights]


def _continues(version: _Version, other: _Version) -> bool:
    """Return whether the next chunk is of the same highlight."""
    is_same = (
        version.highlight_id == other.highlight_id
        and version.place == other.place
        and version.chunk.highlighted_at == other.chunk.highlighted_at
    )
    return is_same and len(version.chunk.content) >= _MIN_DIVIDED


def _contains(longer: _Version, version: _Version) -> bool:
    """Return whether the words of a highlight contain those of each paragraph of another.

    A note is a paragraph of its own, so it may have been extended as well. A highlight that was
    extended to the previous page must begin or end like the longer one, because the pages alone do
    not show that the two overlap.
    """
    paragraphs = [extract_words(text) for text in version.chunk.content.split("\n\n")]
    has_locations = version.place.locations and longer.place.locations
    if not has_locations and version.place.page != longer.place.page:
        words = extract_words(version.chunk.content)
        return longer.words.startswith(words) or longer.words.endswith(words)
    return all(paragraph in longer.words for paragraph in paragraphs)


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
        is_superseded = version.number in superseded
        if former := pairs.get(version.number):
            chunk = former.chunk if is_superseded else _update(former, version)
            if not adds_only:
                chunk = replace(version.chunk, chunk_id=former.chunk.chunk_id)
            yield _Entry(chunk, version.number, former.number)
        elif not is_superseded:
            yield _Entry(
                replace(version.chunk, kept=Kept.ADDED if adds_only else None), version.number
            )


def _update(former: _Version, version: _Version) -> Chunk:
    """Return an incoming chunk as the new state of a stored one with the same text.

    The place stays as it was first stored, unless the highlight was extended, and so does what the
    incoming chunk does not know.
    """
    is_extended = len(version.words) > len(former.words)
    has_place = former.place.page is not None or former.chunk.location is not None
    place = ("page", "chapter", "location") if has_place and not is_extended else ()
    names = ("highlighted_at", "highlight_url", "chapter", "kept")
    unknown = [name for name in names if getattr(version.chunk, name) is None]
    stays = {name: getattr(former.chunk, name) for name in (*place, *unknown)}
    return replace(version.chunk, chunk_id=former.chunk.chunk_id, **stays)


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


def _sort_as_read(entries: Sequence[_Entry]) -> list[_Entry]:
    """Sort the entries as they are stored, and new ones between those that are around them.

    Of stored and new ones between the same two, those that are stored come first.

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
    entries: Sequence[_Entry], old: Sequence[_Version], new: Sequence[_Version]
) -> list[_Entry]:
    """Merge the entries of two sources, each of which stays in its own reading order."""
    old_keys, new_keys = _make_keys(old), _make_keys(new)

    def get_key(entry: _Entry) -> tuple[int, int, float]:
        if entry.incoming_index is not None:
            return new_keys[entry.incoming_index]
        return old_keys[entry.stored_index or 0]

    return sorted(entries, key=get_key)


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
