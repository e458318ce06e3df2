"""Compares the highlights of two versions of a source: which are the same, which contain others."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.knowledge.chunk import Chunk
    from shared.knowledge.source import Source

_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
"""A location, or a first and a last one."""
_BUCKET_SIZE: Final = 50
"""Highlights are compared with those in the same bucket of this many locations."""
_MAX_BUCKETS: Final = 20
"""The maximum number of buckets of one highlight. Longer highlights occur only in damaged files."""
_MAX_COMPARED: Final = 200
"""A highlight is compared with at most this many in a bucket, so that merging takes linear time. A
longer version beyond them is stored beside it."""
_WORD: Final = re.compile(
    r"(?:(?<!\w)[-+\u2212](?=\d))?"
    r"(?:[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+(?:\+\+|#)?)"
)
"""A word, which may end as `C++` and `C#`, a number with its sign, or a character of Chinese or
Japanese."""
_MIN_PHRASE: Final = 3
"""A highlight of fewer words may be a word that its reader collects, inside another highlight."""
_MIN_DIVIDED: Final = 100
"""A chunk with fewer characters is the last one of its highlight."""

_Bucket = tuple[str, int | str]


class BookPlace(NamedTuple):
    """A position in the original: first and last location, page, or a location in other words."""

    locations: tuple[int, int] | None
    page: int | None
    label: str | None


@dataclass(frozen=True, slots=True)
class Version:
    """A chunk with what it is compared by.

    Attributes:
        highlight_id: The id of its highlight; None if its origin gives none.
        index: Its index among the chunks of its source.
        words: The words of its highlight, which may have several chunks.
    """

    chunk: Chunk
    highlight_id: str | None
    place: BookPlace
    index: int
    words: str


def extract_words(text: str) -> str:
    """Return the words of a text for comparison, each between spaces; without words, the text.

    So a part of a text is a part of its words, but `ire` is not part of `the entire fleet`. A sign
    before a number counts. Each character of a script without spaces is a word.
    """
    folded = unicodedata.normalize("NFC", text).casefold()
    return f" {' '.join(_WORD.findall(folded)) or text} "


def list_versions(chunks: Sequence[Chunk], source: Source) -> list[Version]:
    """Return the chunks with what they are compared by.

    A highlight's id is its own address in Readwise. One that it shares with its source is none.
    """
    bare_versions = [
        Version(
            chunk,
            chunk.readwise_url if chunk.readwise_url != source.readwise_url else None,
            _parse_place(chunk),
            index,
            words="",
        )
        for index, chunk in enumerate(chunks)
    ]
    return [
        replace(version, words=words)
        for version, words in zip(bare_versions, _join_words(bare_versions), strict=True)
    ]


def _parse_place(chunk: Chunk) -> BookPlace:
    match = _RANGE.fullmatch(chunk.location or "")
    if match is None:
        return BookPlace(None, chunk.page, chunk.location)
    first = int(match[1])
    return BookPlace((first, max(first, int(match[2] or 0))), chunk.page, None)


def compute_overlap(words: str, other: str) -> float:
    """Return how much of the shorter of two texts is in the other, from 0 to 1.

    That is the share of its pairs of adjacent words, or 1 if the other begins or ends with it.

    Args:
        words: The words of a text, from `extract_words`.
        other: Those of the other.
    """
    shorter, longer = sorted((words, other), key=len)
    if longer.startswith(shorter) or longer.endswith(shorter):
        return 1.0
    pairs, others = (set(pairwise(text.split())) for text in (shorter, longer))
    return len(pairs & others) / max(1, len(pairs))


def pair_same_texts(new: Sequence[Version], old: Sequence[Version]) -> dict[int, Version]:
    """Pair incoming with stored chunks of the same text, by the index of the incoming chunk.

    Of several with this text, those with the same id are paired first, then those at one place.
    """
    by_text: dict[str, list[Version]] = defaultdict(list)
    for version in old:
        by_text[version.chunk.content].append(version)
    candidates = [
        (_compare_identity(version, other), version.index, other)
        for version in new
        for other in by_text.get(version.chunk.content, [])[:_MAX_COMPARED]
        if not _are_distinct(version, other)
    ]
    pairs: dict[int, Version] = {}
    paired: set[int] = set()
    for _, index, other in sorted(candidates, key=lambda candidate: candidate[:2]):
        if index not in pairs and other.index not in paired:
            pairs[index] = other
            paired.add(other.index)
    return pairs


def _are_distinct(one: Version, other: Version) -> bool:
    """Return whether two chunks belong to different highlights by their ids."""
    has_ids = one.highlight_id is not None and other.highlight_id is not None
    return has_ids and one.highlight_id != other.highlight_id


def _compare_identity(one: Version, other: Version) -> tuple[bool, ...]:
    """Return a sort key by which the chunks that are most likely the same come first."""
    return (
        one.highlight_id != other.highlight_id,
        one.place != other.place,
        not _may_overlap(one.place, other.place),
        one.chunk.chunk_id != other.chunk.chunk_id,
    )


def find_contained(
    versions: Sequence[Version], others: Sequence[Version], *, loses_ties: bool
) -> set[int]:
    """Return the indexes of chunks that a longer highlight at their place contains.

    Args:
        loses_ties: Whether a chunk is dropped if the other highlight has the same words.
    """
    if not versions:
        return set()
    by_bucket: dict[_Bucket, list[Version]] = defaultdict(list)
    for other in others:
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
            contained.add(version.index)
    return contained


def _join_words(versions: Sequence[Version]) -> list[str]:
    """Return for each chunk the words of its highlight, which may have several chunks.

    Consecutive chunks with the same id, place and date belong to one highlight, unless they are too
    short to be divided.
    """
    texts: list[str] = []
    text_indexes: list[int] = []  # for each chunk, the index of its text
    previous: Version | None = None
    for version in versions:
        if previous is None or not _continues(previous, version):
            texts.append(version.chunk.content)
        else:
            overlap = previous.chunk.end - version.chunk.start
            texts[-1] += " " if overlap < 0 else ""
            texts[-1] += version.chunk.content[max(0, overlap) :]
        text_indexes.append(len(texts) - 1)
        previous = version
    words = [extract_words(text) for text in texts]
    return [words[index] for index in text_indexes]


def _continues(previous: Version, version: Version) -> bool:
    """Return whether a chunk belongs to the highlight of the chunk before it."""
    is_same = (
        previous.highlight_id == version.highlight_id
        and previous.place == version.place
        and previous.chunk.highlighted_at == version.chunk.highlighted_at
    )
    return is_same and len(previous.chunk.content) >= _MIN_DIVIDED


def _contains(longer: Version, version: Version) -> bool:
    """Return whether a highlight is a chunk that the reader extended.

    A word or two in the middle of a sentence are a highlight of their own, as readers collect
    words. On different pages, and without locations, it is not certain that the two overlap. In
    both cases, the longer one must begin or end as the chunk or its highlight does. A note is a
    paragraph of its own, so it may have been extended as well. It must follow the highlight: a note
    of one word may be a word of the longer highlight by chance.
    """
    paragraphs = [extract_words(text) for text in version.chunk.content.split("\n\n")]
    end = 0
    for paragraph in paragraphs:
        start = longer.words.find(paragraph, end)
        if start < 0:
            return False
        end = start + len(paragraph) - 1  # two paragraphs share the space between them
    has_locations = version.place.locations and longer.place.locations
    is_near = has_locations or version.place.page == longer.place.page
    if is_near and len(version.words.split()) >= _MIN_PHRASE:
        return True
    return longer.words.startswith((version.words, paragraphs[0])) or longer.words.endswith(
        (version.words, paragraphs[-1])
    )


def _find_buckets(place: BookPlace) -> Iterator[_Bucket]:
    """Yield the buckets that a place touches. Places without a common bucket are not compared."""
    if place.locations:
        first, last = place.locations
        numbers = range(first // _BUCKET_SIZE, last // _BUCKET_SIZE + 1)[:_MAX_BUCKETS]
        yield from (("location", number) for number in numbers)
    if place.page is not None:  # so that pages 4 and 5 have bucket 5 in common: they may overlap
        yield from (("page", page) for page in (place.page, place.page + 1))
    elif place.label is not None:
        yield ("label", place.label)


def _may_overlap(one: BookPlace, other: BookPlace) -> bool:
    """Return whether two highlights may overlap. Without comparable places, they do not."""
    if one.locations and other.locations:
        return one.locations[0] <= other.locations[1] and other.locations[0] <= one.locations[1]
    if one.page is None or other.page is None:
        return one.label is not None and one.label == other.label
    return abs(one.page - other.page) <= 1
