"""Merges repeated highlights in Kindle clippings, and joins notes to their highlights."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.fields import to_headline
from functions.jobs.ingest.readers.kindle.annotation import (
    Annotation,
    AnnotationKind,
    Position,
    make_section,
)
from functions.jobs.ingest.readers.locators import PARAGRAPH
from functions.jobs.ingest.readers.readwise.action_tags import (
    TaggedNote,
    group_parts,
    parse_note,
)
from shared.knowledge.highlight_versions import extract_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.knowledge.source import Section

_BUCKET_SIZE: Final = 50
"""Highlights are compared with those in the same bucket of this many locations."""
_MAX_BUCKETS: Final = 20
"""The maximum number of buckets of one highlight. Longer highlights occur only in damaged files."""
_MAX_COMPARED: Final = 200
"""An annotation is compared with at most this many highlights in a bucket, or notes about a
highlight, so that merging takes linear time."""


def make_sections(annotations: Sequence[Annotation]) -> list[Section]:
    """Return the sections of a book's highlights and notes, in reading order.

    If a highlight was repeated, extended or shortened, only its longest version is kept. A note is
    joined to the highlight at its location. Readwise's action tags are applied.
    """
    highlights = _Highlights()
    indexed = sorted(enumerate(annotations), key=lambda item: len(item[1].text), reverse=True)
    for index, annotation in indexed:  # longest first
        if annotation.kind is not AnnotationKind.NOTE:
            highlights.add(annotation, index)
    notes: dict[int, list[Annotation]] = defaultdict(list)  # by the index of their highlight
    unattached: list[tuple[int, Annotation]] = []
    for index, note in enumerate(annotations):
        if note.kind is AnnotationKind.NOTE:
            target = highlights.find_target(note, index)
            if target is None:
                unattached.append((index, note))
            else:
                notes[target].append(note)
    entries = [*highlights.by_index.items(), *_drop_superseded(unattached)]
    entries.sort(key=lambda entry: _reading_order_key(entry[1].position, entry[0]))
    tagged = [(item, _parse_notes(_keep_latest(notes.get(index, ())))) for index, item in entries]
    return list(_apply_action_tags([entry for entry in tagged if not entry[1].is_discarded]))


def _parse_notes(notes: Sequence[Annotation]) -> TaggedNote:
    """Return the notes about a highlight as one, whose action tags are separated."""
    texts = sorted((note.text for note in notes), key=lambda text: not text.startswith("."))
    return parse_note(PARAGRAPH.join(texts), ())


def _apply_action_tags(items: Sequence[tuple[Annotation, TaggedNote]]) -> Iterator[Section]:
    """Yield the passages. A heading with a further note stays one, because the note would be lost.

    Kindles know no chapters, so readers who use Readwise mark them with its tags.
    """
    chapter: str | None = None
    for group in group_parts(note.part for _, note in items):
        first, note = items[group[0]]
        parts = [items[index] for index in group]
        if note.is_heading:
            chapter = to_headline(first.text)
        if note.text or not note.is_heading:
            whole = replace(
                first,
                text=" … ".join(part.text for part, _ in parts),
                position=_merge_positions(first.position, parts[-1][0].position),
                chapter=None if _is_last(first.position) else chapter,
            )
            texts = [note.text for _, note in parts if note.text]
            tags = dict.fromkeys(tag for _, note in parts for tag in note.tags)
            yield make_section(whole, texts, tuple(tags))


class _Highlights:
    """The highlights of a book, without those whose text is contained in another."""

    def __init__(self) -> None:
        self.by_index: dict[int, Annotation] = {}
        """The highlights by their indexes in the file."""
        self._indexes_of_versions: dict[int, list[int]] = {}
        self._indexes_by_bucket: dict[object, list[int]] = defaultdict(list)
        self._words_by_index: dict[int, str] = {}

    def add(self, highlight: Annotation, index: int) -> None:
        """Add a highlight, unless a longer one at the same position contains its text.

        Longer highlights must be added first.
        """
        words = extract_words(highlight.text)
        for other_index in self._iterate_near(highlight.position):
            longer = self.by_index[other_index]
            if _may_overlap(longer.position, highlight.position) and _is_part(
                words, self._words_by_index[other_index], highlight.position, longer.position
            ):
                position = _merge_positions(longer.position, highlight.position)
                self.by_index[other_index] = replace(longer, position=position)
                self._indexes_of_versions[other_index].append(index)
                return
        self.by_index[index] = highlight
        self._indexes_of_versions[index] = [index]
        self._words_by_index[index] = words
        for bucket in _find_buckets(highlight.position):
            self._indexes_by_bucket[bucket].append(index)

    def find_target(self, note: Annotation, index: int) -> int | None:
        """Return the index of the highlight that a note is about, or None.

        Kindle stores a note at the location, or on the page, where its highlight ends. If several
        highlights overlap the note, the one that ends nearest to the note is chosen, and among
        equally near ones, the nearest in the file. There, all versions of a highlight count,
        because a file that was exported twice has two. A note without a location belongs to a
        highlight on its page.
        """
        location, page = note.position.first_location, note.position.page
        if location is None and page is None:
            return None
        candidates: list[tuple[int, tuple[int, bool], int]] = []
        for other_index in self._iterate_near(note.position):
            position = self.by_index[other_index].position
            is_on_page = location is not None or (position.page or 0) <= (page or 0) <= position.end
            if is_on_page and _may_overlap(position, note.position):
                distance = abs(position.end - note.position.end)
                versions = self._indexes_of_versions[other_index]
                # A note follows its highlight: of two as near, the one before it counts.
                nearest = min((abs(version - index), version > index) for version in versions)
                candidates.append((distance, nearest, other_index))
        return min(candidates)[-1] if candidates else None

    def _iterate_near(self, position: Position) -> Iterator[int]:
        """Yield the indexes of the highlights in the buckets of a position."""
        indexes: set[int] = set()
        for bucket in _find_buckets(position):
            for index in self._indexes_by_bucket.get(bucket, [])[:_MAX_COMPARED]:
                if index not in indexes:
                    indexes.add(index)
                    yield index


def _find_buckets(position: Position) -> list[object]:
    """Return the buckets that a position touches."""
    if position.first_location is not None:
        first = position.first_location // _BUCKET_SIZE
        last = max(first, (position.last_location or 0) // _BUCKET_SIZE)
        return list(range(first, min(last + 1, first + _MAX_BUCKETS)))
    if position.page is not None:  # adjacent pages, as in `_may_overlap`
        first, last = position.page - 1, position.end + 2
        return [("page", page) for page in range(first, min(last, first + _MAX_BUCKETS))]
    return [("place", position.place)]


def _may_overlap(one: Position, other: Position) -> bool:
    """Return whether two positions may overlap.

    A highlight that was extended may begin on the previous page, or end on the next.
    """
    start, other_start = one.first_location, other.first_location
    if start is None or other_start is None:
        has_location = start is not None or other_start is not None
        first, other_first = one.page or 0, other.page or 0
        return not has_location and first <= other.end + 1 and other_first <= one.end + 1
    return start <= other.end and other_start <= one.end


def _is_part(part: str, whole: str, position: Position, whole_position: Position) -> bool:
    """Return whether a text is an earlier or later version of a longer text at its position.

    The less precise the positions are, the more similar the texts must be.
    """
    if _is_unplaced(position):
        return part == whole
    if position.first_location is None and position.page != whole_position.page:
        return whole.startswith(part) or whole.endswith(part)
    return part in whole


def _merge_positions(one: Position, other: Position) -> Position:
    if one.first_location is None or other.first_location is None:
        return one
    first = min(one.first_location, other.first_location)
    ends = [end for end in (one.last_location, other.last_location) if end is not None]
    return replace(one, first_location=first, last_location=max(ends, default=None))


def _keep_latest(notes: Sequence[Annotation]) -> list[Annotation]:
    """Return the notes about one highlight that no later note contains."""
    latest: dict[str, Annotation] = {}
    for note in reversed(notes):
        words = extract_words(note.text)
        if not any(words in later for later in islice(latest, _MAX_COMPARED)):
            latest[words] = note
    return list(reversed(latest.values()))


def _drop_superseded(notes: Sequence[tuple[int, Annotation]]) -> list[tuple[int, Annotation]]:
    """Return the notes that no later note at the same position contains."""
    by_position: dict[Position, list[Annotation]] = defaultdict(list)
    for _, note in notes:
        by_position[note.position].append(note)
    kept_ids = {id(note) for group in by_position.values() for note in _keep_latest(group)}
    return [(index, note) for index, note in notes if id(note) in kept_ids]


def _reading_order_key(position: Position, index: int) -> tuple[bool, int, int, int]:
    """Return a sort key: location, then page, then index in the file.

    Roman page numbers come first. Annotations with a place in words, or without any, come last.
    """
    return _is_last(position), position.first_location or 0, position.page or 0, index


def _is_last(position: Position) -> bool:
    return _is_unplaced(position) or any(map(str.isdigit, position.place or ""))


def _is_unplaced(position: Position) -> bool:
    """Return whether a position says nothing."""
    places = (position.first_location, position.page, position.place)
    return all(place is None for place in places)
