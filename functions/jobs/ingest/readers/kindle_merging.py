"""Merges repeated highlights in a Kindle's clippings, and joins notes to their highlights."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.kindle import (
    Annotation,
    AnnotationKind,
    Position,
    make_section,
    normalise,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.knowledge.source import Section

_BUCKET_SIZE: Final = 50
"""Highlights are compared with those in the same bucket of this many locations."""
_MAX_BUCKETS: Final = 20
"""The maximum number of buckets of one highlight. Only a damaged file has longer ones."""
_MAX_COMPARED: Final = 200
"""The maximum number of highlights of a bucket, or notes of a highlight, that are compared with
another one, so that time is linear."""


def make_sections(annotations: Sequence[Annotation]) -> list[Section]:
    """Return the sections of a book's highlights and notes, in reading order.

    Of a highlight that was repeated, extended or shortened, only the longest version is kept. A
    note is joined to the highlight at its location.
    """
    highlights = _Highlights()
    order = {id(item): index for index, item in enumerate(annotations)}
    longest_first = sorted(annotations, key=lambda item: len(item.text), reverse=True)
    for annotation in longest_first:
        if annotation.kind is not AnnotationKind.NOTE:
            highlights.add(annotation, order[id(annotation)])
    notes: dict[int, list[Annotation]] = defaultdict(list)
    unattached: list[tuple[int, Annotation]] = []
    for index, note in enumerate(annotations):
        if note.kind is AnnotationKind.NOTE:
            target = highlights.target_of(note, index)
            if target is None:
                unattached.append((index, note))
            else:
                notes[target].append(note)
    entries = [(index, item, notes[index]) for index, item in highlights.by_index.items()]
    entries += [(index, note, []) for index, note in _drop_superseded(unattached)]
    entries.sort(key=lambda entry: _reading_order_key(entry[1].position, entry[0]))
    return [make_section(item, _keep_latest(attached)) for _, item, attached in entries]


class _Highlights:
    """The highlights of a book, without those whose text is contained in another."""

    def __init__(self) -> None:
        self.by_index: dict[int, Annotation] = {}
        """By the index in the file."""
        self._indexes_by_bucket: dict[object, list[int]] = defaultdict(list)
        self._letters_by_index: dict[int, str] = {}

    def add(self, highlight: Annotation, index: int) -> None:
        """Add a highlight, unless one at the same position contains its text.

        Longer ones must be added first.
        """
        letters = _extract_letters(highlight.text)
        for other_index in self._iterate_near(highlight.position):
            longer = self.by_index[other_index]
            if _may_overlap(longer.position, highlight.position) and _is_part(
                letters, self._letters_by_index[other_index], highlight.position, longer.position
            ):
                position = _merge_positions(longer.position, highlight.position)
                self.by_index[other_index] = replace(longer, position=position)
                return
        self.by_index[index] = highlight
        self._letters_by_index[index] = letters
        for bucket in _find_buckets(highlight.position):
            self._indexes_by_bucket[bucket].append(index)

    def target_of(self, note: Annotation, index: int) -> int | None:
        """Return the index of the highlight that a note is about, or None.

        Kindle stores a note at the location where its highlight ends. Of the highlights that
        overlap it, the one that ends nearest is taken, and of several the nearest in the file. A
        note without a location is about a highlight on its page.
        """
        start, page = note.position.start, note.position.page
        if start is None and page is None:
            return None
        overlapping = [
            (
                abs((highlight.position.end or 0) - (start or 0)),
                abs(other_index - index),
                other_index,
            )
            for other_index in self._iterate_near(note.position)
            if _may_overlap((highlight := self.by_index[other_index]).position, note.position)
            and (start is not None or page == highlight.position.page)
        ]
        return min(overlapping)[-1] if overlapping else None

    def _iterate_near(self, position: Position) -> Iterator[int]:
        """Yield the indexes of the highlights in the buckets of a position."""
        indexes: set[int] = set()
        for bucket in _find_buckets(position):
            for index in self._indexes_by_bucket.get(bucket, [])[:_MAX_COMPARED]:
                if index not in indexes:
                    indexes.add(index)
                    yield index


def _find_buckets(position: Position) -> list[object]:
    """Return the buckets of the book that a position touches."""
    if position.start is not None:
        first = position.start // _BUCKET_SIZE
        last = max(first, (position.end or 0) // _BUCKET_SIZE)
        return list(range(first, min(last + 1, first + _MAX_BUCKETS)))
    if position.page is not None:  # adjacent pages, as in `_may_overlap`
        return [("page", position.page + offset) for offset in (-1, 0, 1)]
    return [("numeral", position.numeral)]


def _may_overlap(one: Position, other: Position) -> bool:
    """Return whether two positions may overlap.

    `page` is the page on which a highlight begins. A highlight that was extended backwards may
    begin on the previous page.
    """
    if one.start is None or other.start is None:
        has_location = one.start is not None or other.start is not None
        return not has_location and abs((one.page or 0) - (other.page or 0)) <= 1
    return one.start <= (other.end or other.start) and other.start <= (one.end or one.start)


def _is_part(part: str, whole: str, position: Position, whole_position: Position) -> bool:
    """Return whether a text is another version of a longer one that it may overlap.

    The less is known of their positions, the more alike the texts must be.
    """
    if position.start is None and position.page is None and position.numeral is None:
        return part == whole
    if position.start is None and position.page != whole_position.page:
        return whole.startswith(part) or whole.endswith(part)
    return part in whole


def _merge_positions(one: Position, other: Position) -> Position:
    if one.start is None or other.start is None:
        return one
    ends = [end for end in (one.end, other.end) if end is not None]
    return replace(one, start=min(one.start, other.start), end=max(ends, default=None))


def _extract_letters(text: str) -> str:
    """Return the letters and digits of a text, or the text if it has none, to compare texts."""
    return "".join(re.findall(r"\w+", normalise(text))) or text


def _keep_latest(notes: Sequence[Annotation]) -> list[Annotation]:
    """Return the notes about one highlight without those that a later one contains."""
    latest: dict[str, Annotation] = {}
    for note in reversed(notes):
        letters = _extract_letters(note.text)
        if not any(letters in later for later in islice(latest, _MAX_COMPARED)):
            latest[letters] = note
    return list(reversed(latest.values()))


def _drop_superseded(notes: Sequence[tuple[int, Annotation]]) -> list[tuple[int, Annotation]]:
    """Return the notes without those that a later one at the same position contains."""
    by_position: dict[Position, list[Annotation]] = defaultdict(list)
    for _, note in notes:
        by_position[note.position].append(note)
    kept_ids = {id(note) for group in by_position.values() for note in _keep_latest(group)}
    return [(index, note) for index, note in notes if id(note) in kept_ids]


def _reading_order_key(position: Position, index: int) -> tuple[bool, int, int, int]:
    """Return a sort key: location, then page, then index in the file.

    Roman page numbers come first, and annotations without any position last.
    """
    is_unplaced = position.start is None and position.page is None and position.numeral is None
    return is_unplaced, position.start or 0, position.page or 0, index
