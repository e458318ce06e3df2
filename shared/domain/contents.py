"""What materials hold: where each passage stands in them, and which words are in it.

It is kept in parts, each in a document of its own, so that the words of materials are searched at
the price of a read or a few, not of one for each passage.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.index.bm25 import Postings, Totals, pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

PART_BYTES: Final = 900_000
"""Of a part before it is compressed: text that does not compress fits a document of 1 MiB too."""
_PLACE_BYTES: Final = 80
"""What the place of a passage takes at most, but for its text and terms."""
_POSTING_BYTES: Final = 20
"""What a term takes at most in each passage, beside its letters."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A passage where it first stands in its materials.

    Attributes:
        passage_id: Which passage.
        position: Its place among the passages of its materials, from 1.
        start: Where it starts in the materials, in code points.
        end: Where it ends.
        text: What stands there: `materials[start:end]`.
        cleaned: The passage's own text.
        counts: How often it holds each term.
    """

    passage_id: str
    position: int
    start: int
    end: int
    text: str
    cleaned: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a passage stands.

    Attributes:
        position: Its place among the passages of its materials, from 1.
        start: Where it starts in the materials, in code points.
        end: Where it ends.
        text: What stands there; None where it is the passage's own text.
    """

    position: int
    start: int
    end: int
    text: str | None


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the passages of materials, in the order of the text, each where it first stands.

    Attributes:
        ids: The passage at each place.
        spans: The position of each, and where it starts and ends.
        lengths: How many terms each holds, repeats included.
        texts: What stands at a place, by its number from 0, where it is not the passage's own text.
        terms: Term to the numbers of the places that hold it, each followed by how often.
    """

    ids: list[str]
    spans: list[tuple[int, int, int]]
    lengths: list[int]
    texts: dict[int, str]
    terms: dict[str, list[int]]

    def to_bytes(self) -> bytes:
        """How it is kept: compressed JSON."""
        kept = [self.ids, self.spans, self.lengths, list(self.texts.items()), self.terms]
        return zlib.compress(json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode())

    @classmethod
    def from_bytes(cls, kept: bytes) -> Part:
        """Read what `to_bytes` wrote."""
        ids, spans, lengths, texts, terms = json.loads(zlib.decompress(kept))
        return cls(ids, [(at, start, end) for at, start, end in spans], lengths, dict(texts), terms)

    def places(self) -> Iterator[tuple[str, Place]]:
        """Each passage and where it stands."""
        for number, (name, span) in enumerate(zip(self.ids, self.spans, strict=True)):
            yield name, Place(*span, self.texts.get(number))


def parts_of(cuts: Sequence[Cut]) -> list[Part]:
    """Put the passages of materials into parts, each small enough for a document."""
    parts: list[Part] = []
    size = PART_BYTES
    for cut in cuts:
        more = _bytes_of(cut)
        if size + more > PART_BYTES:
            parts.append(Part([], [], [], {}, {}))
            size = 0
        size += more
        _add(cut, parts[-1])
    return parts


def words_of(parts: Iterable[Part], query: Iterable[str]) -> tuple[dict[str, Postings], Totals]:
    """The passages that hold each of these terms, and the totals of all passages.

    A passage that stands in several materials counts once.
    """
    lengths: dict[str, int] = {}
    entries: dict[str, dict[str, int]] = {term: {} for term in query}
    for part in parts:
        lengths.update(zip(part.ids, part.lengths, strict=True))
        for term, found in entries.items():
            numbers = iter(part.terms.get(term, ()))
            for number, tf in zip(numbers, numbers, strict=True):
                found[part.ids[number]] = pack(tf, part.lengths[number])
    postings = {term: Postings(len(found), found) for term, found in entries.items() if found}
    return postings, Totals(len(lengths), sum(lengths.values()))


def refusal(parts: Iterable[Part], passage_id: str) -> str:
    """What to say where the embedding model refuses a passage: where it stands."""
    places = (place for part in parts for name, place in part.places() if name == passage_id)
    place = next(places)
    return f"characters {place.start} to {place.end} are refused by the embedding model"


def _add(cut: Cut, part: Part) -> None:
    number = len(part.ids)
    part.ids.append(cut.passage_id)
    part.spans.append((cut.position, cut.start, cut.end))
    part.lengths.append(sum(cut.counts.values()))
    if cut.text != cut.cleaned:
        part.texts[number] = cut.text
    for term, tf in cut.counts.items():
        part.terms.setdefault(term, []).extend((number, tf))


def _bytes_of(cut: Cut) -> int:
    """At most what a passage takes, as JSON."""
    text = 0 if cut.text == cut.cleaned else len(json.dumps(cut.text, ensure_ascii=False).encode())
    terms = sum(len(term.encode()) + _POSTING_BYTES for term in cut.counts)
    return _PLACE_BYTES + text + terms
