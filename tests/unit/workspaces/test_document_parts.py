"""The contents of materials are kept in parts that fit a document, and say what was put in."""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

from shared.index.bm25 import unpack
from shared.workspaces.model import Cut, Part, id_of, parts_of, words_of

MIB: Final = 1024 * 1024


def cuts(passages: int, words: int) -> list[Cut]:
    """Passages of words that do not compress, each spelled otherwise than its cleaned text."""
    chance = random.Random(6)  # noqa: S311 - no secret
    made, end = [], 0
    for position in range(1, passages + 1):
        counts = Counter(f"{chance.getrandbits(64):x}" for _ in range(words))
        clean = " ".join(counts)
        start, end = end, end + len(clean)
        made.append(Cut(id_of(clean), position, start, end, f"{clean}\n", clean, counts))
    return made


def test_no_part_is_larger_than_a_document_may_be() -> None:
    parts = parts_of(cuts(3_000, 60))
    assert len(parts) > 3
    assert max(len(part.to_bytes()) for part in parts) < MIB


def test_parts_hold_every_place_and_every_word() -> None:
    made = cuts(600, 60)
    parts = [Part.from_bytes(part.to_bytes()) for part in parts_of(made)]
    assert len(parts) > 1
    places = {name: place for part in parts for name, place in part.places()}
    assert {each.passage_id: (each.position, each.start, each.end, each.text) for each in made} == {
        name: (place.position, place.start, place.end, place.text) for name, place in places.items()
    }
    word = next(iter(made[-1].counts))
    postings, totals = words_of(parts, [word, "nowhere"])
    assert {word} == postings.keys()
    assert (1, 60) == unpack(postings[word].entries[made[-1].passage_id])
    assert (600, 600 * 60) == (totals.documents, totals.length)


def test_a_passage_of_several_materials_counts_once() -> None:
    made = cuts(3, 5)
    _, totals = words_of([*parts_of(made), *parts_of(made[:2])], [])
    assert (3, 15) == (totals.documents, totals.length)
