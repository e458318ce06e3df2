"""The table that a Kindle app sends by email is one source, whatever the app's language."""

from pathlib import Path

import pytest

from functions.jobs.ingest.readers.kindle.clippings import make_source_id
from shared.knowledge.source import Locator
from tests.support.source_files import read_only_source, read_problems, read_warnings, write_file

HEAD = """"Your Kindle Notes For:",,,
"ON KNOTS AND ROPES: A SHORT GUIDE (ENGLISH EDITION)",,,
"by Vera Lind",,,
"Free Kindle instant preview:",,,
"https://example.com/x",,,
----------------------------------------------,,,
,,,
"Annotation Type","Location","Starred?","Annotation"
"""
TABLE = (
    HEAD
    + """"Highlight (Yellow)","Location 93","","A knot is a promise that a rope makes to itself."
"Note","Location 93","","Good opening for a talk."
"Highlight (Blue)","Page 18","*","Wet rope, tied as a ""bowline"", holds longer."
"Bookmark","Location 99","",""
"""
)


@pytest.mark.parametrize(
    "data",
    [
        TABLE.encode(),
        TABLE.replace("\n", "\r\n").encode("utf-8-sig"),
        TABLE.replace(",,,", "").encode(),
        TABLE.replace('","', '";"').replace(",,,", ";;;").encode(),
        TABLE.replace('","', '"\t"').replace(",,,", "\t\t\t").encode("utf-16"),
    ],
    ids=["as sent", "Windows", "trimmed", "semicolons", "Excel"],
)
def test_a_table_becomes_a_source_with_notes_and_places(tmp_path: Path, data: bytes) -> None:
    source = read_only_source(write_file(tmp_path, "On-Knots-Notebook.csv", data))
    assert source.title == "ON KNOTS AND ROPES: A SHORT GUIDE (ENGLISH EDITION)"
    assert (source.author, source.origin, source.category) == ("Vera Lind", "kindle", "books")
    assert not any(section.dates for section in source.sections)
    assert [
        (section.text, section.tags, section.find_locator(0)) for section in source.sections
    ] == [
        (
            "A knot is a promise that a rope makes to itself.\n\nGood opening for a talk.",
            (),
            Locator(location="93"),
        ),
        ('Wet rope, tied as a "bowline", holds longer.', ("favorite",), Locator(page=18)),
    ]


def test_the_clippings_of_the_same_book_are_the_same_source(tmp_path: Path) -> None:
    source = read_only_source(write_file(tmp_path, "a.csv", TABLE))
    title = "On Knots and Ropes: A Short Guide (English Edition)"
    assert source.source_id == make_source_id(title, "Vera Lind")
    assert source.adds_only


@pytest.mark.parametrize(
    ("first", "by", "row", "expected"),
    [
        (
            "Ihre Kindle-Notizen für:",
            "von Vera Lind",
            ("Markierung (Gelb)", "Position 93"),
            Locator(location="93"),
        ),
        ("Vos notes Kindle pour :", "par Vera Lind", ("Surlignement", "Page 9"), Locator(page=9)),
        (
            "您的 Kindle 笔记\uff1a",
            "作者\uff1aVera Lind",
            ("标注 (黄色)", "位置 93"),
            Locator(location="93"),
        ),
        (
            "Dine Kindle-noter til:",
            "af Vera Lind",
            ("Fremhævning (Gul)", "Placering 93"),
            Locator(location="Placering 93"),
        ),
    ],
)
def test_a_table_of_any_language_is_read(
    tmp_path: Path, first: str, by: str, row: tuple[str, str], expected: Locator
) -> None:
    lines = [first, "KNOTEN", by, "----------", "", '"Typ","Platz","Stern","Text"']
    kind, place = row
    table = "\n".join([*lines, f'"{kind}","{place}","","Wet rope holds."'])
    source = read_only_source(write_file(tmp_path, "a.csv", table))
    assert (source.title, source.author, source.text) == ("KNOTEN", "Vera Lind", "Wet rope holds.")
    assert source.sections[0].find_locator(0) == expected


def test_a_book_without_an_author_has_none(tmp_path: Path) -> None:
    table = TABLE.replace('"by Vera Lind",,,\n', "")
    assert read_only_source(write_file(tmp_path, "a.csv", table)).author is None


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    row = '"Highlight (Yellow)","Location 200","",""\n"Note","Location 2"1","","bad"\n'
    file = write_file(tmp_path, "a.csv", TABLE + row)
    assert read_warnings(file) == [("a.csv", "has 1 highlight without text; left out")]
    [(name, reason)] = read_problems(file)
    assert name == "a.csv line 14"
    assert reason.startswith("is not valid CSV")


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (HEAD, "has no highlights and no notes"),
        (HEAD[:60], "is not a complete table of Kindle notes: no row has four columns"),
        (TABLE + '"Note","Location 93","","cut', "is cut off in the row at line 13"),
    ],
)
def test_a_broken_table_is_refused_in_words(tmp_path: Path, table: str, reason: str) -> None:
    [(_, problem)] = read_problems(write_file(tmp_path, "a.csv", table))
    assert problem.startswith(reason)
