"""KOReader's JSON is read with the places, notes and dates of highlights."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shared.core.ids import IdKind, has_kind
from shared.knowledge.source import Locator
from tests.support.source_files import (
    read_only_source,
    read_problems,
    read_sources,
    read_warnings,
    write_file,
)

TEXT = "The ferry leaves when the captain has finished his coffee."
ENTRY = {
    "page": 44,
    "time": 1717173713,
    "sort": "highlight",
    "drawer": "lighten",
    "chapter": "Harbour",
    "text": TEXT,
    "note": "Rule one.",
}


def make_book(*entries: Any, **fields: Any) -> dict[str, Any]:
    return {
        "title": "Night Ferry",
        "author": "Ida Holm",
        "number_of_pages": 210,
        "file": "/mnt/us/books/ferry.epub",
        "entries": entries or {},
    } | fields


def write_book(folder: Path, content: Any, name: str = "Night Ferry.json") -> Path:
    return write_file(folder, name, json.dumps(content, indent=1, ensure_ascii=False))


def test_a_book_becomes_a_source_with_places_and_dates(tmp_path: Path) -> None:
    book = make_book(ENTRY, created_on=1717230000, version="json/1.0.0")
    source = read_only_source(write_book(tmp_path, book))
    assert (source.title, source.author) == ("Night Ferry", "Ida Holm")
    assert (source.origin, source.category) == ("koreader", "books")
    assert has_kind(source.source_id, IdKind.EXPORT)
    assert source.adds_only
    [section] = source.sections
    assert section.text == f"{TEXT}\n\nRule one."
    assert section.find_locator(0) == Locator(page=44, chapter="Harbour")
    assert section.highlighted_at == datetime(2024, 5, 31, 16, 41, 53, tzinfo=UTC)


def test_an_export_of_all_books_has_a_source_for_each(tmp_path: Path) -> None:
    documents = [
        make_book(ENTRY),
        make_book(
            {"text": "Salt keeps.", "page": "xii", "time": 0},
            title="Salt",
            author="Ann Helm\nBo Sea",
        ),
        make_book({"text": "Of a file.", "page": None}, title="", file="/mnt/us/Of a file.pdf"),
    ]
    export = {"created_on": 1717230000, "version": "json/1.0.0", "documents": documents}
    sources = read_sources(write_book(tmp_path, export, "2024-06-01-10-00-00-all-books.json"))
    assert [(source.title, source.author) for source in sources] == [
        ("Night Ferry", "Ida Holm"),
        ("Salt", "Ann Helm, Bo Sea"),
        ("Of a file", "Ida Holm"),
    ]
    assert sources[1].sections[0].find_locator(0) == Locator(location="page xii")
    assert sources[1].sections[0].highlighted_at is None
    assert sources[2].sections[0].locators == ()


@pytest.mark.parametrize("name", ["Unknown Author", "unknown", "N/A", None])
def test_a_placeholder_is_no_author(tmp_path: Path, name: str | None) -> None:
    source = read_only_source(write_book(tmp_path, make_book(ENTRY, author=name)))
    assert source.author is None


def test_two_exports_of_a_book_are_one_source(tmp_path: Path) -> None:
    write_book(tmp_path, make_book(ENTRY), "1.json")
    write_book(tmp_path, {"documents": [make_book(ENTRY, title="NIGHT FERRY")]}, "2.json")
    assert len({source.source_id for source in read_sources(tmp_path)}) == 1
    assert read_problems(tmp_path) == []


def test_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    picture = {"page": 3, "sort": "highlight", "text": "", "image": {"hash": "a"}}
    odd = ENTRY | {"time": "yesterday", "page": [1]}
    file = write_book(tmp_path, make_book(picture, odd))
    assert read_only_source(file).text == f"{TEXT}\n\nRule one."
    ignored, counted = (reason for _, reason in read_warnings(file))
    assert ignored == (
        "entries.1.page: Input should be a valid string; entries.1.time: “yesterday” is not an ISO"
        " 8601 date such as 2024-05-31; fields ignored"
    )
    assert counted == "has 1 highlight without text, such as a picture; left out"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (json.dumps(make_book()), "has no highlights and no notes"),
        (json.dumps(make_book(ENTRY))[:-20], "is not JSON: "),
        (json.dumps(make_book("no entry")), "entries.0: "),
        ('{"documents": {"entries": []}, "version": "json/1.0.0"}', "is not a KOReader export"),
    ],
)
def test_a_broken_export_is_refused_in_words(tmp_path: Path, content: str, reason: str) -> None:
    [(_, problem)] = read_problems(write_file(tmp_path, "a.json", content))
    assert problem.startswith(reason)
