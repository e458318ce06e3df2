"""Exports of Carrel are read unchanged; an incomplete or invalid source is reported.

An export has JSON lines: a header, then a source, its chunks and the number of its chunks.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from shared.core.errors import InvalidInput
from shared.knowledge.export_lines import HEADER
from tests.support.source_files import (
    format_json_lines,
    read_only_source,
    read_problems,
    read_sources,
    write_file,
)

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SOURCE: dict[str, Any] = {"source_id": "aa", "title": "A"}
CHUNK: dict[str, Any] = {"chunk_id": "aa-1", "start": 0, "text": "One."}


def write_carrel_export(folder: Path, *lines: dict[str, Any]) -> Path:
    return write_file(folder, "export.jsonl", format_json_lines(HEADER, *lines))


def test_every_field_is_read_unchanged(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    source = {
        "source_id": "aa",
        "title": " A\x1b ",
        "author": "Ann",
        "origin": "kindle",
        "category": "books",
        "tags": ["#x", "y, z"],
        "readwise_url": "https://readwise.io/1",
        "source_url": "https://example.com",
        "language": "en",
        "markdown": True,
        "created_at": "2026-01-31T13:00:00+01:00",
        "updated_at": NOON.isoformat(),
    }
    card = {"summary": "S", "takeaways": ["T"], "model": "m", "generated_at": NOON.isoformat()}
    chunk = {
        "start": 7,
        "text": " One.\r\n",
        "tags": ["own"],
        "readwise_url": "https://readwise.io/open/1",
        "highlight_url": "https://example.com/#1",
        "highlighted_at": NOON.isoformat(),
        "dated_at": NOON.isoformat(),
        "date_meaning": "written",
        "page": 3,
        "page_starts": [2],
        "chapter": "Tests",
        "location": "120-123",
        "card": card,
    }
    path = write_carrel_export(tmp_path, {"source": source}, {"chunk": chunk}, {"chunks": 1})

    source_read = read_only_source(path)
    assert source_read == snapshot
    assert source_read.sections[0].text == " One.\r\n"  # a snapshot has no carriage returns


def test_only_the_data_files_of_an_export_folder_are_read(tmp_path: Path) -> None:
    lines = format_json_lines(HEADER, {"source": SOURCE}, {"chunk": CHUNK}, {"chunks": 1})
    write_file(tmp_path, "carrel-export.json", "{}")
    write_file(tmp_path, "knowledge-00001.jsonl", lines)
    write_file(tmp_path, "traces.jsonl", format_json_lines({"id": "t", "text": "A trace."}))
    write_file(tmp_path, "markdown/sources/a.md", "A copy for people.")
    assert [source.source_id for source in read_sources(tmp_path)] == ["aa"]


def test_an_export_without_its_data_files_is_refused(tmp_path: Path) -> None:
    write_file(tmp_path, "carrel-export.json", "{}")
    write_file(tmp_path, "markdown/sources/a.md", "A copy for people.")
    with pytest.raises(InvalidInput, match="is a Carrel export without"):
        read_sources(tmp_path)


@pytest.mark.parametrize(
    ("source", "chunk", "count", "reason"),
    [
        ({}, None, None, "is incomplete: 0 passages were read"),
        ({}, None, 0, "is incomplete: 0 passages were read"),
        ({}, {}, None, "is incomplete: 0 passages were read"),
        ({}, {}, 2, "is incomplete: 1 passages were read"),
        (None, {}, 1, "is incomplete: 0 passages were read"),
        ({"source_id": "a/b"}, {}, 1, "source_id: "),
        ({"source_id": "longer-than-12"}, {}, 1, "source_id: "),
        ({"title": None}, {}, 1, "title: "),
        ({"author": 7}, {}, 1, "author: "),
        ({"origin_values": {"title": ""}}, {}, 1, "origin_values.title: "),
        ({"title": "\ud800"}, {}, 1, "line 2 has a character"),
        ({}, {"start": -1}, 1, "start: "),
        ({}, {"text": ""}, 1, "text: "),
        ({}, {"text": "\ud800"}, 1, "line 3 has a character"),
        ({}, {"tags": ["\ud800"]}, 1, "line 3 has a character"),
    ],
)
def test_an_invalid_source_is_reported_and_others_are_read(
    tmp_path: Path,
    source: dict[str, Any] | None,
    chunk: dict[str, Any] | None,
    count: int | None,
    reason: str,
) -> None:
    """A line of the first source that is `None` is missing, and the second source is valid."""
    lines: list[dict[str, Any]] = []
    if source is not None:
        lines.append({"source": SOURCE | source})
    if chunk is not None:
        lines.append({"chunk": CHUNK | chunk})
    if count is not None:
        lines.append({"chunks": count})
    lines += [{"source": {**SOURCE, "source_id": "valid"}}, {"chunk": CHUNK}, {"chunks": 1}]
    path = write_carrel_export(tmp_path, *lines)

    [(name, problem)] = read_problems(path)

    assert name == "export.jsonl line 2"
    assert problem.startswith(reason)
    assert [entry.source_id for entry in read_sources(path)] == ["valid"]


def test_a_line_that_is_not_json_is_reported_by_number(tmp_path: Path) -> None:
    lines = [json.dumps(HEADER), json.dumps({"source": SOURCE}), "{", json.dumps({"chunks": 1})]
    path = write_file(tmp_path, "export.jsonl", "\n".join(lines))
    [(name, reason)] = read_problems(path)
    assert name == "export.jsonl line 2"
    assert reason.startswith("line 3 is not JSON")


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ('{"carrel_export": 2}', "is an export of another Carrel version: update this"),
        ('["carrel_export"]', "has a first line that mentions carrel_export, but is not an export"),
    ],
)
def test_another_header_is_reported(tmp_path: Path, header: str, reason: str) -> None:
    [(name, problem)] = read_problems(write_file(tmp_path, "export.jsonl", f"{header}\n"))
    assert name == "export.jsonl"
    assert problem.removesuffix(" installation") == reason
