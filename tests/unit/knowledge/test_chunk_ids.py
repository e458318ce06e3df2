"""Chunk ids and the source ids in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.ids import safe_id
from shared.knowledge.chunk import parse_source_id, split_source
from shared.knowledge.source import Section, Source
from shared.text.spans import Span

NAMES = st.text(min_size=1).filter(str.strip)


@given(NAMES, st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=12))
def test_a_chunk_id_contains_its_source_id(name: str, texts: list[str]) -> None:
    source = Source(safe_id(name), "T", sections=tuple(map(Section, texts)))
    chunks = split_source(source, [[Span(0, 1)]] * len(texts))
    assert {parse_source_id(chunk.chunk_id) for chunk in chunks} == {source.source_id}


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
    assert parse_source_id(chunk_id) == expected


def restored_ids(*exported: str | None) -> list[str]:
    """Return the ids of chunks with the same text that were exported with these ids."""
    sections = tuple(Section("a", start=0, chunk_id=chunk_id) for chunk_id in exported)
    source = Source("s", "T", sections=sections)
    return [chunk.chunk_id for chunk in split_source(source, [[Span(0, 1)]] * len(exported))]


def test_an_exported_id_of_the_same_text_stays() -> None:
    [own] = restored_ids(None)
    assert restored_ids(f"{own}-2", own, f"{own}-7") == [f"{own}-2", own, f"{own}-7"]


def test_an_exported_id_of_another_text_is_ignored() -> None:
    [own] = restored_ids(None)
    for other in ("s-0123456789ab", f"t{own}", f"{own}-x", "", f"{own}-2\n"):
        assert restored_ids(other) == [own]


def test_no_two_chunks_have_the_same_id() -> None:
    [own] = restored_ids(None)
    assert restored_ids(own, own, f"{own}-2", None) == [own, f"{own}-2", f"{own}-3", f"{own}-4"]
