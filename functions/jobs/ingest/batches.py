"""From a source to what the database is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from functions.jobs.ingest.readers.decoding import Unreadable
from shared.knowledge.chunk import chunks_of
from shared.knowledge.ingestion import BLOCK, ChunkedSource
from shared.knowledge.source import Source
from shared.text.chunking import split_chunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BLOCK_CHARACTERS: Final = 4_000_000
"""Of the sources of a block together: chunks take many times what their text does."""


@dataclass(slots=True)
class SourceBatch:
    """Sources that are saved together.

    Attributes:
        fit: Those that can be.
        unfit: Those that cannot, each with the reason.
    """

    fit: list[ChunkedSource] = field(default_factory=list)
    unfit: list[tuple[Source, str]] = field(default_factory=list)

    def add(self, source: Source) -> None:
        """Chunk one more, if it can be."""
        try:
            self.fit.append(chunked(source))
        except Unreadable as error:
            self.unfit.append((source, str(error)))

    def __len__(self) -> int:
        """How many sources there are."""
        return len(self.fit) + len(self.unfit)


def chunked(source: Source) -> ChunkedSource:
    """Cut a source into chunks. A megabyte takes a second: not on the event loop.

    Raises:
        Unreadable: It fits no document.
    """
    spans = [split_chunks(section.text) for section in source.sections]
    made = ChunkedSource(source, chunks_of(source, spans))
    if excess := made.excess:
        raise Unreadable(excess)
    return made


def blocks(sources: Iterable[Source]) -> Iterator[SourceBatch]:
    """Chunk sources, thirty at a time, or fewer long ones."""
    block = SourceBatch()
    characters = 0
    for source in sources:
        block.add(source)
        characters += sum(len(section.text) for section in source.sections)
        if len(block) == BLOCK or characters >= BLOCK_CHARACTERS:
            yield block
            block, characters = SourceBatch(), 0
    if block:
        yield block


def gone(source_id: str) -> ChunkedSource:
    """A source that is to be deleted."""
    return ChunkedSource(Source(source_id, title=source_id), [])
