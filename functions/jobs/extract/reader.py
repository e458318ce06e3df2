"""Extracts findings from a chunk with a language model, verifies them, and marks duplicates."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.ai.generation import count_tokens
from shared.extractions.deduplication import (
    MAX_CANDIDATES,
    compute_similarities,
    drop_duplicates,
    find_original,
    min_similarity,
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
"""The minimum length of a chunk to be read. Shorter chunks rarely explain or discuss anything."""
PROBE: Final = "Carrel is a small room for reading in a library."
"""A text that every working model can read, and that contains no findings."""


class ReadingOrder:
    """Makes the chunks of a batch look for duplicates one after the other.

    The extractions of a batch are stored together, so a chunk does not find those of the batch's
    other chunks in the database. Instead, its extractions are compared with those of the chunks
    that joined the batch before it. For that, each chunk waits for its turn, whatever the order in
    which the model answers. The result therefore does not depend on how chunks are batched.

    Attributes:
        visible: The extractions, with their vectors, that chunks whose turn is over will show.
        replaced: The ids of the stored extractions that the batch replaces.
    """

    def __init__(self) -> None:
        """Begin with an empty batch."""
        self.visible: list[tuple[Extraction, Vector]] = []
        self.replaced: set[str] = set()
        self._chunk_count = 0
        self._last_turn = asyncio.Event()
        self._last_turn.set()

    @asynccontextmanager
    async def join(self, chunk: PendingChunk) -> AsyncIterator[Callable[[], Awaitable[object]]]:
        """Add a chunk to the batch for the duration of the context.

        The first chunk that joins while no other is in the batch begins a new batch.

        Yields:
            A function that waits for the chunk's turn.
        """
        if not self._chunk_count:
            self.visible.clear()
            self.replaced.clear()
        self._chunk_count += 1
        self.replaced |= chunk.extracted.keys()
        previous_turn, turn = self._last_turn, asyncio.Event()
        self._last_turn = turn
        try:
            await asyncio.sleep(0)  # All chunks join before the first one continues.
            yield previous_turn.wait
        finally:
            try:
                # If this chunk fails early, the next one must still wait for the previous one.
                await previous_turn.wait()
            finally:  # A cancelled chunk must not block the chunks after it.
                self._chunk_count -= 1
                turn.set()


class PassageReader:
    """Reads chunks, with one request to the model for each chunk."""

    def __init__(self, ctx: Context, generator: Generator, report: Report) -> None:
        """Store the arguments. The report gets the counts."""
        self._context = ctx
        self._generator = generator
        self._counts = report.counts
        self._order = ReadingOrder()

    async def read(self, chunk: PendingChunk) -> StepResult:
        """Extract the findings of a chunk, and return the result that stores them.

        Raises:
            CarrelError: The model or the embedder fails, or refuses this text.
        """
        async with self._order.join(chunk) as wait_for_turn:
            extractions = await self._embed(await self._extract(chunk))
            neighbours = await asyncio.gather(*map(self._find_neighbours, extractions))
            await wait_for_turn()
            extractions = list(map(self._mark_duplicate, extractions, neighbours))
        return Extractions(self._context.database).build_replacement(
            chunk, extractions, self._context.embedder.model
        )

    async def probe(self) -> None:
        """Read and embed a harmless chunk.

        Raises:
            CarrelError: The model or the embedder would fail for every chunk.
        """
        await self._generate(PROBE)
        await self._context.embedder.embed([PROBE], Purpose.DOCUMENT)

    async def _extract(self, chunk: PendingChunk) -> list[Extraction]:
        """Return the extractions whose quotes are in the chunk. Count the others as `unfounded`."""
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
        """Return the extractions with their vectors. Of those that say the same, one stays."""
        if not extractions:
            return []
        embedder = self._context.embedder
        texts = [extraction.content.text for extraction in extractions]
        vectors = await embedder.embed(texts, Purpose.DOCUMENT)
        return drop_duplicates(list(zip(extractions, vectors, strict=True)), embedder.model)

    async def _find_neighbours(self, embedded_extraction: Embedded) -> list[Similar]:
        """Return the similar stored extractions, except those that this batch replaces."""
        extraction, vector = embedded_extraction
        neighbours = await Extractions(self._context.database).find_similar(
            vector,
            extraction.type,
            MAX_CANDIDATES + len(self._order.replaced),
            min_similarity(self._context.embedder.model),
        )
        return [
            (neighbour.extraction, neighbour.similarity)
            for neighbour in neighbours
            if neighbour.extraction.extraction_id not in self._order.replaced
        ]

    def _mark_duplicate(
        self, embedded_extraction: Embedded, neighbours: Sequence[Similar]
    ) -> Embedded:
        """Mark an extraction as a duplicate if a visible extraction says the same."""
        extraction, vector = embedded_extraction
        candidates = [*neighbours, *compute_similarities(embedded_extraction, self._order.visible)]
        original = find_original(extraction, candidates, self._context.embedder.model)
        if original is None:
            self._counts["found"] += 1
            self._order.visible.append(embedded_extraction)
            return embedded_extraction
        self._counts["duplicates"] += 1
        return replace(extraction, duplicate_of=original.extraction_id), vector
