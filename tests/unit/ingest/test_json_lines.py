"""Lines of JSON become sources; invalid lines are reported by number, and the others are read."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from functions.jobs.ingest.listing import read
from shared.core.ids import IdKind, make_id
from shared.knowledge.source import Section, Source
from tests.support.source_files import (
    format_json_lines,
    read_only_source,
    read_problems,
    read_sources,
    read_warnings,
    write_file,
)


def write_dated(folder: Path, date: Any) -> Path:
    line = {"id": "1", "text": "x", "date": date}
    return write_file(folder, "docs.jsonl", format_json_lines(line))


def test_a_line_becomes_a_source(tmp_path: Path) -> None:
    line = {
        "id": "doc-1",
        "title": "A title",
        "text": "Some\r\ntext.",
        "author": "Ann",
        "tags": ["a", {"name": "b"}, 3, None],
        "source": "wiki",
        "category": "articles",
        "language": "en",
        "url": "https://example.com",
        "highlight_url": "https://example.com#1",
        "readwise_url": "https://readwise.io/open/1",
        "date": "2024-05-31T12:00:00+02:00",
        "unknown": {"is": "ignored"},
    }
    section = Section(
        "Some\ntext.",
        readwise_url="https://readwise.io/open/1",
        highlight_url="https://example.com#1",
        highlighted_at=datetime(2024, 5, 31, 10, tzinfo=UTC),
        written_at=datetime(2024, 5, 31, 10, tzinfo=UTC),
    )
    expected = Source(
        source_id=make_id(IdKind.RECORD, f"{tmp_path.name}-doc-1"),
        title="A title",
        author="Ann",
        origin="wiki",
        category="articles",
        language="en",
        tags=("a", "b", "3"),
        source_url="https://example.com",
        sections=(section,),
    )
    assert read_only_source(write_file(tmp_path, "docs.jsonl", format_json_lines(line))) == expected


def test_a_corpus_in_beirs_format_is_read(tmp_path: Path) -> None:
    line = {"_id": 31715818, "title": "", "text": "New opportunities. " * 9, "metadata": {}}
    source = read_only_source(write_file(tmp_path, "corpus.jsonl", format_json_lines(line)))
    assert source.source_id == make_id(IdKind.RECORD, f"{tmp_path.name}-31715818")
    assert source.title == "New opportunities. " * 4 + "New…"
    assert source.origin == "jsonl"


def test_invalid_lines_are_reported_and_others_are_read(tmp_path: Path) -> None:
    content = b"\n".join(
        [
            b'\xef\xbb\xbf{"id": "first", "text": "x"}',
            b'{"id": "cut", "text": "x',
            b"",
            b'{"id": "latin", "text": "caf\xe9"}',
            b'{"text": "x"}',
            b'{"id": " ", "text": "x"}',
            b'{"id": "empty", "title": "Only a title"}',
            b'["a", "list"]',
            b'{"id": "who", "text": "x", "author": {}}',
            b'{"id": "first", "text": "again"}',
            b'{"id": "last", "text": "x"}',
        ]
    )
    path = write_file(tmp_path, "file.jsonl", content)
    expected = [
        ("file.jsonl line 2", "is not JSON: Unterminated string starting at (column 23)"),
        ("file.jsonl line 4", "is not UTF-8: byte 0xe9 at position 28; save it as UTF-8"),
        ("file.jsonl line 5", "id: Field required"),
        ("file.jsonl line 6", "id: String should have at least 1 character"),
        ("file.jsonl line 7", "has no text"),
        ("file.jsonl line 8", "is not a JSON object"),
        ("file.jsonl line 9", "author: Input should be a valid string"),
        ("file.jsonl line 10", "has the id of file.jsonl line 1; keep one of the two"),
    ]
    assert read_problems(path) == expected
    assert [source.source_id for source in read_sources(path)] == [
        make_id(IdKind.RECORD, f"{tmp_path.name}-first"),
        make_id(IdKind.RECORD, f"{tmp_path.name}-last"),
    ]


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    content = (
        r'{"id": "1", "title": "\ud83d", "text": "\ud83d\ude00 \ude00\u0000", "tags": ["\udfff"]}'
    )
    source = read_only_source(write_file(tmp_path, "docs.jsonl", content))
    assert source.title == "\ufffd"
    assert source.text == "\U0001f600 \ufffd"
    assert source.tags == ("\ufffd",)


@pytest.mark.parametrize(
    ("date", "moment"),
    [
        ("2024-05-31", datetime(2024, 5, 31, tzinfo=UTC)),
        ("2024-05-31 12:30", datetime(2024, 5, 31, 12, 30, tzinfo=UTC)),
        ("2024-05-31T12:30:00Z", datetime(2024, 5, 31, 12, 30, tzinfo=UTC)),
        ("2024-05-31T12:30:00.5-05:30", datetime(2024, 5, 31, 18, 0, 0, 500000, tzinfo=UTC)),
        (2024, datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-05", datetime(2024, 5, 1, tzinfo=UTC)),
        ("", None),
        (None, None),
    ],
)
def test_a_date_without_a_zone_is_utc_and_a_year_its_first_day(
    tmp_path: Path, date: Any, moment: datetime | None
) -> None:
    assert read_only_source(write_dated(tmp_path, date)).sections[0].highlighted_at == moment


@pytest.mark.parametrize("date", [24, "May 31", "0001-01-01T00:00:00+14:00", [1]])
def test_an_invalid_date_is_dropped_from_its_line(tmp_path: Path, date: Any) -> None:
    path = write_dated(tmp_path, date)
    ((name, reason),) = read_warnings(path)
    assert name == "docs.jsonl line 1"
    assert reason.startswith("date: ")
    assert read_only_source(path).sections == (Section("x"),)


def test_two_invalid_dates_are_both_dropped(tmp_path: Path) -> None:
    line = {"id": "1", "text": "x", "highlighted_at": "soon", "date": "later"}
    path = write_file(tmp_path, "docs.jsonl", format_json_lines(line))
    ((_, reason),) = read_warnings(path)
    assert "“soon”" in reason
    assert "“later”" in reason
    assert read_only_source(path).sections == (Section("x"),)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_lines_in_utf_16_are_read_by_their_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    text = "\u0a0a \u2028 \U0001f600"  # bytes of line feeds, and a line separator
    content = json.dumps({"id": "1", "text": text}, ensure_ascii=False) + "\r\n\r\n{\r\n"
    path = write_file(tmp_path, "docs.jsonl", f"\ufeff{content}".encode(encoding))
    assert read_only_source(path).text == text
    ((name, _),) = read_problems(path)
    assert name == "docs.jsonl line 3"


def test_a_truncated_utf_16_file_is_reported(tmp_path: Path) -> None:
    path = write_file(
        tmp_path, "docs.jsonl", format_json_lines({"id": "1", "text": "x"}).encode("utf-16")[:-1]
    )
    ((name, reason),) = read_problems(path)
    assert name == "docs.jsonl"
    assert reason.startswith("has a UTF-16 byte order mark, but is not UTF-16: ")


def test_a_file_is_read_lazily(tmp_path: Path) -> None:
    path = write_file(tmp_path, "docs.jsonl", format_json_lines({"id": "1", "text": "x"}))
    reading = read(path)
    path.write_text(
        format_json_lines({"id": "2", "text": "written before the first was asked for"})
    )
    assert [source.source_id for source in reading if isinstance(source, Source)] == [
        make_id(IdKind.RECORD, f"{tmp_path.name}-2")
    ]
