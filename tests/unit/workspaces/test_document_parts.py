"""A workspace's document is stored in parts, which fit Firestore's limit and are read unchanged."""

import random
from collections import Counter
from typing import Final

import pytest

from shared.index.bm25 import Totals, unpack
from shared.workspaces.model import (
    DocumentPart,
    ParsedPassage,
    build_parts,
    collect_postings,
    content_id,
)

MIB: Final = 1024 * 1024


def make_passages(count: int, words: int, end_of_text: str = "\n") -> list[ParsedPassage]:
    """Make passages of incompressible words whose original text differs from the cleaned one."""
    generator = random.Random(6)  # noqa: S311 - no secret
    passages = []
    end = 0
    for position in range(1, count + 1):
        counts = Counter(f"{generator.getrandbits(64):x}" for _ in range(words))
        clean = " ".join(counts)
        start, end = end, end + len(clean)
        passages.append(
            ParsedPassage(
                content_id(clean), position, start, end, f"{clean}{end_of_text}", clean, counts
            )
        )
    return passages


@pytest.mark.requirement("001-D5")
@pytest.mark.parametrize(
    ("words", "end_of_text"), [(60, "\n"), (3, "\u200b" * 1_000)], ids=["words", "original text"]
)
def test_each_part_fits_a_firestore_document(words: int, end_of_text: str) -> None:
    parts = build_parts(make_passages(3_000, words, end_of_text))
    assert len(parts) > 3
    assert max(len(part.to_bytes()) for part in parts) < MIB


@pytest.mark.requirement("001-D5")
def test_parts_contain_every_span_and_every_word() -> None:
    passages = make_passages(600, 60)
    parts = [DocumentPart.from_bytes(part.to_bytes()) for part in build_parts(passages)]
    assert len(parts) > 1

    spans = {passage_id: span for part in parts for passage_id, span in part.iterate_spans()}
    assert spans.keys() == {passage.passage_id for passage in passages}

    for passage in passages:
        span = spans[passage.passage_id]
        assert (span.position, span.start, span.end, span.text) == (
            passage.position,
            passage.start,
            passage.end,
            passage.text,
        )

    last_passage = passages[-1]
    word = next(iter(last_passage.counts))
    postings, totals = collect_postings(parts, [word, "nowhere"])
    assert postings.keys() == {word}

    assert unpack(postings[word].entries[last_passage.passage_id]) == (1, 60)
    assert totals == Totals(documents=600, length=600 * 60)


def test_a_passage_of_several_documents_counts_once() -> None:
    passages = make_passages(3, 5)
    _, totals = collect_postings([*build_parts(passages), *build_parts(passages[:2])], [])
    assert totals == Totals(documents=3, length=15)
