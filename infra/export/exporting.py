"""Writes a knowledge base to a folder, from which it can be restored."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from infra.export import markdown
from shared.firestore.retention import ERASURE_BEGUN
from shared.knowledge.chunk_repository import Chunks
from shared.knowledge.export_lines import (
    FORMAT,
    HEADER,
    MANIFEST,
    build_chunk_line,
    build_end_line,
    build_source_line,
)
from shared.knowledge.reviews import load_reviews
from shared.knowledge.source_repository import Sources
from shared.tasks.model import TaskStatus
from shared.tasks.repository import TaskFilter, Tasks, make_task_key
from shared.traces.repository import Traces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import tzinfo
    from io import BufferedWriter
    from pathlib import Path

    from shared.firestore.database import Database
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.source_repository import StoredSource

FILES: Final = ("knowledge-*.jsonl", "traces.jsonl", "tasks.jsonl", "reviews.jsonl", "markdown")
"""Patterns of the files that an export contains in addition to its manifest."""
PART_BYTES: Final = 64_000_000
"""A new file of sources begins when a file exceeds this size. Ingest reads up to 256 MB a file."""
_SOURCES_PER_READ: Final = 8
"""The first chunks of this many sources are read at the same time."""
_CHUNKS_PER_PAGE: Final = 50
"""One read returns at most this many chunks of a source."""
_ENTRIES_PER_PAGE: Final = 100
"""One read returns at most this many traces or tasks."""
_EXPORTED_TASKS: Final = TaskFilter([TaskStatus.OPEN, TaskStatus.COMPLETED])
"""All tasks except deleted ones."""


@dataclass(slots=True)
class ExportReport:
    """The contents of an export.

    Attributes:
        counts: The numbers of sources, passages, traces, tasks and reviews.
        left_out: The number of passages left out because of the tag `keep-out`.
        incomplete: The ids of sources whose number of chunks differs from their `chunk_count`,
            because the source changed during the export or is not ingested completely.
    """

    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("sources", "passages", "traces", "tasks", "reviews"), 0
        )
    )
    left_out: int = 0
    incomplete: list[str] = field(default_factory=list)


async def export_all(  # noqa: PLR0913 - keywords, each with its meaning
    database: Database,
    folder: Path,
    user: str | None,
    advance: Callable[[int], object],
    zone: tzinfo,
    *,
    with_kept_out: bool = False,
) -> ExportReport:
    """Write all sources, and the traces, tasks and reviews of a user, to an empty folder.

    Documents are read in pages, so memory does not grow with the knowledge base.

    Args:
        database: The database.
        folder: The empty folder.
        user: The user whose traces, tasks and reviews are written, or None to write none.
        advance: Called with the number of sources that were written since the last call.
        zone: The time zone of the owner's days.
        with_kept_out: Whether to write also what has the tag `keep-out`.
    """
    report = ExportReport()
    knowledge = _Knowledge(database, folder, report, zone, with_kept_out=with_kept_out)
    await knowledge.write(advance)
    if user:
        report.counts["traces"] = await _write_lines(
            folder / "traces.jsonl", _iterate_traces(database, user)
        )
        report.counts["tasks"] = await _write_lines(
            folder / "tasks.jsonl", _iterate_tasks(database, user)
        )
        report.counts["reviews"] = await _write_lines(
            folder / "reviews.jsonl", _iterate_reviews(database, user)
        )
    manifest = {"format": FORMAT, **report.counts, "incomplete": report.incomplete}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    return report


class _Knowledge:
    """Writes the sources twice: as JSON lines to restore them, and as Markdown for people."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        report: ExportReport,
        zone: tzinfo,
        *,
        with_kept_out: bool,
    ) -> None:
        self._sources = Sources(database)
        self._chunks = Chunks(database)
        self._folder = folder
        self._report = report
        self._zone = zone
        self._with_kept_out = with_kept_out
        self._producer = f"carrel/{version('carrel')}"
        self._parts = 0
        (folder / "markdown" / "sources").mkdir(parents=True)

    async def write(self, advance: Callable[[int], object]) -> None:
        """Write all sources, and call `advance` with the number of those written at a time."""
        lines = self._open_next_part()
        index: list[str] = []
        after = None
        try:
            while entries := await self._sources.load_after(after, _SOURCES_PER_READ):
                pages = await asyncio.gather(
                    *(self._load_first_page(source) for source, _ in entries)
                )
                for (source, note), page in zip(entries, pages, strict=True):
                    if self._is_left_out(source, page):
                        self._report.left_out += source.chunk_count
                        continue
                    if lines.tell() > PART_BYTES:
                        lines.close()
                        lines = self._open_next_part()
                    lines.write(_to_line(build_source_line(source, note)))
                    await self._write_chunks(source, page, lines)
                    index.append(markdown.format_index_entry(source))
                advance(len(entries))
                after = entries[-1][0].source_id
        finally:
            lines.close()
        text = markdown.INDEX_HEAD + "".join(sorted(index, key=str.casefold))
        (self._folder / "markdown" / "index.md").write_text(text, encoding="utf-8")

    def _open_next_part(self) -> BufferedWriter:
        """Open the next file of sources, and write the header that each file has."""
        self._parts += 1
        file = (self._folder / f"knowledge-{self._parts:05}.jsonl").open("wb")
        file.write(_to_line(HEADER))
        return file

    def _is_left_out(self, source: StoredSource, page: list[Chunk]) -> bool:
        """Return whether a source is kept out, or each passage of one that has a single page."""
        if self._is_exported(source):
            is_single = 0 < len(page) < _CHUNKS_PER_PAGE
            return is_single and not any(map(self._is_exported, page))
        return True

    def _is_exported(self, item: StoredSource | Chunk) -> bool:
        return self._with_kept_out or not item.is_kept_out

    async def _load_first_page(self, source: StoredSource) -> list[Chunk]:
        return await self._chunks.load_of_source(source.source_id, _CHUNKS_PER_PAGE)

    async def _write_chunks(
        self, source: StoredSource, page: list[Chunk], lines: BufferedWriter
    ) -> None:
        """Write the chunks of a source, and count the source in the report.

        Args:
            source: The source.
            page: The first page of its chunks. The others are read here.
            lines: The file for the JSON lines.
        """
        name = markdown.get_file_name(source)
        count = left_out = end = 0
        with (self._folder / "markdown" / "sources" / name).open("w", encoding="utf-8") as text:
            text.write(markdown.format_front_matter(source, self._producer))
            while page:
                exported = list(filter(self._is_exported, page))
                for chunk in exported:
                    lines.write(_to_line(build_chunk_line(chunk, source)))
                    text.write(markdown.format_passage(chunk, source, end, self._zone))
                    end = chunk.end
                count += len(exported)
                left_out += len(page) - len(exported)
                first = page[-1].position + 1
                page = (
                    await self._chunks.load_of_source(source.source_id, _CHUNKS_PER_PAGE, first)
                    if len(page) == _CHUNKS_PER_PAGE
                    else []
                )
        lines.write(_to_line(build_end_line(count, left_out)))
        if count + left_out != source.chunk_count:
            self._report.incomplete.append(source.source_id)
        self._report.counts["sources"] += 1
        self._report.counts["passages"] += count
        self._report.left_out += left_out


