"""Highlights of several logs of a book are merged, and none is lost."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.jobs.ingest.readers.readwise.export import derive_book_source_id
from shared.knowledge.chunk import Chunk, Kept
from shared.knowledge.highlight_versions import extract_words
from shared.knowledge.source import SECTION_SEPARATOR, Locator, Section, Source
from shared.writer.highlight_merging import MergedHighlights, StoredHighlights, merge_highlights
from tests.support.knowledge import chunk_source

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
        derive_book_source_id("7"),
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


def test_a_highlight_with_the_same_id_is_replaced_and_one_with_its_text_kept() -> None:
    first, second = make_section("Olde.", "1", number=1), make_section("Ebb.", "2", number=2)
    merged = merge(
        make_log(make_section("Old.", "1", number=1)), merge_all(make_log(first, second))
    )
    assert get_texts(merged.chunks) == ["Old.", "Ebb."]
    assert merged.removed_ids == frozenset()
    moved = merge(make_log(make_section("Old.", "3", number=1)), merged.chunks).chunks
    assert [chunk.location for chunk in moved] == [chunk.location for chunk in merged.chunks]
    stored = merge_all(make_log(make_section("Yes.", "10"), make_section("Yes.", "900")))
    assert merge(make_log(make_section("Yes.", "900")), stored).chunks == stored


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


LONG = ("When the tide turns, ships leave.", "9-12")
ELSEWHERE = ("The tide", "500")
SEA = ("The sea has no end.\n\nNo", "10-12")
SHORES = ("The sea has no end, but it has shores.", "10-13")


@pytest.mark.parametrize(
    ("highlights", "kept"),
    [
        ([("The tide turns", "10-11"), LONG, ELSEWHERE], [LONG[0], ELSEWHERE[0]]),
        # A word inside a sentence is a highlight of its own.
        (
            [("palimpsest", "10-11"), ("A city is a palimpsest of harbours.", "10-12")],
            ["A city is a palimpsest of harbours.", "palimpsest"],
        ),
        # An extended note replaces the former one.
        (
            [("The tide turns.\n\nTrue", "10-11"), ("The tide turns.\n\nHow true!", "10-11")],
            ["The tide turns.\n\nHow true!"],
        ),
        # A note that the longer highlight lacks is kept.
        ([SEA, SHORES], [SEA[0], SHORES[0]]),
    ],
    ids=["longest", "word", "note", "other note"],
)
def test_the_longest_version_at_a_place_is_kept(
    highlights: list[tuple[str, str]], kept: list[str]
) -> None:
    logs = [make_log(make_section(*highlight)) for highlight in highlights]
    for order in (logs, [*logs[1:], logs[0]]):
        assert sorted(get_texts(merge_all(*order))) == sorted(kept)


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


def test_an_older_log_does_not_change_a_stored_highlight() -> None:
    earlier = make_log(Section("Ebb.", tags=("draft",)))
    later = make_log(Section("Ebb.", tags=("tide",)))
    stored = StoredHighlights(merge_all(later), readwise_url=BOOK_URL, changed_at=NOON)
    for minutes, expected in ((-1, later), (1, earlier)):
        source = replace(earlier, changed_at=NOON + timedelta(minutes=minutes))
        assert merge_highlights(chunk_source(source), stored).chunks == merge_all(expected), minutes


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
def test_merged_logs_lose_nothing_and_stay_the_same(first: Source, second: Source) -> None:
    """Their order matters only for highlights of the same id, of which the later one is kept."""
    stored, new = merge_all(first), merge_all(second)
    chunks = merge_all(first, second)
    letters = {extract_words(text) for text in get_texts(chunks)}
    first_ids, new_ids = get_highlight_ids(stored), get_highlight_ids(new)
    for chunk in [*stored, *new]:
        is_contained = any(extract_words(chunk.content) in whole for whole in letters)
        assert is_contained or chunk.readwise_url in new_ids

    assert merge_all(first, first) == stored
    assert merge_all(first, second, second) == chunks
    if first_ids.isdisjoint(new_ids):
        other_order = get_texts(merge_all(second, first))
        assert {extract_words(text) for text in other_order} == letters

    assert [(chunk.position, chunk.total) for chunk in chunks] == [
        (number, len(chunks)) for number in range(1, len(chunks) + 1)
    ]
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)
    text = SECTION_SEPARATOR.join(get_texts(chunks))  # each is a section of its own
    assert [text[chunk.start : chunk.end] for chunk in chunks] == get_texts(chunks)
