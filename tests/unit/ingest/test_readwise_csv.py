"""Readwise's CSV export becomes a source a book; other CSV files are refused by name."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from functions.jobs.ingest.readers.reading import list_files, read_files
from functions.jobs.ingest.readers.readwise.csv_export import COLUMNS
from functions.jobs.ingest.readers.readwise.export import is_book
from shared.knowledge.source import Locator, Section, Source
from tests.support.source_files import (
    read_only_source,
    read_problems,
    read_sources,
    read_warnings,
    write_file,
)

if TYPE_CHECKING:
    from pathlib import Path

TO_KINDLE = "https://readwise.io/to_kindle?action=open&asin=B00SLOW"


def make_row(text: str, title: str = "The Slow Book", **cells: str) -> dict[str, str]:
    """Return a row; names of columns are in lower case, with `_`."""
    named = {name: cells.get(name.lower().replace(" ", "_"), "") for name in COLUMNS}
    return named | {"Highlight": text, "Book Title": title}


def make_csv(*rows: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def write_csv(folder: Path, *rows: dict[str, str]) -> Path:
    return write_file(folder, "readwise-data.csv", make_csv(*rows))


def test_rows_become_a_source_a_book_with_all_fields(tmp_path: Path) -> None:
    shared = {"book_author": "Mara Ellison", "amazon_book_id": "B00SLOW"}
    path = write_csv(
        tmp_path,
        make_row(
            "Attention is trained,\n\nnot given.",
            **shared,
            note='Key "idea"',
            color="yellow",
            tags="favorite, Deep Work",
            location_type="location",
            location="345",
            highlighted_at="2020-10-05 10:15:30+00:00",
            document_tags="focus,slow",
        ),
        make_row("Elsewhere.", "Other", location_type="page", location="7"),
        make_row(
            "Earlier.", **shared, location_type="location", location="12", document_tags="slow"
        ),
    )
    slow, other = read_sources(path)
    assert slow == Source(
        source_id=slow.source_id,
        title="The Slow Book",
        author="Mara Ellison",
        origin="kindle",
        category="books",
        tags=("focus", "slow"),
        sections=(
            Section(
                "Earlier.",
                locators=((0, Locator(location="12", url=f"{TO_KINDLE}&location=12")),),
            ),
            Section(
                'Attention is trained,\n\nnot given.\n\nKey "idea"',
                former_text='Attention is trained,\n\nnot given.\n\nNote: Key "idea"',
                tags=("favorite", "Deep Work"),
                highlighted_at=datetime(2020, 10, 5, 10, 15, 30, tzinfo=UTC),
                locators=((0, Locator(location="345", url=f"{TO_KINDLE}&location=345")),),
            ),
        ),
    )
    assert (other.title, other.author, other.origin) == ("Other", None, "readwise")
    assert [section.locators for section in other.sections] == [((0, Locator(page=7)),)]


def test_id_of_a_book_is_made_of_title_and_author(tmp_path: Path) -> None:
    first = write_csv(
        tmp_path / "a", make_row("x", book_author="Ann"), make_row("x", book_author="Bo")
    )
    later = write_csv(tmp_path / "b", make_row("other words", book_author="Ann", note="n"))
    ids = [source.source_id for source in read_sources(first)]
    assert read_only_source(later).source_id == ids[0]
    assert len(set(ids)) == 2
    assert [source_id.startswith("readwise-csv-") for source_id in ids] == [True, True]


def test_books_are_skipped_where_readwise_itself_is_followed(tmp_path: Path) -> None:
    path = write_csv(tmp_path, make_row("x"))
    assert is_book(read_only_source(path).source_id)
    assert list(read_files(list_files(path), without_books=True)) == []


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_file_that_a_spreadsheet_saved_again_is_read(
    tmp_path: Path, encoding: str, delimiter: str
) -> None:
    header = delimiter.join(["HIGHLIGHT", "Book title", "Book Author"])
    content = f'{header}\r\n"Größe, ""wahr""; ja";Buch;Änne\r\n'.replace(";", delimiter)
    source = read_only_source(write_file(tmp_path, "data.csv", content.encode(encoding)))
    text = 'Größe, "wahr"; ja'.replace(";", delimiter)
    assert (source.sections[0].text, source.author) == (text, "Änne")


def test_file_that_excel_saved_in_a_legacy_encoding_is_read_with_a_warning(tmp_path: Path) -> None:
    content = make_csv(make_row("Wer früh refft, segelt ruhig.", book_author="Sönke Ahrens"))
    path = write_file(tmp_path, "data.csv", content.encode("cp1252"))
    assert read_only_source(path).author == "Sönke Ahrens"
    reason = "is not UTF-8 and was read as cp1252; if letters are wrong, save it as UTF-8"
    assert read_warnings(path) == [("data.csv: The Slow Book", reason)]


def test_cell_larger_than_the_limit_of_the_csv_module_is_read(tmp_path: Path) -> None:
    text = "word " * 100_000
    assert read_only_source(write_csv(tmp_path, make_row(text))).sections[0].text == text.strip()


@pytest.mark.parametrize(
    "content",
    ["name,price\napple,3\n", "", "\n", "Highlight,Title,Author,URL,Note,Location,Date\na,b,c\n"],
)
def test_other_csv_file_is_refused_with_the_expected_columns(tmp_path: Path, content: str) -> None:
    path = write_file(tmp_path, "table.csv", content)
    reason = (
        "is not Readwise's CSV export, whose columns are Highlight, Book Title, Book Author,"
        " Amazon Book ID, Note, Color, Tags, Location Type, Location, Highlighted at, Document"
        " tags: convert it to .md or .jsonl"
    )
    assert read_problems(path) == [("table.csv", reason)]


def test_bad_row_loses_only_itself(tmp_path: Path) -> None:
    good = make_csv(make_row("x"), make_row("no title", "")).rstrip()
    path = write_file(tmp_path, "data.csv", f"{good}\ny,Book,,,,,,,,,,beyond\nz,Book\n")
    assert read_problems(path) == [
        ("data.csv line 3", "has no Book Title"),
        ("data.csv line 4", "has more cells than the header"),
    ]
    assert [source.sections[0].text for source in read_sources(path)] == ["x", "z"]


BAD_QUOTE = "is not valid CSV: ',' expected after '\"'"


@pytest.mark.parametrize(
    ("damaged", "line", "reason"),
    [
        ('"He said "no" to me",Loud', 3, BAD_QUOTE),
        ('"Never closed,Loud', 3, BAD_QUOTE),
        ('"Two\nlines, ""and"" a "quote"\nin them",Loud', 3, f"{BAD_QUOTE}; left out up to line 5"),
    ],
)
def test_a_bad_quote_loses_only_its_row(
    tmp_path: Path, damaged: str, line: int, reason: str
) -> None:
    good = [
        make_row("first", "Slow, A", note="n"),
        make_row("second, of 2", "B"),
        make_row("third", "Slow, A", note='"q"'),
    ]
    header, first, *others = make_csv(*good).splitlines()
    content = "\n".join([header, first, damaged + "," * 9, *others, ""])
    path = write_file(tmp_path, "data.csv", content)
    assert read_problems(path) == [(f"data.csv line {line}", reason)]
    assert [source.text for source in read_sources(path)] == [
        'first\n\nn\n\nthird\n\n"q"',
        "second, of 2",
    ]


def test_a_bad_quote_in_the_last_row_loses_only_it(tmp_path: Path) -> None:
    content = make_csv(make_row("first")) + '"a "b" c",Loud' + "," * 9
    path = write_file(tmp_path, "data.csv", content)
    assert read_problems(path) == [("data.csv line 3", BAD_QUOTE)]
    assert read_only_source(path).text == "first"


def test_a_title_in_another_case_of_letters_is_the_same_book(tmp_path: Path) -> None:
    path = write_csv(
        tmp_path, make_row("a", "On tests"), make_row("b", "ON TESTS"), make_row("c", "Other")
    )
    assert [(source.title, len(source.sections)) for source in read_sources(path)] == [
        ("On tests", 2),
        ("Other", 1),
    ]
    assert read_problems(path) == []


def test_file_that_ends_in_a_cell_is_refused_whole(tmp_path: Path) -> None:
    """Its other books may lack highlights, which would be forgotten."""
    content = make_csv(make_row("x"), make_row("two\nlines", note="n"))
    path = write_file(tmp_path, "data.csv", content[: content.index("lines")])
    reason = "is cut off in the row at line 3: export it again"
    assert read_problems(path) == [("data.csv", reason)]
    assert read_sources(path) == []


def test_invalid_values_are_named_by_line_and_column(tmp_path: Path) -> None:
    path = write_csv(
        tmp_path, make_row("a\nb", highlighted_at="May 31"), make_row("c", location="far")
    )
    ((_, reason),) = read_warnings(path)
    assert reason == (
        "line 2: Highlighted at: “May 31” is not an ISO 8601 date such as 2024-05-31;"
        " line 4: Location: Input should be a valid number, unable to parse string as a number;"
        " fields ignored"
    )


def test_unknown_columns_are_named_once(tmp_path: Path) -> None:
    columns = (*COLUMNS, "Mood")
    rows = [
        make_row("x", "A") | {"Mood": "calm"},
        make_row("y", "B") | {"Mood": "glad"},
        make_row("z", "C"),
    ]
    path = write_file(tmp_path, "data.csv", make_csv(*rows, columns=columns))
    reason = "the export has fields that Carrel does not know: Mood (2 times); kept without them"
    assert read_warnings(path) == [("data.csv: A", reason)]
