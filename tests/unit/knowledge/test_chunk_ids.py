"""A chunk's id is its source's id, a hash of its text, and a number if the text is repeated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.ids import safe_id
from shared.knowledge.chunk import parse_source_id, split_source
from shared.knowledge.source import Section, Source
from shared.text.spans import Span

WHOLE_TEXT = [Span(0, 1)]
"""The spans of a section whose text of one character is a single chunk."""
SOURCE_NAMES = st.text(min_size=1).filter(str.strip)


@given(SOURCE_NAMES, st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=12))
def test_a_chunk_id_contains_its_source_id(name: str, texts: list[str]) -> None:
    source = Source(safe_id(name), "T", sections=tuple(map(Section, texts)))
    chunks = split_source(source, [WHOLE_TEXT] * len(texts))
    assert {parse_source_id(chunk.chunk_id) for chunk in chunks} == {source.source_id}


@pytest.mark.parametrize(
    ("chunk_id", "expected"),
    [
        ("book-0123456789ab", "book"),
        ("book-0123456789ab-12", "book"),
        # A source id like a hash
        ("a-446655440000-123456789012", "a-446655440000"),
        ("a-446655440000-123456789012-2", "a-446655440000"),
        ("made elsewhere", "made elsewhere"),
    ],
)
def test_only_generated_suffixes_are_removed(chunk_id: str, expected: str) -> None:
    assert parse_source_id(chunk_id) == expected


def import_with_ids(*exported_ids: str | None) -> list[str]:
    """Return the ids of chunks with the same text that were exported with these ids."""
    sections = tuple(Section("a", start=0, chunk_id=chunk_id) for chunk_id in exported_ids)
    source = Source("s", "T", sections=sections)
    return [chunk.chunk_id for chunk in split_source(source, [WHOLE_TEXT] * len(exported_ids))]


def test_exported_ids_of_the_same_text_stay_and_new_ones_differ() -> None:
    [generated_id] = import_with_ids(None)
    exported_ids = [f"{generated_id}-2", generated_id, f"{generated_id}-7"]
    assert import_with_ids(*exported_ids) == exported_ids
    assert import_with_ids(None, generated_id) == [f"{generated_id}-2", generated_id]
    assert import_with_ids(generated_id, generated_id, f"{generated_id}-2", None) == [
        generated_id,
        f"{generated_id}-3",
        f"{generated_id}-2",
        f"{generated_id}-4",
    ]


@pytest.mark.parametrize(
    "id_template",
    ["s-0123456789ab", "t{}", "{}-x", "", "{}-2\n"],
    ids=["another text", "another source", "no number", "empty", "line break"],
)
def test_an_exported_id_that_does_not_fit_is_replaced(id_template: str) -> None:
    [generated_id] = import_with_ids(None)
    assert import_with_ids(id_template.format(generated_id)) == [generated_id]
