"""Extracts findings from a chunk with a language model, verifies them, and groups equal ones."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.ai.generation import count_tokens
from shared.ai.vector_halves import ENGLISH, weigh
from shared.extractions.deduplication import (
    MAX_CANDIDATES,
    EmbeddedExtraction,
    SimilarExtraction,
    compute_similarities,
    drop_duplicates,
    find_original,
    get_min_similarity,
)
from shared.extractions.prompt import INSTRUCTION, Findings, build_passage_prompt
from shared.extractions.quotes import build_extractions, count_findings
from shared.extractions.repository import Extractions, build_replacement
from shared.index.embedding_space import EmbeddingSpace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from shared.ai.generation import Generator
    from shared.extractions.model import Extraction
    from shared.knowledge.queue import PendingChunk, StepResult
    from shared.runtime.context import Context
    from shared.runtime.job import Report

MIN_CHARACTERS: Final = 80
"""The minimum length of a chunk to be read. Shorter chunks rarely explain or discuss anything."""
PROBE: Final = "Carrel is a small room for reading in a library."
"""A harmless text that every working model can read, and in which there is nothing to find."""


class ReadingOrder:
    """Makes the chunks of a batch look for duplicates one after the other.

    The extractions of a batch are stored together, so a chunk does not find those of the batch's
    other chunks in the database. Instead, its extractions are compared with those of the chunks
    that joined the batch before it. For that, each chunk waits for its turn, whatever the order in
    which the model answers. The result therefore does not depend on how chunks are batched.

    Attributes:
        originals: The batch's extractions that are not duplicates, from the chunks whose turn is
            over. The extractions of later chunks are compared with them.
        replaced: The ids of the stored extractions that the batch replaces.
    """

    def __init__(self) -> None:
        self.originals: list[EmbeddedExtraction] = []
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
            self.originals.clear()
            self.replaced.clear()
        self._chunk_count += 1
        self.replaced |= chunk.extracted.keys()
        previous_turn, turn = self._last_turn, asyncio.Event()
        self._last_turn = turn
        try:
            # `process_pending` starts the tasks of a batch together. Each runs to here and yields
            # to the next, so all chunks join before the first one continues.
            await asyncio.sleep(0)
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
            extractions = await self._embed_distinct(await self._extract(chunk))
            neighbours = await asyncio.gather(*map(self._find_neighbours, extractions))
            await wait_for_turn()
            extractions = list(map(self._assign_group, extractions, neighbours))
        return build_replacement(chunk, extractions, self._context.embedder.model)

    async def probe(self) -> None:
        """Send a harmless text to the language model and to the embedder.

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
        findings = await self._generate(build_passage_prompt(chunk.title, chunk.content))
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

    async def _embed_distinct(self, extractions: Sequence[Extraction]) -> list[EmbeddedExtraction]:
        """Embed a chunk's extractions. If several say the same, only one of them is returned."""
        if not extractions:
            return []
        embedder = self._context.embedder
        texts = [extraction.content.text for extraction in extractions]
        await EmbeddingSpace(self._context.database).record_languages(embedder, texts)
        vectors = await embedder.embed(texts, Purpose.DOCUMENT)
        return drop_duplicates(
            [EmbeddedExtraction(*pair) for pair in zip(extractions, vectors, strict=True)],
            embedder.model,
        )

    async def _find_neighbours(
        self, embedded_extraction: EmbeddedExtraction
    ) -> list[SimilarExtraction]:
        """Return the similar stored extractions, except those that this batch replaces."""
        neighbours = await Extractions(self._context.database).find_similar(
            weigh(embedded_extraction.vector, self._context.embedder.model, ENGLISH),
            embedded_extraction.extraction.type,
            # The nearest may be those that the batch replaces, which are left out below.
            MAX_CANDIDATES + len(self._order.replaced),
            get_min_similarity(self._context.embedder.model),
        )
        return [
            SimilarExtraction(neighbour.extraction, neighbour.similarity)
            for neighbour in neighbours
            if neighbour.extraction.extraction_id not in self._order.replaced
        ]

    def _assign_group(
        self, embedded_extraction: EmbeddedExtraction, neighbours: Sequence[SimilarExtraction]
    ) -> EmbeddedExtraction:
        """Add an extraction to the group of one that says the same. Count it either way.

        One that is stored already stays in its group.
        """
        extraction, vector = embedded_extraction
        originals = self._order.originals
        model = self._context.embedder.model
        candidates = [*neighbours, *compute_similarities(embedded_extraction, originals, model)]
        original = find_original(extraction, candidates, model)
        if original is None:
            self._counts["found"] += 1
            originals.append(embedded_extraction)
            return embedded_extraction
        self._counts["duplicates"] += 1
        if extraction.extraction_id in self._order.replaced:
            return embedded_extraction
        return EmbeddedExtraction(replace(extraction, group=original.group), vector)
