"""Running heads and page numbers of a PDF are removed, and titles that look like them stay.

A running head is the line of a book or chapter title that is printed on every page.
"""

from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.jobs.ingest.readers.pdf.running_heads import remove_running_heads
from tests.support.pdf_files import make_pdf
from tests.support.source_files import read_only_source, write_file


def remove_heads(tops: Sequence[str], bottoms: Sequence[str] = ()) -> list[str]:
    """Put one line at the top and one at the bottom of each page; return those that are kept."""
    bottoms = bottoms or [""] * len(tops)
    pages = [
        [top, "", f"Text {ascii_uppercase[index]} begins.", "And ends.", "", bottom]
        for index, (top, bottom) in enumerate(zip(tops, bottoms, strict=True))
    ]
    lines = [line for page in remove_running_heads(pages) for line in page]
    return [line for line in lines if line and not line.endswith((" begins.", "ends."))]


def test_heads_and_page_numbers_are_left_out_of_a_file(tmp_path: Path) -> None:
    pages = [
        ["A Handbook", "", f"Text {number * number} begins.", "", f"Page {number} of 90"]
        for number in range(12, 18)
    ]
    source = read_only_source(write_file(tmp_path, "sails.pdf", make_pdf(*pages)))
    expected = " ".join(f"Text {number * number} begins." for number in range(12, 18))
    assert " ".join(source.text.split()) == f"A Handbook {expected}"


@pytest.mark.parametrize(
    "form",
    ["{}", "- {} -", "– {} –", "Page {}", "Page {} of 90", "{} / 90", "Seite {} von 90"],  # noqa: RUF001
)
def test_page_numbers_are_removed(form: str) -> None:
    assert remove_heads([form.format(number) for number in range(7, 12)]) == []
    assert remove_heads([""] * 5, [form.format(number) for number in range(345, 350)]) == []


def test_page_numbers_that_move_to_the_bottom_are_removed() -> None:
    numbers = [str(number) for number in range(1, 9)]
    tops = [*numbers[:3], "", *numbers[4:]]
    assert remove_heads(tops, ["", "", "", numbers[3], "", "", "", ""]) == []


def test_page_numbers_that_start_again_are_removed() -> None:
    assert remove_heads([str(number) for number in (*range(30, 36), *range(1, 6))]) == []


@pytest.mark.parametrize(
    "form",
    [
        *("A Handbook", "A Handbook {}", "{} A Handbook", "{} | A Handbook", "A Handbook · {}"),
        *("A Handbook Page {}", "Page {} of 90 – A Handbook", "A Handbook - {}/90"),  # noqa: RUF001
    ],
)
def test_a_running_head_is_kept_on_its_first_page_only(form: str) -> None:
    assert remove_heads([form.format(number) for number in range(3, 9)]) == ["A Handbook"]


def test_different_heads_on_facing_pages_are_removed() -> None:
    tops = [f"{number} Walden" if number % 2 else f"Economy {number}" for number in range(13, 23)]
    assert remove_heads(tops) == ["Walden", "Economy"]


def test_the_running_head_of_each_long_chapter_is_removed() -> None:
    chapters = {"Wind": 12, "Anchors": 2, "Reefs": 12}
    tops = [f"On {name}" for name, count in chapters.items() for _ in range(count)]
    assert remove_heads(tops) == ["On Wind", "On Anchors", "On Anchors", "On Reefs"]


def test_the_head_of_a_short_chapter_is_known_by_its_page_number() -> None:
    """The first page of each chapter has only a number, and the others also have the chapter."""
    tops = ["1", "On Wind 2", "On Wind 3", "4", "On Anchors 5", "6", "On Reefs 7", "On Reefs 8"]
    assert remove_heads(tops) == ["On Wind", "On Anchors 5", "On Reefs"]


def test_a_head_and_a_number_on_two_lines_are_removed() -> None:
    pages = [["A Handbook", str(number), "", f"Text {number * 7}."] for number in range(1, 7)]
    texts = [line for page in remove_running_heads(pages) for line in page if line]
    assert texts == ["A Handbook", *(f"Text {number * 7}." for number in range(1, 7))]


@pytest.mark.parametrize(
    "titles",
    [
        pytest.param(["Agenda", "A", "B", "Agenda", "C", "D", "Agenda", "E", "F"], id="slides"),
        pytest.param(["A", "B", *["Results"] * 4, "C", "D", "E", "F"], id="slides in a row"),
        pytest.param([f"Exercise {number}" for number in range(1, 7)], id="exercises"),
        pytest.param([f"Lesson {number}" for number in range(7, 13)], id="later lessons"),
        pytest.param([str(year) for year in range(1914, 1920)], id="years"),
        pytest.param([f"Results in {year}" for year in range(2018, 2024)], id="years in titles"),
        pytest.param([f"{day} May" for day in range(1, 7)], id="days"),
        pytest.param([f"{day} May 2024" for day in range(1, 7)], id="dates"),
        pytest.param([f"{number}. Reefs" for number in range(1, 7)], id="numbered titles"),
        pytest.param(["3", "1", "4", "1", "5", "9"], id="numbers out of order"),
        pytest.param(["A Handbook", "A Handbook"], id="two pages"),
    ],
)
def test_titles_of_pages_are_kept(titles: list[str]) -> None:
    assert remove_heads(titles) == titles
    assert remove_heads([""] * len(titles), titles) == titles


def test_numbered_titles_stay_if_pages_have_page_numbers() -> None:
    titles = [f"Lab exercise {number}" for number in range(1, 7)]
    assert remove_heads(titles, [str(number) for number in range(1, 7)]) == titles


@given(st.lists(st.lists(st.sampled_from(["", "1", "2", "A", "A 1", "1 A", "Page 1"])), max_size=9))
def test_only_whole_lines_or_page_numbers_are_removed(pages: list[list[str]]) -> None:
    for before, after in zip(pages, remove_running_heads(pages), strict=True):
        words = " ".join(before).split()
        for word in " ".join(after).split():
            words.remove(word)
