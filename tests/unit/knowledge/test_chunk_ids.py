"""Chunk ids and the source ids in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.ids import safe_id
from shared.knowledge.chunk import chunks_of, source_id_of
from shared.knowledge.source import Section, Source
from shared.text.spans import Span

NAMES = st.text(min_size=1).filter(str.strip)


@given(NAMES, st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=12))
def test_a_chunk_id_contains_its_source_id(name: str, texts: list[str]) -> None:
    source = Source(safe_id(name), "T", sections=tuple(map(Section, texts)))
    chunks = chunks_of(source, [[Span(0, 1)]] * len(texts))
    assert {source.source_id} == {source_id_of(chunk.chunk_id) for chunk in chunks}


@pytest.mark.parametrize(
    ("chunk_id", "expected"),
    [
        ("book-0123456789ab", "book"),
        ("book-0123456789ab-12", "book"),
        ("a-446655440000-123456789012", "a-446655440000"),
        ("a-446655440000-123456789012-2", "a-446655440000"),
        ("made elsewhere", "made elsewhere"),
    ],
)
def test_only_generated_suffixes_are_removed(chunk_id: str, expected: str) -> None:
    assert source_id_of(chunk_id) == expected
