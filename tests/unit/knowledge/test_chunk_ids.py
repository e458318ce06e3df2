"""A chunk's id is its source's id, and a hash of its text and of how often that came before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.ids import MAX_LENGTH, IdKind, make_id, make_passage_id, parse_source_id
from shared.knowledge.source import Section, Source
from shared.text.spans import Span
from shared.writer.source_chunks import split_source

WHOLE_TEXT = [Span(0, 1)]
"""The spans of a section whose text of one character is a single chunk."""
SOURCE_ID = make_id(IdKind.FILE, "vault/a.md")
TEXTS = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=12)


@given(st.text(), TEXTS)
def test_a_chunk_id_contains_its_source_id(name: str, texts: list[str]) -> None:
    source = Source(make_id(IdKind.FILE, name), "T", sections=tuple(map(Section, texts)))
    chunks = split_source(source, [WHOLE_TEXT] * len(texts))
    assert {parse_source_id(chunk.chunk_id) for chunk in chunks} == {source.source_id}
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)
    assert max(len(chunk.chunk_id) for chunk in chunks) < MAX_LENGTH


@pytest.mark.parametrize("name", [SOURCE_ID, "baking", "made elsewhere", "x" * 24, ""])
def test_another_id_stays_as_it_is(name: str) -> None:
    assert parse_source_id(name) == name


def import_with_ids(*exported_ids: str | None) -> list[str]:
    """Return the ids of chunks with the same text that were exported with these ids."""
    sections = tuple(Section("a", start=0, chunk_id=chunk_id) for chunk_id in exported_ids)
    source = Source(SOURCE_ID, "T", sections=sections)
    return [chunk.chunk_id for chunk in split_source(source, [WHOLE_TEXT] * len(exported_ids))]


def test_exported_ids_of_the_same_text_stay_and_new_ones_differ() -> None:
    first, second, third, fourth = (make_passage_id(SOURCE_ID, "a", n) for n in range(1, 5))
    last = make_passage_id(SOURCE_ID, "a", 1_000)
    assert import_with_ids(second, first, last) == [second, first, last]
    assert import_with_ids(None, first) == [second, first]
    assert import_with_ids(first, first, second, None) == [first, third, second, fourth]


@pytest.mark.parametrize(
    "exported_id",
    [
        make_passage_id(SOURCE_ID, "b"),
        make_passage_id(make_id(IdKind.FILE, "vault/b.md"), "a"),
        make_passage_id(SOURCE_ID, "a") + "\n",
        "",
    ],
    ids=["another text", "another source", "line break", "empty"],
)
def test_an_exported_id_that_does_not_fit_is_replaced(exported_id: str) -> None:
    assert import_with_ids(exported_id) == [make_passage_id(SOURCE_ID, "a")]
