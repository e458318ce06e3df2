"""Writes the texts of `benchmarks.assistant`, for ingestion and as plain Markdown files."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.scifact import read_rows
from benchmarks.synthetic import SUBJECT_COUNT, SyntheticTexts
from infra.local.sample.traces import PATH as TRACES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HIGHLIGHTS: Final = Path(__file__).parents[1] / "everyday" / "base.json"
MATERIAL: Final = json.loads(Path(__file__).with_name("material.json").read_text("utf-8"))
FILES: Final = {name: "\n".join(lines) for name, lines in MATERIAL["files"].items()}
"""Texts that are the same files in both forms."""


def read_fillers(corpus: Path | None, count: int) -> list[dict[str, str]]:
    """Return abstracts with their titles. Without a corpus, they consist of pseudo-words."""
    if corpus:
        return read_rows(corpus)[:count]
    write = SyntheticTexts().write_text
    return [
        {
            "_id": str(number),
            "title": write(number % SUBJECT_COUNT, number, 8),
            "text": write(number % SUBJECT_COUNT, number, 150),
        }
        for number in range(count)
    ]


def write_texts(origin: Path, markdown: Path, fillers: Sequence[Mapping[str, str]]) -> None:
    """Write the files to ingest, and a Markdown file for each source, trace and note."""
    papers = {"papers.jsonl": "\n".join(map(json.dumps, fillers))}
    highlights = {"highlights.json": HIGHLIGHTS.read_text("utf-8")}
    files = {origin: FILES | papers | highlights, markdown: FILES | dict(_iterate(fillers))}
    for folder, texts in files.items():
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", "utf-8")
            os.utime(path, (0, 0))  # so that `find -mtime` lists only what requests changed


def _iterate(fillers: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    for book in json.loads(HIGHLIGHTS.read_text("utf-8"))["results"]:
        passages = [f"{item['highlighted_at'][:10]}: {item['text']}" for item in book["highlights"]]
        fields = book | {"tags": [tag["name"] for tag in book["book_tags"]]}
        yield _make_file(f"sources/{passages[0][:10]} ", fields, *passages)
    for filler in fillers:
        yield _make_file("papers/", filler, filler["text"])
    for trace in json.loads(TRACES.read_text("utf-8")):
        yield _make_file("traces/", trace, trace["context_text"], trace["solution_text"])
    for arguments in (call["arguments"] for call in MATERIAL["calls"]):
        if "tasks" in arguments:
            yield "todo.md", "\n".join(map(_format_task, arguments["tasks"]))
        else:
            yield _make_file("notes/", arguments, arguments["text"])


def _make_file(prefix: str, fields: Mapping[str, Any], *paragraphs: str) -> tuple[str, str]:
    """Return the name of a Markdown file, beginning with the prefix, and its text."""
    names = ("title", "author", "category", "language", "tags")
    head = [f"{key}: {fields[key]}" for key in names if key in fields]
    text = "\n\n".join(["\n".join(["---", *head, "---"]), *paragraphs])
    name = re.sub(r"[^/\w]+", "-", prefix + fields["title"].lower())
    return f"{name[:80]}.md", text


def _format_task(task: Mapping[str, str]) -> str:
    due = f" (due {task['due_date']})" if "due_date" in task else ""
    return f"- [ ] {task['title']}{due} {task.get('description', '')}".rstrip()
