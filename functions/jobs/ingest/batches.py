"""Splits sources into chunks, and saves them in batches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.missing_sources import MissingSources
from functions.jobs.ingest.readers.source_file import Unreadable
from shared.core.dates import localize
from shared.text.spans import Span
from shared.text.splitting import split_chunks
from shared.writer.chunked_source import ChunkedSource
from shared.writer.ingestion import BATCH_SIZE, Ingestion
from shared.writer.source_chunks import split_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime, tzinfo

    from shared.knowledge.source import Source
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report
    from shared.text.splitting import Limits

MAX_CHARACTERS: Final = 4_000_000
"""A batch ends at this many characters, because chunks need many times the memory of their text."""


@dataclass(slots=True)
class SourceBatch:
    """Sources that are saved together.

    Attributes:
        rejected: The sources that cannot be saved, each with the reason.
    """

    accepted: list[ChunkedSource] = field(default_factory=list)
    rejected: list[tuple[Source, str]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def add(self, source: Source, limits: Limits, zone: tzinfo) -> None:
        """Chunk a source, and add it."""
        self.ids.add(source.source_id)
        try:
            self.accepted.append(chunk_source(source, limits, zone))
        except Unreadable as error:
            self.rejected.append((source, str(error)))

    def __len__(self) -> int:
        """The number of sources."""
        return len(self.accepted) + len(self.rejected)


def chunk_source(source: Source, limits: Limits, zone: tzinfo = UTC) -> ChunkedSource:
    """Split a source into chunks. A megabyte takes a second, so this must not block the event loop.

    The chunks of a Carrel export keep their boundaries.

    Args:
        zone: The time zone of dates for which its file names none.

    Raises:
        Unreadable: A field of the source is too large for a document.
    """
    source = localize_dates(source, zone)
    spans = [
        split_chunks(section.text, limits)
        if section.start is None
        else [Span(0, len(section.text))]
        for section in source.sections
    ]
    chunked = ChunkedSource(source, split_source(source, spans))
    if excess := chunked.excess:
        raise Unreadable(excess)
    return chunked


def localize_dates(source: Source, zone: tzinfo) -> Source:
    """Return the source with its dates in UTC."""

    def convert(moment: datetime | None) -> datetime | None:
        return localize(moment, zone) if moment else None

    sections = (
        replace(
            section,
            highlighted_at=convert(section.highlighted_at),
            written_at=convert(section.written_at),
            published_at=convert(section.published_at),
            saved_at=convert(section.saved_at),
        )
        for section in source.sections
    )
    return replace(source, sections=tuple(sections))


def chunk_in_batches(
    sources: Iterable[Source], limits: Limits, zone: tzinfo = UTC
) -> Iterator[SourceBatch]:
    """Chunk sources in batches of thirty, or fewer if the texts are long.

    A batch has no id twice: of a book in several logs, one is saved after the other.

    Args:
        zone: The time zone of dates for which their files name none.
    """
    batch = SourceBatch()
    characters = 0
    for source in sources:
        if source.source_id in batch.ids:
            yield batch
            batch, characters = SourceBatch(), 0
        batch.add(source, limits, zone)
        characters += sum(len(section.text) for section in source.sections)
        if len(batch) == BATCH_SIZE or characters >= MAX_CHARACTERS:
            yield batch
            batch, characters = SourceBatch(), 0
    if batch:
        yield batch


async def save_sources(
    sources: Sequence[ChunkedSource],
    ctx: Context,
    report: Report,
    *,
    keeps_replaced: bool = False,
) -> dict[str, str]:
    """Save the sources that differ from the database, and forget those without chunks.

    A source that was missing and has come back is restored before it is compared. A log of
    additions forgets a source only if it says that it was deleted. Such a source stays out although
    an older log may still have it.

    Args:
        sources: At most 30 sources with different ids.
        report: Receives the counts of `Ingestion.save_each`, and of chunks that were `restored`.
        keeps_replaced: Whether chunks that another version replaces can be restored.

    Returns:
        The ids of the sources that the database refuses, each with the reason.
    """
    missing = MissingSources(ctx, report)
    deleted = [read.source for read in sources if not read.chunks]
    await missing.forget([source.source_id for source in deleted if not source.adds_only])
    await missing.forget(
        [source.source_id for source in deleted if source.adds_only and source.is_deleted],
        stays=True,
    )
    ingestion = Ingestion(ctx.database, missing.build_keep_writes, keeps_replaced=keeps_replaced)
    saved = await ingestion.save_each(
        [read for read in sources if read.chunks or read.deletes_highlights], ctx.clock()
    )
    report.counts += saved.counts
    report.removed["passages"] += saved.removed
    await missing.forget(sorted(saved.emptied))
    if not saved.missing:
        return saved.refused
    await missing.restore(sorted(saved.missing))
    returned = [chunked for chunked in sources if chunked.source.source_id in saved.missing]
    saved_again = await ingestion.save_each(returned, ctx.clock())
    report.counts += saved_again.counts
    return saved.refused | saved_again.refused


async def save_batch(
    batch: SourceBatch, ctx: Context, budget: Budget, report: Report
) -> list[tuple[Source, str]]:
    """Save the sources of a batch that differ from the database.

    Returns:
        The sources that were not saved, each with the reason.
    """
    refused = await save_sources(batch.accepted, ctx, report)
    sources = (chunked.source for chunked in batch.accepted)
    rejected = [
        (source, refused[source.source_id]) for source in sources if source.source_id in refused
    ]
    report.counts["read"] += len(batch.accepted) - len(rejected)
    budget.progress(len(batch))
    return batch.rejected + rejected
