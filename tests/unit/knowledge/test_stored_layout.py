"""The stored layout of sources and chunks stays the same.

The fingerprints below are stored in users' knowledge bases. If you change one on purpose, raise
`LAYOUT` in `shared/knowledge/chunk_repository.py`: every base is then written and indexed again.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.index.facets import Kind, make_named_facet
from shared.knowledge.chunk_repository import UNDATED, to_chunk
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.source import Section, Source
from shared.text.spans import Span
from shared.writer.chunk_documents import build_new_document, compute_fingerprint
from shared.writer.chunked_source import ChunkedSource, build_source_document
from shared.writer.source_chunks import split_source

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
INGESTED_AT = datetime(2026, 2, 1, 12, tzinfo=UTC)
FULL_SOURCE = Source(
    source_id="readwise-7",
    title="Bread at Home",
    author="Ann Baker",
    origin="kindle",
    category="books",
    tags=("baking", "rye"),
    readwise_url="https://readwise.io/7",
    source_url="https://example.com/bread",
    sections=(
        Section(
            "Salt slows yeast.",
            tags=("salt",),
            readwise_url="https://readwise.io/7/1",
            highlight_url="https://example.com/bread#1",
            highlighted_at=NOON,
        ),
        Section("Rye keeps.", written_at=NOON),
    ),
)
BARE_SOURCE = Source("file-note", "Note", sections=(Section("Words."),))


def split_into_chunks(source: Source) -> ChunkedSource:
    """Return a source with one chunk for each section."""
    spans = [[Span(0, len(section.text))] for section in source.sections]
    return ChunkedSource(source, split_source(source, spans))


@pytest.mark.parametrize(
    ("source", "expected_fingerprints", "content_hash"),
    [
        (
            FULL_SOURCE,
            [
                "78897eef1ff30687d046e05096850b4ca276f2f8c021e8af9ed9dd21e4945882",
                "9fafc54fbd9915a70292f7bbd37d9b81c2b5babdd5242f6f68288c3e79edcf0d",
            ],
            "0349f5c9a17f95d6037a8fe1f483a592d166d85e7eee48ba079d068248c25080",
        ),
        (
            BARE_SOURCE,
            ["46d4edff5bc4568868e0af6271bfbfebabddc8893c2f8b1c656353aaf575b52e"],
            "ce3003da498f447fcde4331a2ae623db43d0251f7140d8503c5cefbe64905b0b",
        ),
    ],
    ids=["full", "bare"],
)
def test_fingerprints_do_not_change(
    source: Source, expected_fingerprints: list[str], content_hash: str
) -> None:
    chunked_source = split_into_chunks(source)
    fingerprints = [compute_fingerprint(chunk) for chunk in chunked_source.chunks]
    assert fingerprints == expected_fingerprints
    assert chunked_source.content_hash == content_hash


@pytest.mark.parametrize(
    ("source", "dated_at"),
    [(FULL_SOURCE, NOON), (BARE_SOURCE, UNDATED)],
    ids=["highlighted or written", "without a date of its own"],
)
def test_a_stored_chunk_is_read_back_and_dated(source: Source, dated_at: datetime) -> None:
    for chunk in split_into_chunks(source).chunks:
        document = build_new_document(chunk, INGESTED_AT)
        assert document["dated_at"] == dated_at
        assert to_chunk(chunk.chunk_id, document) == chunk


def test_facets_keep_their_stored_order() -> None:
    """With another order, the next indexing would rewrite every chunk."""
    card = KnowledgeCard("Salt.")
    chunk = replace(
        split_into_chunks(FULL_SOURCE).chunks[0],
        cluster_id=("c1",),
        knowledge_card=card,
        dated_at=NOON,
    )
    kinds = " ".join(facet.kind.value for facet in chunk.facets)
    assert kinds == "source title category tag tag tag cluster author card month position"


def test_a_language_changes_fingerprints_and_adds_a_facet() -> None:
    bare_source = split_into_chunks(BARE_SOURCE)
    english_source = split_into_chunks(replace(BARE_SOURCE, language="En"))
    assert bare_source.content_hash != english_source.content_hash
    bare_chunk, english_chunk = bare_source.chunks[0], english_source.chunks[0]
    assert compute_fingerprint(bare_chunk) != compute_fingerprint(english_chunk)
    added_facets = english_chunk.facets.items() - bare_chunk.facets.items()
    assert added_facets == {(make_named_facet(Kind.LANGUAGE, "en"), "En")}
    assert "language" not in build_new_document(bare_chunk, NOON)
    assert build_new_document(english_chunk, NOON)["language"] == "En"


@pytest.mark.parametrize(("name", "value"), [("links_to", ["file-other"]), ("markdown", True)])
def test_some_fields_change_the_hash_of_a_source_but_not_its_chunks(name: str, value: Any) -> None:
    bare_source = split_into_chunks(BARE_SOURCE)
    fuller_source = split_into_chunks(replace(BARE_SOURCE, **{name: value}))
    assert fuller_source.content_hash != bare_source.content_hash
    assert fuller_source.chunks == bare_source.chunks
    assert build_source_document(fuller_source, NOON)[name] == value
    assert name not in build_source_document(bare_source, NOON)
