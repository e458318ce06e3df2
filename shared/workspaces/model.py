"""Materials that a user brought to a task, and their contents in parts.

What materials hold: where each passage stands in them, and which words are in it.

It is kept in parts, each in a document of its own, so that the words of materials are searched at
the price of a read or a few, not of one for each passage.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from shared.index.bm25 import Postings, Totals, pack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from shared.index.facets import Facet

_ID_DIGITS: Final = 32
"""Hexadecimal digits of an id: 128 bits, which nobody meets twice by chance."""


class Status(StrEnum):
    """How far the taking in of materials has come."""

    ARRIVING = "arriving"
    """A call is storing them, or died while it did: bringing them again goes on from there."""
    WAITING = "waiting"
    """All their text is stored, and a job makes the vectors that are missing."""
    READY = "ready"
    """They can be searched."""
    FAILED = "failed"
    """A job could not embed them. Bringing them again tries anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What passages are made with: materials that were made otherwise cannot be searched.

    Attributes:
        model: The embedding model.
        dimension: The length of its vectors.
        analysis: The version of the terms, `shared.text.terms.ANALYSIS`.
    """

    model: str
    dimension: int
    analysis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """One text that was brought to a task.

    Attributes:
        document_id: A hash of the text.
        arrival: Names this time that they came: erased and brought again, they are others.
        status: How far it has come.
        making: What its passages are made with.
        passage_characters: What a passage of it may hold.
        cutting: The version of the cutting, `shared.text.passages.CUTTING`.
        characters: How long it is.
        passages: How many different passages it has.
        parts: In how many documents its contents are kept.
        brought_at: When it came.
        prepaid: Names a call that was paid for and not answered yet; None if there is none.
        reason: Why it failed.
        worked_until: Until when a call embeds what waits, at most: others need not too.
        next_at: When a job may go on with it; None before it waits.
        tries: How often a job failed at it since it last went well.
    """

    document_id: str
    arrival: str
    status: Status
    making: Making
    passage_characters: int
    cutting: int
    characters: int
    passages: int
    parts: int
    brought_at: datetime
    prepaid: str | None = None
    reason: str | None = None
    worked_until: datetime | None = None
    next_at: datetime | None = None
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage, whichever materials hold it: the same text is kept once.

    Attributes:
        passage_id: A hash of its text.
        text: Cleaned: white space is one space, and control characters are gone.
        dated_at: When the latest materials that hold it were brought; None while that is unknown.
    """

    passage_id: str
    text: str
    dated_at: datetime | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.passage_id

    @property
    def indexed_text(self) -> str:
        """What is indexed by its words."""
        return self.text

    @property
    def facets(self) -> Mapping[Facet, str]:
        """None: where to look is said by materials, not by filters."""
        return {}


def id_of(text: str) -> str:
    """The id of materials, by their text, or of a passage, by its cleaned text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:_ID_DIGITS]


def materials_facet(material: Material) -> str:
    """The entry among a passage's `facets` that says which materials hold it, since they came."""
    return f"document:{material.document_id}.{material.arrival}"


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
