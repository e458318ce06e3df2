"""Reads files as `carrel ingest` would, without writing anything."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

import click

from functions.jobs.ingest.batches import chunk_source
from functions.jobs.ingest.listing import FileListing, make_source_file
from functions.jobs.ingest.readers.reading import (
    InputProblem,
    describe_duplicate,
    detect_format,
    read_entries,
)
from functions.jobs.ingest.readers.source_file import LinkList, Unreadable
from infra.cli.formatting import format_table
from infra.local.jobs import MAX_PRINTED_FAILURES, MAX_PRINTED_WARNINGS, print_problems
from shared.ai.embedding import Purpose
from shared.text.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import PurePath

    from shared.ai.embedding import Embedder
    from shared.knowledge.source import Source
    from shared.text.splitting import Limits

_SAMPLE_SIZE: Final = 8
"""This many passages are embedded to estimate the time for all."""
_OTHER_STEPS: Final = 1.0
"""All other steps take as long as this multiple of the time for embedding. Sixty mixed files took
1.8 to 2.1 times as long as their embedding alone (`python -m benchmarks.ingest`)."""


@dataclass(slots=True)
class FormatCounts:
    """The numbers of files, sources and passages in one format."""

    files: int = 0
    sources: int = 0
    passages: int = 0


@dataclass(slots=True)
class PathContents:
    """The contents of the files at a path.

    Attributes:
        limits: How long passages are.
        counts: The numbers of files, sources and passages, by the name of their format.
        problems: The files and records that cannot be read, completely or in part.
        sample: The texts of some passages, from which the time for all is estimated.
        not_read: The numbers of files in other formats as a text, or an empty string.
        chunk_ids: The ids of the passages that were counted, by the id of their source.
    """

    limits: Limits
    counts: defaultdict[str, FormatCounts] = field(
        default_factory=lambda: defaultdict(FormatCounts)
    )
    problems: list[InputProblem] = field(default_factory=list)
    sample: list[str] = field(default_factory=list)
    not_read: str = ""
    chunk_ids: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def failures(self) -> list[InputProblem]:
        """The files and records that would be left out."""
        return [problem for problem in self.problems if not problem.kept]

    @property
    def passages(self) -> int:
        """The number of passages in all formats."""
        return sum(counts.passages for counts in self.counts.values())

    def add_source(self, record: str, source: Source, counts: FormatCounts) -> None:
        """Count a source and its passages. If it cannot be split into passages, add the problem."""
        try:
            chunks = chunk_source(source, self.limits).chunks
        except Unreadable as error:
            self.problems.append(InputProblem(record, str(error)))
            return
        counts.sources += source.source_id not in self.chunk_ids
        chunk_ids = self.chunk_ids[source.source_id]  # a book may be in several logs
        new = [chunk for chunk in chunks if chunk.chunk_id not in chunk_ids]
        chunk_ids.update(chunk.chunk_id for chunk in new)
        counts.passages += len(new)
        missing = _SAMPLE_SIZE - len(self.sample)
        self.sample += [chunk.embedding_text for chunk in islice(new, missing)]

    def print(self) -> None:
        """Print a table of the formats, and the numbers of files in other formats."""
        rows = [
            (name, f"{counts.files:,}", f"{counts.sources:,}", f"{counts.passages:,}")
            for name, counts in self.counts.items()
        ]
        if rows:
            click.echo(format_table(("FORMAT", "FILES", "SOURCES", "PASSAGES"), rows))
        if self.not_read:
            click.echo(f"Not read: {self.not_read}.")

    def print_problems(self) -> None:
        """Print everything that would be left out, and then warnings."""
        warnings = [problem for problem in self.problems if problem.kept]
        print_problems("left out", self.failures, MAX_PRINTED_FAILURES)
        print_problems("warning", warnings, MAX_PRINTED_WARNINGS)


def read_contents(
    listing: FileListing, limits: Limits, unchanged: Collection[PurePath] = ()
) -> PathContents:
    """Read the files of a path that `carrel ingest` would write or compare.

    Args:
        listing: The files.
        limits: How long passages are.
        unchanged: The files to skip, because they have not changed since they were ingested.
    """
    contents = PathContents(limits, problems=list(listing.problems), not_read=listing.not_read)
    record_names: dict[str, str] = {}
    for name in listing.files:
        if listing.folder / name in unchanged:
            continue
        file = make_source_file(name, listing)
        file_format = detect_format(file)
        if file_format is None:
            continue
        counts = contents.counts[file_format.name]
        counts.files += 1
        for record, entry in read_entries(file):
            if isinstance(entry, Unreadable):
                contents.problems.append(InputProblem(record, str(entry)))
                continue
            if isinstance(entry, LinkList):
                count = format_count(len(entry.links), "link")
                reasons = (f"lists {count}, which are not fetched", *entry.warnings)
                contents.problems += [InputProblem(record, reason, kept=True) for reason in reasons]
                continue
            if entry.source_id in record_names and not entry.adds_only:
                reason = describe_duplicate(record_names[entry.source_id])
                contents.problems.append(InputProblem(record, reason))
                continue
            record_names[entry.source_id] = record
            contents.problems += [
                InputProblem(record, warning, kept=True) for warning in entry.warnings
            ]
            contents.add_source(record, entry, counts)
    return contents


async def estimate_seconds(contents: PathContents, embedder: Embedder) -> float:
    """Estimate how long ingesting takes, by embedding the passages of the sample.

    The sample must not be empty.
    """
    await embedder.embed(contents.sample[:1], Purpose.DOCUMENT)  # loads the model
    start = time.monotonic()
    await embedder.embed(contents.sample, Purpose.DOCUMENT)
    seconds_per_passage = (time.monotonic() - start) / len(contents.sample)
    return seconds_per_passage * (1 + _OTHER_STEPS) * contents.passages


def format_duration(seconds: float) -> str:
    """Format a rough duration: `less than 10 seconds`, `about 40 seconds`, `about 3 minutes`."""
    if seconds < 10:  # noqa: PLR2004
        return "less than 10 seconds"
    if seconds < 90:  # noqa: PLR2004
        return f"about {round(seconds, -1):.0f} seconds"
    return f"about {format_count(round(seconds / 60), 'minute')}"
