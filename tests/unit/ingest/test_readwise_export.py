"""A Readwise export becomes sources; an invalid book is reported, and the others are read."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from functions.jobs.ingest.readers.readwise.export import derive_book_source_id
from shared.knowledge.source import Locator, Section, Source
from tests.support.source_files import (
    make_readwise_book,
    read_only_source,
    read_problems,
    read_sources,
    read_warnings,
    write_export,
    write_file,
)


def read_book(folder: Path, *highlights: dict[str, Any], **fields: Any) -> Source:
    """Return the source of an export with one book."""
    book = make_readwise_book(highlights=list(highlights), **fields)
    return read_only_source(write_export(folder, book))


def get_texts(source: Source) -> list[str]:
    return [section.text for section in source.sections]


def test_a_book_becomes_a_source_with_a_section_a_highlight(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    path = write_export(
        tmp_path,
        {
            "user_book_id": 12345,
            "is_deleted": False,
            "title": "walden; or, life in the woods",
            "author": "Henry David Thoreau",
            "readable_title": "Walden",
            "source": "kindle",
            "cover_image_url": "https://example.com/cover.jpg",
            "unique_url": None,
            "summary": None,
            "book_tags": [{"id": 1, "name": "nature"}],
            "category": "books",
            "document_note": None,
            "readwise_url": "https://readwise.io/bookreview/12345",
            "source_url": "https://example.com/walden",
            "asin": "B000000000",
            "highlights": [
                {
                    "id": 10,
                    "is_deleted": False,
                    "text": " Simplify, simplify. ",
                    "location": 1831,
                    "location_type": "location",
                    "note": "Twice!",
                    "color": "yellow",
                    "highlighted_at": "2024-05-31T16:41:53.186Z",
                    "created_at": "2024-05-31T16:41:53.186Z",
                    "updated_at": "2024-05-31T16:41:53.186Z",
                    "external_id": None,
                    "end_location": None,
                    "url": "https://example.com/walden#1831",
                    "book_id": 12345,
                    "tags": [{"id": 2, "name": "simplicity"}],
                    "is_favorite": False,
                    "is_discard": False,
                    "readwise_url": "https://readwise.io/open/10",
                }
            ],
        },
    )
    assert read_only_source(path) == snapshot


def test_a_books_note_and_summary_are_separate_passages(tmp_path: Path) -> None:
    """They come first, without a link, and with the date of the earliest highlight."""
    later, earliest = datetime(2024, 6, 2, 8, tzinfo=UTC), datetime(2024, 5, 31, 16, tzinfo=UTC)
    source = read_book(
        tmp_path,
        {"text": "Simplify.", "location": 1, "highlighted_at": "2024-06-02T08:00:00Z"},
        {"text": "Rise early.", "location": 2, "highlighted_at": "2024-05-31T16:00:00Z"},
        {"text": "Explore."},
        document_note="Lent to Ann.",
        summary="A man lives by a pond.",
    )
    assert source.sections == (
        Section("Lent to Ann.", tags=("book note",), written_at=earliest),
        Section("A man lives by a pond.", tags=("summary",), written_at=earliest),
        Section("Simplify.", highlighted_at=later),
        Section("Rise early.", highlighted_at=earliest),
        Section("Explore."),
    )


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({"document_note": "Mine.", "summary": "Theirs."}, ["Mine.", "Theirs."]),
        ({"summary": "Theirs."}, []),
        ({"document_note": "Mine.", "is_deleted": True}, []),
        ({"is_deleted": True, "highlights": [{"text": "x"}]}, []),
        ({"is_deleted": True, "highlights": None}, []),
        ({"highlights": []}, []),
        ({"highlights": [{"text": "gone", "is_deleted": True}]}, []),
        ({"highlights": [{"text": "One", "note": ".h1"}]}, []),
    ],
)
def test_a_deleted_or_emptied_book_is_kept_for_its_note(
    tmp_path: Path, fields: dict[str, Any], texts: list[str]
) -> None:
    path = write_export(tmp_path, make_readwise_book(**{"highlights": [], **fields}))
    assert get_texts(read_only_source(path)) == texts
    assert read_problems(path) == []


def test_a_favourite_highlight_has_a_tag(tmp_path: Path) -> None:
    source = read_book(
        tmp_path,
        {"text": "loved", "is_favorite": True, "tags": [{"name": "wood"}, {"name": "favorite"}]},
        {"text": "liked", "is_favorite": False},
    )
    assert [section.tags for section in source.sections] == [("wood", "favorite"), ()]


@pytest.mark.parametrize(
    ("fields", "locator"),
    [
        ({"location_type": "page", "location": 12}, Locator(page=12)),
        ({"location_type": "location", "location": 9}, Locator(location="9")),
        (
            {"location_type": "location", "location": 4, "end_location": 7},
            Locator(location="4-7"),
        ),
        ({"location_type": "time_offset", "location": 374}, Locator(location="0:06:14")),
        ({"location_type": "order", "location": 3}, None),
        ({"location_type": "page", "location": 0}, None),
        ({"location_type": "page", "location": 10**30}, None),
        ({"location_type": None, "location": 3}, None),
    ],
)
def test_a_location_is_a_page_a_location_or_a_time(
    tmp_path: Path, fields: dict[str, Any], locator: Locator | None
) -> None:
    source = read_book(tmp_path, {"text": "x", **fields})
    assert [section.locators for section in source.sections] == [((0, locator),) if locator else ()]


def test_a_document_of_reader_and_its_highlights_have_links(tmp_path: Path) -> None:
    source = read_book(
        tmp_path,
        {"text": "x", "location": 1, "url": "https://read.readwise.io/read/01hone"},
        {"text": "y", "location": 2, "external_id": "01htwo"},
        {"text": "z", "location": 3, "external_id": "../evil"},
        source="reader",
        category="articles",
        source_url=None,
        unique_url="https://read.readwise.io/read/01hdoc",
        external_id="01hdoc",
    )
    assert (source.origin, source.category) == ("reader", "articles")
    assert source.source_url == "https://read.readwise.io/read/01hdoc"
    assert [section.highlight_url for section in source.sections] == [
        "https://read.readwise.io/read/01hone",
        "https://read.readwise.io/read/01htwo",
        None,
    ]


def test_unknown_fields_are_named_once_for_the_whole_file(tmp_path: Path) -> None:
    highlights = [{"text": "x", "mood": "calm"}, {"text": "y", "mood": "glad"}]
    books = [
        make_readwise_book(user_book_id=number, highlights=highlights, shelf=1) for number in (1, 2)
    ]
    path = write_export(tmp_path, {"user_book_id": 0}, *books)
    reason = (
        "the export has fields that Carrel does not know:"
        " highlights.mood (4 times), shelf (2 times); kept without them"
    )
    assert read_warnings(path) == [("export.json: Walden", reason)]


def test_an_invalid_optional_field_does_not_lose_its_book(tmp_path: Path) -> None:
    highlights = [{"text": "x", "location": "far", "is_favorite": "very"}]
    path = write_export(tmp_path, make_readwise_book(highlights=highlights, summary=["a"]))
    assert [section.text for section in read_only_source(path).sections] == ["x"]
    ((_, reason),) = read_warnings(path)
    assert reason.endswith("; fields ignored")


def test_highlights_are_in_order_without_deleted_and_empty_ones(tmp_path: Path) -> None:
    source = read_book(
        tmp_path,
        {"id": 4, "text": "nowhere", "location": None},
        {"id": 3, "text": "later", "location": 20},
        {"id": 2, "text": "second here", "location": 10},
        {"id": 1, "text": "first here", "location": 10},
        {"text": "deleted", "is_deleted": True},
        {"text": "discarded", "is_discard": True},
        {"text": "typed", "note": ".d", "tags": [{"name": "d"}]},
        {"text": None, "note": ""},
        {"text": "", "note": "only a note", "location": 30},
    )
    expected = ["first here", "second here", "later", "only a note", "nowhere"]
    assert get_texts(source) == expected


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"highlights": None}, "has no `highlights`"),
        ({"highlights": [{"text": " "}]}, "has no text: all its highlights are empty"),
        ({"highlights": [{"text": []}]}, "highlights.0.text: Input should be a valid string"),
        ({"user_book_id": None}, "user_book_id: String should have at least 1 character"),
        ({"book_tags": "a, b", "highlights": 3}, "highlights: Input should be a valid list"),
    ],
)
def test_an_invalid_book_is_reported_and_others_are_read(
    tmp_path: Path, fields: dict[str, Any], reason: str
) -> None:
    path = write_export(tmp_path, make_readwise_book(**fields), make_readwise_book(user_book_id=8))
    assert read_problems(path) == [("export.json: Walden", reason)]
    assert [source.source_id for source in read_sources(path)] == [derive_book_source_id("8")]


def test_an_invalid_date_is_dropped_from_its_highlight(tmp_path: Path) -> None:
    highlights = [
        {"text": "x", "location": 1, "highlighted_at": "2024-05-31"},
        {"text": "y", "location": 2, "highlighted_at": "May 31"},
    ]
    path = write_export(tmp_path, make_readwise_book(highlights=highlights))
    reason = "highlights.1.highlighted_at: “May 31” is not an ISO 8601 date such as 2024-05-31"
    assert read_warnings(path) == [("export.json: Walden", f"{reason}; field ignored")]
    expected = (Section("x", highlighted_at=datetime(2024, 5, 31, tzinfo=UTC)), Section("y"))
    assert read_only_source(path).sections == expected


def test_a_book_without_a_title_is_reported_by_number_or_id(tmp_path: Path) -> None:
    path = write_export(tmp_path, make_readwise_book(), None, {"user_book_id": 9})
    expected = [
        ("export.json: book 2", "is not a JSON object"),
        ("export.json: 9", "has no `highlights`"),
    ]
    assert read_problems(path) == expected


def test_only_the_first_errors_of_a_book_are_listed(tmp_path: Path) -> None:
    ((_, reason),) = read_problems(
        write_export(tmp_path, make_readwise_book(highlights=[{"text": []}] * 9))
    )
    assert reason.endswith("highlights.2.text: Input should be a valid string; and 6 more")


def test_a_bare_list_of_books_is_an_export_and_a_book_gets_a_title(tmp_path: Path) -> None:
    books = json.dumps([{"user_book_id": "7", "highlights": [{"text": "x"}]}])
    assert read_only_source(write_file(tmp_path, "books.json", books)) == Source(
        derive_book_source_id("7"),
        "Readwise book 7",
        origin="readwise",
        sections=(Section("x"),),
        adds_only=True,
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{}", "is not a Readwise export: neither a list of books nor `results` with one"),
        (b'"text"', "is not a Readwise export: neither a list of books nor `results` with one"),
        (b'{"results":\n[,]}', "is not JSON: Expecting value (line 2, column 2)"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"", "is not JSON: Expecting value (column 1)"),
        (b'["\xff"]', "is not UTF-8: byte 0xff at position 2; save it as UTF-8"),
    ],
)
def test_other_json_files_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    assert read_problems(write_file(tmp_path, "export.json", content)) == [("export.json", reason)]


def test_a_number_too_long_for_python_loses_only_its_file(tmp_path: Path) -> None:
    write_file(tmp_path, "export.json", '[{"user_book_id": ' + "9" * 5000 + "}]")
    write_file(tmp_path, "note.md", "Words.")
    ((name, reason),) = read_problems(tmp_path)
    assert name == "export.json"
    assert reason.startswith("has a number that is too long")
    assert len(read_sources(tmp_path)) == 1


def make_highlight(number: int, text: str, note: str = "", **fields: Any) -> dict[str, Any]:
    """Return a highlight at a location, whose page in Readwise is `open/<number>`."""
    place = {"id": number, "location": number, "location_type": "order"}
    return {**place, "text": text, "note": note, "readwise_url": f"open/{number}", **fields}


def test_a_heading_is_the_chapter_of_what_follows(tmp_path: Path) -> None:
    source = read_book(
        tmp_path,
        make_highlight(1, "Epigraph."),
        make_highlight(2, "Reading\nWater", ".h1", tags=[{"name": "h1"}]),
        make_highlight(3, "Soundings", ".H2 read twice"),
        make_highlight(4, "Brown is shallow."),
        make_highlight(5, "Ebb", tags=[{"name": "h2"}]),
        make_highlight(6, "Wait."),
        make_highlight(7, "Somewhere.", location=None),
    )
    assert [(section.text, section.find_locator(0).chapter) for section in source.sections] == [
        ("Epigraph.", None),
        ("Soundings\n\nread twice", "Soundings"),
        ("Brown is shallow.", "Soundings"),
        ("Wait.", "Ebb"),
        ("Somewhere.", None),
    ]
    assert all(section.tags == () for section in source.sections)
    assert source.deleted_highlights == {"open/2", "open/5"}


def test_numbered_parts_are_one_passage(tmp_path: Path) -> None:
    place = {"location_type": "location"}
    source = read_book(
        tmp_path,
        make_highlight(1, "Part three.", ".c3"),
        make_highlight(2, "Water", ".c1 .colour True.", **place, tags=[{"name": "c1"}]),
        make_highlight(3, "Between."),
        make_highlight(4, "tells its depth", ".c2", is_favorite=True),
        make_highlight(5, "to few.", ".c4\nAlas.", tags=[{"name": "c4"}, {"name": "colour"}]),
        make_highlight(6, "Next", ".c1"),
        make_highlight(7, "one.", ".c2"),
    )
    assert get_texts(source) == [
        "Part three.",
        "Water … tells its depth … to few.\n\nTrue.\n\nAlas.",
        "Between.",
        "Next … one.",
    ]
    assert source.sections[1].find_locator(0).location == "2-5"
    assert source.sections[1].tags == ("colour", "favorite")
    assert source.deleted_highlights == {"open/4", "open/5", "open/7"}


@pytest.mark.parametrize(
    ("note", "text", "tags"),
    [
        (".ethics .work\nRemember.", "Words.\n\nRemember.", ("Work", "ethics")),
        (".été", "Words.", ("Work", "été")),
        ("Remember .ethics", "Words.\n\nRemember .ethics", ("Work",)),
        ("... and so on", "Words.\n\n... and so on", ("Work",)),
        (".5 is half", "Words.\n\n.5 is half", ("Work",)),
    ],
)
def test_words_after_dots_at_the_start_of_a_note_are_tags(
    tmp_path: Path, note: str, text: str, tags: tuple[str, ...]
) -> None:
    highlight = make_highlight(1, "Words.", note, tags=[{"name": "Work"}])
    source = read_book(tmp_path, highlight)
    assert [(section.text, section.tags) for section in source.sections] == [(text, tags)]
