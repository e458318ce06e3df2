"""Merging what a Kindle appended to its clippings: repeated highlights, and notes about them."""

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

_BUCKET: Final = 50
"""Highlights are compared with those in the same stretch of this many locations."""
_MAX_BUCKETS: Final = 20
_MAX_COMPARED: Final = 200
"""The highlights in a stretch with which another one is compared, so that time is linear."""


def make_sections(annotations: Sequence[Annotation]) -> list[Section]:
    """Return the sections of a book's highlights and notes, in reading order.

    Of a highlight that was repeated, extended or shortened, the longest one stands. A note is
    joined to the highlight at its location.
    """
    highlights = _Highlights()
    order = {id(item): index for index, item in enumerate(annotations)}
    longest_first = sorted(annotations, key=lambda item: len(item.text), reverse=True)
    for annotation in longest_first:
        if annotation.kind is not AnnotationKind.NOTE:
            highlights.add(annotation, order[id(annotation)])
    notes: dict[int, list[Annotation]] = defaultdict(list)
    alone: list[tuple[int, Annotation]] = []
    for index, note in enumerate(annotations):
        if note.kind is AnnotationKind.NOTE:
            target = highlights.target_of(note, index)
            if target is None:
                alone.append((index, note))
            else:
                notes[target].append(note)
    alone = _drop_former_versions(alone)
    kept = [(index, item, notes[index]) for index, item in highlights.kept.items()]
    entries = kept + [(index, note, []) for index, note in alone]
    entries.sort(key=lambda entry: _reading_order(entry[1].position, entry[0]))
    return [make_section(item, _keep_latest(joined)) for _, item, joined in entries]


class _Highlights:
    """The highlights of a book, without those that are a part of another one."""

    def __init__(self) -> None:
        self.kept: dict[int, Annotation] = {}
        """By the place in the file."""
        self._buckets: dict[object, list[int]] = defaultdict(list)
        self._letters: dict[int, str] = {}

    def add(self, highlight: Annotation, index: int) -> None:
        """Add a highlight, unless one at the same place contains its text.

        Longer ones must be added first.
        """
        letters = _letters(highlight.text)
        for other in self._iterate_near(highlight.position):
            longer = self.kept[other]
            if letters in self._letters[other] and _may_overlap(
                longer.position, highlight.position
            ):
                position = _merge_positions(longer.position, highlight.position)
                self.kept[other] = replace(longer, position=position)
                return
        self.kept[index] = highlight
        self._letters[index] = letters
        for bucket in _buckets(highlight.position):
            self._buckets[bucket].append(index)

    def target_of(self, note: Annotation, index: int) -> int | None:
        """Return the highlight that a note is about: where it ends, else the nearest in the file.

        A note has the location at which its highlight ends.
        """
        start = note.position.start
        near = [
            other
            for other in self._iterate_near(note.position)
            if _may_overlap(self.kept[other].position, note.position)
            and (start is not None or note.position.page == self.kept[other].position.page)
        ]
        if not near or (start is None and note.position.page is None):
            return None
        return min(
            near,
            key=lambda other: (
                abs((self.kept[other].position.end or 0) - (start or 0)),
                abs(other - index),
            ),
        )

    def _iterate_near(self, position: Position) -> Iterator[int]:
        indexes: set[int] = set()
        for bucket in _buckets(position):
            for index in self._buckets.get(bucket, [])[:_MAX_COMPARED]:
                if index not in indexes:
                    indexes.add(index)
                    yield index


def _buckets(position: Position) -> list[object]:
    """Return the stretches of the book that a position touches."""
    if position.start is not None:
        first = position.start // _BUCKET
        last = max(first, (position.end or 0) // _BUCKET)
        return list(range(first, min(last, first + _MAX_BUCKETS) + 1))
    if position.page is not None:
        return [("page", position.page + offset) for offset in (-1, 0, 1)]
    return [("numeral", position.numeral)]


def _may_overlap(one: Position, other: Position) -> bool:
    """Return whether two positions may have a place in common.

    A page is the one on which a highlight begins. A highlight that was extended to the left may
    begin on the page before.
    """
    if one.start is None or other.start is None:
        return one.start is other.start and abs((one.page or 0) - (other.page or 0)) <= 1
    return one.start <= (other.end or other.start) and other.start <= (one.end or one.start)


def _merge_positions(one: Position, other: Position) -> Position:
    if one.start is None or other.start is None:
        return one
    ends = [end for end in (one.end, other.end) if end is not None]
    return replace(one, start=min(one.start, other.start), end=max(ends, default=None))


def _letters(text: str) -> str:
    """Return the letters and digits of a text, by which highlights are compared."""
    return "".join(re.findall(r"\w+", normalise(text))) or text


def _keep_latest(notes: Sequence[Annotation]) -> list[Annotation]:
    """Return the notes about one highlight, without former versions of a later one."""
    latest: dict[str, Annotation] = {}
    for note in reversed(notes):
        letters = _letters(note.text)
        if not any(letters in later for later in islice(latest, _MAX_COMPARED)):
            latest[letters] = note
    return list(reversed(latest.values()))


def _drop_former_versions(
    notes: Sequence[tuple[int, Annotation]],
) -> list[tuple[int, Annotation]]:
    at_place: dict[Position, list[tuple[int, Annotation]]] = defaultdict(list)
    for index, note in notes:
        at_place[note.position].append((index, note))
    kept = {id(note) for group in at_place.values() for note in _keep_latest([n for _, n in group])}
    return [(index, note) for index, note in notes if id(note) in kept]


def _reading_order(position: Position, index: int) -> tuple[bool, int, int, int]:
    """Return a sort key: by location, else by page; front matter comes first."""
    is_unplaced = position.start is None and position.page is None and position.numeral is None
    return is_unplaced, position.start or 0, position.page or 0, index
