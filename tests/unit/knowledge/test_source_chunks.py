"""A source is split into chunks, the passages that are stored and searched."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.ids import make_passage_id
from shared.knowledge.chunk import Chunk, PassageKind
from shared.knowledge.chunk_repository import to_chunk
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.source import DateMeaning, Locator, Section, Source
from shared.knowledge.views import format_place
from shared.text.spans import Span
from shared.writer.chunk_documents import build_owned_fields
from shared.writer.source_chunks import split_source

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
SOURCE = Source(
    source_id="walden",
    title="Walden",
    author="Henry David Thoreau",
    origin="kindle",
    category="books",
    tags=("nature", "pond"),
    readwise_url="https://readwise.io/bookreview/1",
    source_url="https://example.com/walden",
    sections=(
        Section(
            "Simplify, simplify.",
            tags=("pond", "life"),
            readwise_url="https://readwise.io/open/10",
            highlight_url="https://example.com/walden#10",
            highlighted_at=NOON,
        ),
        Section("Time is but the stream I go a-fishing in."),
    ),
)
SECTION_TEXTS = st.lists(st.text(min_size=1, max_size=12), max_size=5)


def split_by_section(source: Source) -> list[Chunk]:
    """Return one chunk for each section."""
    return split_source(source, [[Span(0, len(section.text))] for section in source.sections])


def make_source(*texts: str) -> Source:
    return replace(SOURCE, sections=tuple(Section(text) for text in texts))


def test_a_chunk_repeats_the_fields_of_its_source() -> None:
    expected = Chunk(
        chunk_id=make_passage_id("walden", "Simplify, simplify."),
        source_id="walden",
        start=0,
        end=19,
        position=1,
        total=2,
        title="Walden",
        author="Henry David Thoreau",
        origin="kindle",
        category="books",
        tags=("nature", "pond", "life"),
        content="Simplify, simplify.",
        readwise_url="https://readwise.io/open/10",
        source_url="https://example.com/walden",
        highlight_url="https://example.com/walden#10",
        highlighted_at=NOON,
        dated_at=NOON,
        date_meaning=DateMeaning.HIGHLIGHTED,
    )

    first, second = split_by_section(SOURCE)
    assert first == expected
    assert first.embedding_text == "Walden Simplify, simplify."
    assert second.readwise_url == "https://readwise.io/bookreview/1"
    assert split_by_section(make_source()) == []


def test_a_dated_file_is_no_highlight() -> None:
    dated = Section("Simplify.", highlighted_at=NOON, written_at=NOON)
    marked = Section("Time.", highlighted_at=NOON)
    [file, highlight] = split_by_section(Source("s", "S", origin="file", sections=(dated, marked)))
    assert [file.kind, highlight.kind] == [PassageKind.TEXT, PassageKind.HIGHLIGHT]


def test_positions_count_through_all_sections() -> None:
    chunks = split_source(SOURCE, [[Span(0, 9), Span(10, 19)], [Span(0, 4)]])
    assert [chunk.chunk_info for chunk in chunks] == ["1/3", "2/3", "3/3"]
    assert [chunk.content for chunk in chunks] == ["Simplify,", "simplify.", "Time"]


@given(SECTION_TEXTS, st.data())
def test_a_chunk_is_an_exact_slice_of_its_source(texts: list[str], data: st.DataObject) -> None:
    source = make_source(*texts)
    spans = []
    for text in texts:
        start = data.draw(st.integers(0, len(text) - 1))
        spans.append([Span(start, data.draw(st.integers(start + 1, len(text))))])
    chunks = split_source(source, spans)

    assert [source.text[chunk.start : chunk.end] for chunk in chunks] == [
        text[span.start : span.end] for text, [span] in zip(texts, spans, strict=True)
    ]
    assert all(chunk.content == source.text[chunk.start : chunk.end] for chunk in chunks)


@given(SECTION_TEXTS)
def test_no_two_chunks_share_an_id(texts: list[str]) -> None:
    chunks = split_by_section(make_source(*texts, *texts))
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)


def test_an_id_stays_when_other_texts_of_the_source_change() -> None:
    _, other = split_by_section(make_source("Same.", "Other."))
    assert other.chunk_id == split_by_section(make_source("New.", "Other."))[1].chunk_id


def test_the_content_hash_changes_with_the_embedded_text_only() -> None:
    chunk = split_by_section(SOURCE)[0]
    variants = [chunk, replace(chunk, content="Other."), replace(chunk, title="Other")]
    assert len({variant.content_hash for variant in variants}) == 3
    moved_chunk = replace(chunk, start=7, end=26, position=3, total=9, tags=(), author=None)
    assert chunk.content_hash == moved_chunk.content_hash


def test_spans_for_other_sections_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        split_source(SOURCE, [[Span(0, 4)]])


def make_paged_chunk(url: str | None = None) -> Chunk:
    """Return a chunk that begins on page 2 and continues on pages 3 and 5; page 4 is blank."""
    pages = [(0, 1), (5, 2), (10, 3), (14, 5), (20, 6)]
    locators = tuple(
        (start, Locator(page, url=url and f"{url}#page={page}")) for start, page in pages
    )
    source = replace(SOURCE, sections=(Section("x" * 25, locators=locators),))
    [chunk] = split_source(source, [[Span(6, 20)]])
    return chunk


@pytest.mark.parametrize(("offset", "page"), [(0, 2), (3, 2), (4, 3), (7, 3), (8, 5), (13, 5)])
def test_a_chunk_knows_the_page_of_each_of_its_words(offset: int, page: int) -> None:
    chunk = make_paged_chunk("https://example.com/a.pdf").cite(offset)
    assert (chunk.page, chunk.highlight_url) == (page, f"https://example.com/a.pdf#page={page}")
    assert make_paged_chunk().cite(offset).highlight_url is None


def test_the_starts_of_further_pages_are_stored() -> None:
    source = replace(SOURCE, sections=(Section("One page.", locators=((0, Locator(7)),)),))
    [chunk] = split_by_section(source)
    assert chunk.page_starts is None
    assert chunk.cite(5) is chunk
    assert "page_starts" not in build_owned_fields(chunk)
    paged_chunk = make_paged_chunk()
    stored_chunk = to_chunk(paged_chunk.chunk_id, build_owned_fields(paged_chunk))
    assert stored_chunk.page_starts == (4, 8, 8)


def test_the_label_of_a_page_is_not_cited_for_the_next_page() -> None:
    chunk = replace(make_paged_chunk(), location="page xii")
    assert chunk.page is not None
    assert chunk.cite(0).location == "page xii"
    assert chunk.cite(len(chunk.content)).location is None
    assert format_place(chunk.page, chunk.location) == f"page xii ({chunk.page} of the file)"
    assert format_place(3, None) == "page 3"
    assert format_place(None, "150") == "location 150"


TEXT = "Simplify, simplify."


@pytest.mark.parametrize(
    ("card", "is_shown"),
    [
        (KnowledgeCard(TEXT), False),
        (KnowledgeCard(TEXT.upper().rstrip(".")), False),
        (KnowledgeCard(TEXT.replace(" ", "")), False),
        (KnowledgeCard("Simplify."), True),
        (KnowledgeCard(TEXT, ("Own less.",)), True),
    ],
)
def test_a_card_that_repeats_the_text_is_not_shown(card: KnowledgeCard, *, is_shown: bool) -> None:
    chunk = replace(split_by_section(SOURCE)[0], knowledge_card=card)
    assert chunk.shown_card == (card if is_shown else None)
    assert chunk.summary == (card.summary if is_shown else None)