async def _iterate_traces(database: Database, user: str) -> AsyncIterator[dict[str, Any]]:
    after = None
    while page := await Traces(database).list_by_contributor(user, _ENTRIES_PER_PAGE, after):
        for trace in page:
            fields = asdict(trace)
            if trace.withdrawn_at != ERASURE_BEGUN:  # the job `purge` is deleting it
                yield {"trace_id": trace.trace_id, **fields.pop("content"), **fields}
        after = page[-1].trace_id


async def _iterate_tasks(database: Database, user: str) -> AsyncIterator[dict[str, Any]]:
    after = None
    while page := await Tasks(database, user).load_page(_EXPORTED_TASKS, _ENTRIES_PER_PAGE, after):
        for task in page:
            yield asdict(task)
        after = make_task_key(page[-1])


async def _iterate_reviews(database: Database, user: str) -> AsyncIterator[dict[str, Any]]:
    stored = await load_reviews(database, user)
    for chunk_id, review in stored.by_chunk.items():
        yield {"chunk_id": chunk_id, "due": review.due, **asdict(review)}


async def _write_lines(path: Path, entries: AsyncIterator[dict[str, Any]]) -> int:
    """Write entries as JSON lines, without fields that are None. Return the number of entries."""
    count = 0
    with path.open("wb") as file:
        async for entry in entries:
            fields = {name: value for name, value in entry.items() if value is not None}
            file.write(_to_line(fields))
            count += 1
    return count


def _to_line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=_to_text).encode() + b"\n"


def _to_text(value: object) -> str:
    """Convert a value that JSON does not support: a date, or a time."""
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
