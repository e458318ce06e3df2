"""Readwise's CSV export becomes a source a book; other CSV files are refused by name."""

import csv
import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from functions.jobs.ingest.listing import list_files, read_listing
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

TO_KINDLE = "https://readwise.io/to_kindle?action=open&asin=B00SLOW"


def make_row(text: str, title: str = "The Slow Book", **cells: str) -> dict[str, str]:
    """Return a row; an argument for a column has its name in lower case, with `_` for spaces."""
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
        adds_only=True,
        sections=(
            Section(
                "Earlier.",
                locators=((0, Locator(location="12", url=f"{TO_KINDLE}&location=12")),),
            ),
            Section(
                'Attention is trained,\n\nnot given.\n\nKey "idea"',
                tags=("favorite", "Deep Work"),
                highlighted_at=datetime(2020, 10, 5, 10, 15, 30, tzinfo=UTC),
                locators=((0, Locator(location="345", url=f"{TO_KINDLE}&location=345")),),
            ),
        ),
    )
    assert other.title == "Other"
    assert other.author is None
    assert other.origin == "readwise"
    assert [section.locators for section in other.sections] == [((0, Locator(page=7)),)]


def test_a_book_id_depends_on_title_and_author_only(tmp_path: Path) -> None:
    """A title in another letter case is the same book."""
    rows = [make_row(text, "On tests", book_author=text) for text in ("Ann", "Bo")]
    of_ann, of_bo = read_sources(write_csv(tmp_path / "a", *rows))
    later = [make_row("other", title, book_author="Ann") for title in ("ON TESTS", "On Tests")]
    again = read_only_source(write_csv(tmp_path / "b", *later))
    assert (again.source_id, again.title, len(again.sections)) == (of_ann.source_id, "ON TESTS", 2)
    assert of_bo.source_id != of_ann.source_id


def test_books_are_skipped_if_readwise_itself_is_synchronized(tmp_path: Path) -> None:
    path = write_csv(tmp_path, make_row("x"))
    assert is_book(read_only_source(path).source_id)
    assert list(read_listing(list_files(path), without_books=True)) == []


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_file_saved_again_by_a_spreadsheet_is_read(
    tmp_path: Path, encoding: str, delimiter: str
) -> None:
    header = delimiter.join(["HIGHLIGHT", "Book title", "Book Author"])
    content = f'{header}\r\n"Größe, ""wahr""; ja";Buch;Änne\r\n'.replace(";", delimiter)
    source = read_only_source(write_file(tmp_path, "data.csv", content.encode(encoding)))
    text = 'Größe, "wahr"; ja'.replace(";", delimiter)
    assert source.sections[0].text == text
    assert source.author == "Änne"


def test_a_file_in_a_legacy_encoding_is_read_with_a_warning(tmp_path: Path) -> None:
    content = make_csv(make_row("Wer früh refft, segelt ruhig.", book_author="Sönke Ahrens"))
    path = write_file(tmp_path, "data.csv", content.encode("cp1252"))
    assert read_only_source(path).author == "Sönke Ahrens"
    reason = "is not UTF-8 and was read as cp1252; if letters are wrong, save it as UTF-8"
    assert read_warnings(path) == [("data.csv: The Slow Book", reason)]


def test_a_cell_larger_than_the_csv_modules_limit_is_read(tmp_path: Path) -> None:
    text = "word " * 100_000
    assert read_only_source(write_csv(tmp_path, make_row(text))).sections[0].text == text.strip()


@pytest.mark.parametrize("content", ["name,price\napple,3\n", "", "\n"])
def test_other_csv_files_are_refused_with_the_expected_columns(
    tmp_path: Path, content: str
) -> None:
    path = write_file(tmp_path, "table.csv", content)
    reason = (
        "is not Readwise's CSV export, whose columns are Highlight, Book Title, Book Author,"
        " Amazon Book ID, Note, Color, Tags, Location Type, Location, Highlighted at, Document"
        " tags: convert it to .md or .jsonl"
    )
    assert read_problems(path) == [("table.csv", reason)]


def test_an_invalid_row_loses_only_itself(tmp_path: Path) -> None:
    valid_rows = make_csv(make_row("x"), make_row("no title", "")).rstrip()
    path = write_file(tmp_path, "data.csv", f"{valid_rows}\ny,Book,,,,,,,,,,beyond\nz,Book\n")
    assert read_problems(path) == [
        ("data.csv line 3", "has no Book Title"),
        ("data.csv line 4", "has more cells than the header"),
    ]
    assert [source.sections[0].text for source in read_sources(path)] == ["x", "z"]


INVALID_QUOTE = "is not valid CSV: ',' expected after '\"'"


@pytest.mark.parametrize(
    ("damaged", "line", "reason"),
    [
        ('"He said "no" to me",Loud', 3, INVALID_QUOTE),
        ('"Never closed,Loud', 3, INVALID_QUOTE),
        (
            '"Two\nlines, ""and"" a "quote"\nin them",Loud',
            3,
            f"{INVALID_QUOTE}; left out up to line 5",
        ),
    ],
)
def test_an_invalid_quote_loses_only_its_row(
    tmp_path: Path, damaged: str, line: int, reason: str
) -> None:
    rows = [
        make_row("first", "Slow, A", note="n"),
        make_row("second, of 2", "B"),
        make_row("third", "Slow, A", note='"q"'),
    ]
    header, first_line, *other_lines = make_csv(*rows).splitlines()
    content = "\n".join([header, first_line, damaged + "," * 9, *other_lines, ""])
    path = write_file(tmp_path, "data.csv", content)
    assert read_problems(path) == [(f"data.csv line {line}", reason)]
    assert [source.text for source in read_sources(path)] == [
        'first\n\nn\n\nthird\n\n"q"',
        "second, of 2",
    ]


def test_an_invalid_quote_in_the_last_row_loses_only_that_row(tmp_path: Path) -> None:
    content = make_csv(make_row("first")) + '"a "b" c",Loud' + "," * 9
    path = write_file(tmp_path, "data.csv", content)
    assert read_problems(path) == [("data.csv line 3", INVALID_QUOTE)]
    assert read_only_source(path).text == "first"


def test_a_file_that_ends_within_a_cell_is_refused(tmp_path: Path) -> None:
    """Otherwise, highlights missing from the file would be deleted from the other books."""
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


def test_action_tags_work_as_in_the_json_export(tmp_path: Path) -> None:
    content = (
        "Highlight,Book Title,Book Author,Note,Tags,Location Type,Location\n"
        "Reading Water,Pilots,Ole,.h1,h1,location,10\n"
        "Its colour,Pilots,Ole,.c1,c1,location,12\n"
        "tells its depth.,Pilots,Ole,.c2,c2,location,13\n"
        'Paid.,Pilots,Ole,".ethics Quote, twice.",ethics,location,20\n'
        "Thrown away.,Pilots,Ole,,discard,location,30\n"
        "Thrown away too.,Pilots,Ole,.discard,,location,31\n"
        "Thrown away as well.,Pilots,Ole,.d,d,location,32\n"
    )
    source = read_only_source(write_file(tmp_path, "readwise.csv", content))
    assert [(section.text, section.tags) for section in source.sections] == [
        ("Its colour … tells its depth.", ()),
        ("Paid.\n\nQuote, twice.", ("ethics",)),
    ]
    assert {section.find_locator(0).chapter for section in source.sections} == {"Reading Water"}
