"""A workspace's document is stored in parts, which fit Firestore's limit and are read unchanged."""

import random
from collections import Counter
from dataclasses import replace
from typing import Final

import pytest

from shared.workspaces.model import IndexProfile, WorkspacePassage, content_id
from shared.workspaces.parts import (
    MAX_PASSAGES_PER_PART,
    build_parts,
    decode_part,
    decode_vectors,
    encode_part,
    encode_vectors,
)

MIB: Final = 1024 * 1024
PROFILE: Final = IndexProfile(model="words", dimension=4, analysis=1)


def make_passages(count: int, words: int, end_of_text: str = "\n") -> list[WorkspacePassage]:
    """Make passages of incompressible words."""
    generator = random.Random(6)  # noqa: S311 - no secret
    passages = []
    end = 0
    for position in range(1, count + 1):
        counts = Counter(f"{generator.getrandbits(64):x}" for _ in range(words))
        clean = " ".join(counts)
        start, end = end, end + len(clean)
        passage_id, text = content_id(clean), f"{clean}{end_of_text}"
        passages.append(WorkspacePassage(passage_id, position, start, end, text, counts, words))
    return passages


@pytest.mark.requirement("001-D5")
@pytest.mark.parametrize(
    ("words", "end_of_text", "dimension"),
    [(800, "\n", 768), (3, "\u200b" * 20_000, 768), (60, "\n", 8_000)],
    ids=["words", "text", "vectors"],
)
def test_each_part_fits_a_firestore_document(words: int, end_of_text: str, dimension: int) -> None:
    profile = replace(PROFILE, dimension=dimension)
    parts = build_parts(make_passages(300, words, end_of_text), profile)
    assert len(parts) > 300 / MAX_PASSAGES_PER_PART
    for part in parts:
        fields = encode_part(part)
        ids = sum(map(len, fields["ids"]))
        assert ids + len(fields["data"]) + len(part.passages) * dimension * 2 < MIB


@pytest.mark.requirement("001-D5")
def test_parts_are_read_as_they_were_stored() -> None:
    passages = make_passages(2 * MAX_PASSAGES_PER_PART + 1, 60)
    parts = [decode_part(encode_part(part), PROFILE) for part in build_parts(passages, PROFILE)]
    assert [len(part.passages) for part in parts] == [MAX_PASSAGES_PER_PART] * 2 + [1]
    assert [passage for part in parts for passage in part.passages] == passages
    assert not any(part.vectors for part in parts)


def test_vectors_of_another_model_or_dimension_are_missing() -> None:
    vectors = [bytes([number] * 8) for number in range(2)]
    fields = {"ids": ["a", "b"], **encode_vectors(vectors, PROFILE)}
    assert decode_vectors(fields, PROFILE) == vectors
    for profile in (replace(PROFILE, model="other"), replace(PROFILE, dimension=3)):
        assert not decode_vectors(fields, profile)
