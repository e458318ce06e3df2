"""Highlights of several logs of a book are merged, and none is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.jobs.ingest.batches import chunk_source
from shared.knowledge.chunk import Chunk, Kept
from shared.knowledge.highlight_merging import MergedHighlights, StoredHighlights, merge_highlights
from shared.knowledge.highlight_versions import extract_words
from shared.knowledge.source import SECTION_SEPARATOR, Locator, Section, Source

BOOK_URL: Final = "https://readwise.io/bookreview/7"
NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)


def make_section(
    text: str,
    location: str | None = None,
    *,
    number: int | None = None,
    page: int | None = None,
    minute: int | None = None,
) -> Section:
    """Return a highlight, with a page in Readwise if it has a number."""
    return Section(
        text,
        readwise_url=f"https://readwise.io/open/{number}" if number is not None else None,
        highlighted_at=NOON + timedelta(minutes=minute) if minute is not None else None,
        locators=((0, Locator(page=page, location=location)),),
    )


def make_log(*sections: Section, deleted: Sequence[int] = ()) -> Source:
    """Return a book as a log of additions has it."""
    return Source(
        "readwise-7",
        "Tides",
        readwise_url=BOOK_URL,
        sections=sections,
        adds_only=True,
        deleted_highlights=frozenset(f"https://readwise.io/open/{number}" for number in deleted),
    )


def merge(source: Source, stored: Sequence[Chunk] = ()) -> MergedHighlights:
    """Merge a book into stored chunks of it."""
    return merge_highlights(chunk_source(source), StoredHighlights(stored, readwise_url=BOOK_URL))


def merge_all(*sources: Source) -> list[Chunk]:
    """Merge books one after another, and return the chunks."""
    chunks: list[Chunk] = []
    for source in sources:
        chunks = merge(source, chunks).chunks
    return chunks


def get_texts(chunks: Sequence[Chunk]) -> list[str]:
    return [chunk.content for chunk in chunks]


def test_a_log_adds_its_highlights_in_the_order_of_places() -> None:
    first = make_log(make_section("One.", "10"), make_section("Three.", "30-31"))
    second = make_log(make_section("Two.", "20"), make_section("Four.", "40"))
    assert get_texts(merge_all(first, second)) == ["One.", "Two.", "Three.", "Four."]
    assert get_texts(merge_all(second, first)) == ["One.", "Two.", "Three.", "Four."]
    assert merge(second, merge_all(first)).kept_count == 2


def test_highlights_without_a_place_are_sorted_by_date() -> None:
    note = Section("About the book.", tags=("book note",))
    first = make_log(note, make_section("Monday.", minute=1), make_section("Friday.", minute=5))
    second = make_log(make_section("Tuesday.", minute=2))
    merged = get_texts(merge_all(first, second))
    assert merged == ["About the book.", "Monday.", "Tuesday.", "Friday."]


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [("AB", "AC", "ABC"), ("ABD", "ACD", "ABCD"), ("AB", "CB", "ACB"), ("AB", "BAC", "ABC")],
)
def test_without_places_new_highlights_stay_between_their_neighbours(
    first: str, second: str, merged: str
) -> None:
    logs = [make_log(*map(make_section, log)) for log in (first, second)]
    assert get_texts(merge_all(*logs)) == list(merged)


def test_a_highlight_with_the_same_id_is_replaced() -> None:
    stored = merge_all(
        make_log(make_section("Olde.", "1", number=1), make_section("Ebb.", "2", number=2))
    )
    merged = merge(make_log(make_section("Old.", "1", number=1)), stored)
    assert get_texts(merged.chunks) == ["Old.", "Ebb."]
    assert merged.removed_ids == frozenset()


def test_two_highlights_of_the_same_text_keep_their_ids() -> None:
    stored = merge_all(make_log(make_section("Yes.", "10"), make_section("Yes.", "900")))
    merged = merge(make_log(make_section("Yes.", "900")), stored)
    assert merged.chunks == stored


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ire", "The entire fleet came home."),
        ("no", "The cannon fired."),
        ("Value is 5.", "The value is -5. Mind the sign."),
    ],
)
def test_letters_inside_other_words_are_no_earlier_version(one: str, other: str) -> None:
    logs = [make_log(make_section(one, "70")), make_log(make_section(other, "70-72"))]
    for order in (logs, logs[::-1]):
        assert set(get_texts(merge_all(*order))) == {one, other}


def test_the_longest_version_at_a_place_is_kept() -> None:
    short = make_log(make_section("The tide turns", "10-11"))
    long = make_log(make_section("When the tide turns, ships leave.", "9-12"))
    elsewhere = make_log(make_section("The tide", "500"))
    for logs in ([short, long, elsewhere], [long, elsewhere, short]):
        texts = get_texts(merge_all(*logs))
        assert texts == ["When the tide turns, ships leave.", "The tide"]


def test_a_word_inside_a_sentence_is_a_highlight_of_its_own() -> None:
    word = make_log(make_section("palimpsest", "10-11"))
    sentence = make_log(make_section("A city is a palimpsest of harbours.", "10-12"))
    for logs in ([word, sentence], [sentence, word]):
        assert len(get_texts(merge_all(*logs))) == 2


def test_an_extended_note_replaces_the_former_one() -> None:
    short = make_log(make_section("The tide turns.\n\nTrue", "10-11"))
    long = make_log(make_section("The tide turns.\n\nHow true!", "10-11"))
    for logs in ([short, long], [long, short]):
        assert get_texts(merge_all(*logs)) == ["The tide turns.\n\nHow true!"]


def test_a_note_that_the_longer_highlight_lacks_is_kept() -> None:
    noted = make_log(make_section("The sea has no end.\n\nNo", "10-12"))
    longer = make_log(make_section("The sea has no end, but it has shores.", "10-13"))
    kept = {"The sea has no end.\n\nNo", "The sea has no end, but it has shores."}
    for sources in ((noted, longer), (longer, noted)):
        assert set(get_texts(merge_all(*sources))) == kept


def test_a_long_highlight_is_replaced_by_its_extension() -> None:
    """Both are split into several passages."""
    words = [f"word{number}" for number in range(900)]
    short = make_log(make_section(" ".join(words[:700]), "10-40", minute=1))
    long = make_log(make_section(" ".join(words), "10-50", minute=2))
    expected = get_texts(merge_all(long))
    assert len(expected) > 1
    for logs in ([short, long], [long, short], [short, long, short]):
        assert get_texts(merge_all(*logs)) == expected


def test_a_highlight_named_as_deleted_is_removed_unless_restored() -> None:
    log = make_log(make_section("Ebb.", number=1), make_section("Flow.", number=2))
    stored = merge_all(log)
    merged = merge(make_log(deleted=[1]), stored)
    assert get_texts(merged.chunks) == ["Flow."]
    assert merged.removed_ids == {stored[0].chunk_id}
    assert merge(make_log(deleted=[3]), stored).chunks == stored
    restored = [replace(chunk, kept=Kept.RESTORED) for chunk in stored]
    assert merge(make_log(deleted=[1]), restored).chunks == restored


def test_a_whole_origin_keeps_what_it_did_not_bring() -> None:
    """It takes over what it has, and from then on removes it."""
    stored = merge_all(make_log(make_section("Ebb.", number=1), make_section("Flow.", number=2)))
    library = replace(make_log(make_section("Flow.", number=2)), adds_only=False)
    both = merge(library, stored).chunks
    assert [(chunk.content, chunk.kept) for chunk in both] == [
        ("Ebb.", Kept.ADDED),
        ("Flow.", None),
    ]
    emptier = replace(make_log(make_section("New.", number=3)), adds_only=False)
    merged = merge(emptier, both)
    assert get_texts(merged.chunks) == ["Ebb.", "New."]
    assert merged.removed_ids == {both[1].chunk_id}


WORDS: Final = st.lists(st.sampled_from(["tide", "ebb", "flow", "sea"]), min_size=1, max_size=4)
LOCATIONS: Final = st.none() | st.builds(
    lambda first, length: f"{first}-{first + length}", st.integers(1, 12), st.integers(0, 3)
)
SECTIONS: Final = st.builds(
    lambda words, location, number, page, minute: make_section(
        " ".join(words), location, number=number, page=page, minute=minute
    ),
    WORDS,
    LOCATIONS,
    st.none() | st.integers(1, 4),
    st.none() | st.integers(1, 3),
    st.none() | st.integers(0, 5),
)
LOGS: Final = st.lists(
    SECTIONS, min_size=1, max_size=6, unique_by=lambda section: section.readwise_url or object()
).map(lambda sections: make_log(*sections))


def get_highlight_ids(chunks: Sequence[Chunk]) -> set[str | None]:
    return {chunk.readwise_url for chunk in chunks} - {BOOK_URL}


@given(first=LOGS, second=LOGS)
def test_a_highlight_disappears_only_for_a_newer_version(first: Source, second: Source) -> None:
    stored = merge_all(first)
    merged = merge(second, stored).chunks
    letters = [extract_words(chunk.content) for chunk in merged]
    new_ids = get_highlight_ids(merge_all(second))
    for chunk in [*stored, *merge_all(second)]:
        is_contained = any(extract_words(chunk.content) in whole for whole in letters)
        assert is_contained or chunk.readwise_url in new_ids


@given(first=LOGS, second=LOGS)
def test_a_log_that_is_merged_again_changes_nothing(first: Source, second: Source) -> None:
    assert merge_all(first, first) == merge_all(first)
    assert merge_all(first, second, second) == merge_all(first, second)


@given(first=LOGS, second=LOGS)
def test_the_order_of_two_logs_does_not_matter(first: Source, second: Source) -> None:
    """It matters only for highlights of the same id, of which the later one is kept."""
    first_ids, second_ids = (get_highlight_ids(merge_all(log)) for log in (first, second))
    if first_ids.isdisjoint(second_ids):
        one, other = merge_all(first, second), merge_all(second, first)
        assert {extract_words(text) for text in get_texts(one)} == {
            extract_words(text) for text in get_texts(other)
        }


@given(first=LOGS, second=LOGS)
def test_chunks_are_slices_of_the_merged_text(first: Source, second: Source) -> None:
    chunks = merge_all(first, second)
    assert [chunk.position for chunk in chunks] == list(range(1, len(chunks) + 1))
    assert {chunk.total for chunk in chunks} == {len(chunks)}
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)
    text = SECTION_SEPARATOR.join(get_texts(chunks))  # each is a section of its own
    assert [text[chunk.start : chunk.end] for chunk in chunks] == get_texts(chunks)
