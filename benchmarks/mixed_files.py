"""Sixty files with SciFact's abstracts: notes, plain texts, JSON Lines and Readwise exports."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from benchmarks.scifact import ABSTRACTS, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOTE_COUNT: Final = 36
REPORT_COUNT: Final = 14
JSON_LINES_COUNT: Final = 5
EXPORT_COUNT: Final = 5


def write_mixed_files(folder: Path) -> None:
    """Write the files, with 1 to 8 abstracts each."""
    abstracts = iter(read_rows(ABSTRACTS))
    for number in range(NOTE_COUNT):
        note = _make_note(number, list(islice(abstracts, 1 + number % 5)))
        (folder / f"2024-03-{1 + number % 28:02} Note {number}.md").write_text(note, "utf-8")
    for number in range(REPORT_COUNT):
        paragraphs = (f"{row['title']}\n\n{row['text']}" for row in islice(abstracts, 5))
        (folder / f"report-{number}.txt").write_text("\n\n".join(paragraphs), "utf-8")
    for number in range(JSON_LINES_COUNT):
        records = "\n".join(json.dumps(row) for row in islice(abstracts, 6))
        (folder / f"papers-{number}.jsonl").write_text(records, "utf-8")
    for number in range(EXPORT_COUNT):
        book = json.dumps({"results": [_make_book(number, islice(abstracts, 8))]})
        (folder / f"readwise-{number}.json").write_text(book, "utf-8")


def _make_note(number: int, abstracts: list[dict[str, Any]]) -> str:
    title = json.dumps(abstracts[0]["title"])
    tags = f"[science, tag{number % 9}]"
    body = "\n\n".join(f"## {row['title']}\n\n{row['text']}" for row in abstracts)
    return f"---\ntitle: {title}\nauthor: Author {number % 7}\ntags: {tags}\n---\n\n{body}\n"


def _make_book(number: int, abstracts: Iterator[dict[str, Any]]) -> dict[str, Any]:
    return {
        "user_book_id": 1_000 + number,
        "title": f"Book {number}",
        "author": f"Author {number}",
        "source": "kindle",
        "category": "books",
        "book_tags": [{"id": 1, "name": "science"}],
        "highlights": [
            {"id": 100 * number + position, "text": row["text"], "highlighted_at": "2024-05-03"}
            for position, row in enumerate(abstracts)
        ],
    }
