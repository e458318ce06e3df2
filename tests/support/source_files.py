"""Writes files for tests of ingest, and reads sources, problems and warnings from them."""

import json
from datetime import UTC
from pathlib import Path
from typing import Any

from functions.jobs.ingest.batches import localize_dates
from functions.jobs.ingest.listing import read
from functions.jobs.ingest.readers.reading import InputProblem
from functions.jobs.ingest.readers.source_file import LinkList
from shared.knowledge.source import Source


def write_file(folder: Path, name: str, content: str | bytes) -> Path:
    """Write a file, and create its parent folders."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read_sources(path: Path) -> list[Source]:
    """Return the sources that could be read, in order, with dates as without `TIME_ZONE`."""
    return [localize_dates(source, UTC) for source in read(path) if isinstance(source, Source)]


def read_link_lists(path: Path) -> list[LinkList]:
    """Return the lists of links in a file or folder."""
    return [item for item in read(path) if isinstance(item, LinkList)]


def read_problems(path: Path) -> list[tuple[str, str]]:
    """Return the name of each item that could not be read, and why."""
    items = [item for item in read(path) if isinstance(item, InputProblem)]
    return [(item.name, item.reason) for item in items if not item.kept]


def read_warnings(path: Path) -> list[tuple[str, str]]:
    """Return the name of each item that was read only in part, and why."""
    items = [item for item in read(path) if isinstance(item, InputProblem)]
    return [(item.name, item.reason) for item in items if item.kept]


def read_only_source(path: Path) -> Source:
    """Return the only source in a file or folder."""
    [source] = read_sources(path)
    return source


def format_json_lines(*records: dict[str, Any]) -> str:
    """Format records as JSON Lines."""
    return "".join(json.dumps(record) + "\n" for record in records)


def make_readwise_book(**fields: Any) -> dict[str, Any]:
    """Return a book of a Readwise export; `fields` override the defaults."""
    return {"user_book_id": 7, "title": "Walden", "highlights": [{"text": "Simplify."}], **fields}


def write_export(folder: Path, *books: Any) -> Path:
    """Write a Readwise export of these books, and return its path."""
    return write_file(folder, "export.json", json.dumps({"count": len(books), "results": books}))
