"""Read a passage: extract what a language model finds in it, verify it, and mark duplicates."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.ai.generation import count_tokens
from shared.extractions.deduplication import (
    CANDIDATES,
    drop_duplicates,
    find_original,
    min_similarity,
    with_similarity,
)
from shared.extractions.prompt import INSTRUCTION, Findings, passage_prompt
from shared.extractions.quotes import build_extractions, count_findings
from shared.extractions.repository import Extractions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from shared.ai.embedding import Vector
    from shared.ai.generation import Generator
    from shared.extractions.deduplication import Embedded, Similar
    from shared.extractions.model import Extraction
    from shared.knowledge.queue import PendingChunk, StepResult
    from shared.runtime.context import Context
    from shared.runtime.job import Report

MIN_CHARACTERS: Final = 80
"""The length from which a passage is read: shorter ones explain and discuss nothing."""
PROBE: Final = "Carrel is a small room for reading in a library."
"""A passage that every working model can read, and in which there is nothing to find."""


class ReadingOrder:
    """The order in which passages that are read at the same time look for duplicates.

    They are stored together, so the database cannot find them yet. Each looks among the ones before
    it, in the order in which they started, whichever the model answers first. So the same passages
    give the same extractions, in however many runs they are read.

    Attributes:
        visible: The visible extractions of the passages whose turn is over.
        replaced: The ids of the stored extractions that the passages replace.
    """

    def __init__(self) -> None:
        """Start without passages."""
        self.visible: list[tuple[Extraction, Vector]] = []
        self.replaced: set[str] = set()
        self._size = 0
        self._last = asyncio.Event()
        self._last.set()

    @asynccontextmanager
    async def join(self, chunk: PendingChunk) -> AsyncIterator[Callable[[], Awaitable[object]]]:
        """Take part for the block; yields a function that waits for the chunk's turn."""
        if not self._size:
            self.visible.clear()
            self.replaced.clear()
        self._size += 1
        self.replaced |= chunk.extracted.keys()
        previous, own = self._last, asyncio.Event()
        self._last = own
        try:
            await asyncio.sleep(0)  # all chunks join before the first one continues
            yield previous.wait
        finally:
            try:
                # A chunk that fails early must not let the next one overtake the previous one.
                await previous.wait()
            finally:  # a cancelled chunk must not block the others
                self._size -= 1
                own.set()


class PassageReader:
    """Reads passages, each with one request to the model."""

    def __init__(self, ctx: Context, generator: Generator, report: Report) -> None:
        """Count what is found in `report`."""
        self._context = ctx
        self._generator = generator
        self._counts = report.counts
        self._order = ReadingOrder()

    async def read(self, chunk: PendingChunk) -> StepResult:
        """Extract what a passage contains, to replace the extractions of its chunk.

        Raises:
            CarrelError: The model or the embedder fails, or refuses this text.
        """
        async with self._order.join(chunk) as turn:
            extractions = await self._embed(await self._extract(chunk))
            neighbours = await asyncio.gather(*map(self._neighbours, extractions))
            await turn()
            marked = list(map(self._mark_duplicate, extractions, neighbours))
        return Extractions(self._context.database).replacement(
            chunk, marked, self._context.embedder.model
        )

    async def probe(self) -> None:
        """Read and embed a harmless passage.

        Raises:
            CarrelError: Any passage would fail.
        """
        await self._generate(PROBE)
        await self._context.embedder.embed([PROBE], Purpose.DOCUMENT)

    async def _extract(self, chunk: PendingChunk) -> list[Extraction]:
        """Return the extractions whose quotes are in the passage."""
        if len(chunk.content) < MIN_CHARACTERS:
            self._counts["skipped"] += 1
            return []
        findings = await self._generate(passage_prompt(chunk.title, chunk.content))
        extractions = build_extractions(
            findings,
            chunk,
            aliases=self._context.settings.topic_aliases,
            model=self._generator.model,
            now=self._context.clock(),
        )
        self._counts["unfounded"] += count_findings(findings) - len(extractions)
        return extractions

    async def _generate(self, text: str) -> Findings:
        findings = self._generator.generate(INSTRUCTION, text, Findings)
        return await count_tokens(findings, self._context.meter)

    async def _embed(self, extractions: Sequence[Extraction]) -> list[Embedded]:
        """Return extractions with their vectors, without duplicates in the passage itself."""
        if not extractions:
            return []
        embedder = self._context.embedder
        texts = [extraction.content.text for extraction in extractions]
        vectors = await embedder.embed(texts, Purpose.DOCUMENT)
        return drop_duplicates(list(zip(extractions, vectors, strict=True)), embedder.model)

    async def _neighbours(self, embedded: Embedded) -> list[Similar]:
        """Return the similar extractions in the database, without those about to be replaced."""
        extraction, vector = embedded
        neighbours = await Extractions(self._context.database).nearest_above(
            vector,
            extraction.type,
            CANDIDATES + len(self._order.replaced),
            min_similarity(self._context.embedder.model),
        )
        return [
            (neighbour.extraction, neighbour.similarity)
            for neighbour in neighbours
            if neighbour.extraction.extraction_id not in self._order.replaced
        ]

    def _mark_duplicate(self, embedded: Embedded, neighbours: Sequence[Similar]) -> Embedded:
        """Mark an extraction as a duplicate if a visible one says the same."""
        extraction, vector = embedded
        others = [*neighbours, *with_similarity(embedded, self._order.visible)]
        original = find_original(extraction, others, self._context.embedder.model)
        if original is None:
            self._counts["found"] += 1
            self._order.visible.append(embedded)
            return embedded
        self._counts["duplicates"] += 1
        return replace(extraction, duplicate_of=original.extraction_id), vector
