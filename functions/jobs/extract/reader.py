"""Reading a passage: what a language model finds in it, checked, compared, ready to be stored."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.ai.generation import count_tokens
from shared.extractions.deduplication import (
    CANDIDATES,
    distinct,
    least_similarity,
    original_of,
    similar,
)
from shared.extractions.prompt import INSTRUCTION, Findings, material
from shared.extractions.quotes import Grounds, count
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


class ReadingOrder:
    """Passages that are read at once and stored together: none sees yet what another one says.

    Each decides what of it is shown when its turn comes, whichever the model answered first: so the
    same passages end in the same extractions, in however many runs they are read.

    Attributes:
        shown: What is shown of those whose turn has come, and not stored yet.
        replaced: The ids of what was shown of them before.
    """

    def __init__(self) -> None:
        """Nobody stands in it."""
        self.shown: list[tuple[Extraction, Vector]] = []
        self.replaced: set[str] = set()
        self._standing = 0
        self._last = asyncio.Event()
        self._last.set()

    @asynccontextmanager
    async def stand(self, chunk: PendingChunk) -> AsyncIterator[Callable[[], Awaitable[object]]]:
        """Stand in line until the block ends; what it is given waits for one's turn."""
        if not self._standing:
            self.shown.clear()
            self.replaced.clear()
        self._standing += 1
        self.replaced |= chunk.extracted.keys()
        before, mine = self._last, asyncio.Event()
        self._last = mine
        try:
            await asyncio.sleep(0)  # all that are begun at once stand here before the first goes on
            yield before.wait
        finally:
            try:
                # Who fails early leaves no gap through which the next one could overtake.
                await before.wait()
            finally:  # who is cancelled keeps nobody waiting
                self._standing -= 1
                mine.set()


SHORTEST: Final = 80
"""Characters: a shorter passage weighs, explains and describes nothing, and is not read."""
PROBE: Final = "Carrel is a small room for reading in a library."
"""A passage that every model reads, and in which there is nothing to find."""


class PassageReader:
    """Reads passages, one call of the model each, and remembers what of them is shown."""

    def __init__(self, ctx: Context, generator: Generator, report: Report) -> None:
        """Count in `report` what is found."""
        self._context = ctx
        self._generator = generator
        self._counts = report.counts
        self._line = ReadingOrder()

    async def read(self, chunk: PendingChunk) -> StepResult:
        """Find what a passage holds, and make it the only extractions of its chunk.

        Raises:
            CarrelError: The model or the embedder fails, or refuses this text.
        """
        async with self._line.stand(chunk) as turn:
            found = await self._embedded(await self._found(chunk))
            near = await asyncio.gather(*map(self._near, found))
            await turn()
            placed = list(map(self._placed, found, near))
        return Extractions(self._context.database).replacing(
            chunk, placed, self._context.embedder.model
        )

    async def probe(self) -> None:
        """Have nothing found in a harmless passage, and embed it.

        Raises:
            CarrelError: It would fail for any passage.
        """
        await self._asked(PROBE)
        await self._context.embedder.embed([PROBE], Purpose.DOCUMENT)

    async def _found(self, chunk: PendingChunk) -> list[Extraction]:
        """What the model finds that stands in the passage."""
        if len(chunk.content) < SHORTEST:
            self._counts["skipped"] += 1
            return []
        findings = await self._asked(material(chunk.title, chunk.content))
        grounds = Grounds(
            chunk=chunk,
            aliases=self._context.settings.topic_aliases,
            model=self._generator.model,
            now=self._context.clock(),
        )
        found = grounds.extractions(findings)
        self._counts["unfounded"] += count(findings) - len(found)
        return found

    async def _asked(self, text: str) -> Findings:
        asked = self._generator.generate(INSTRUCTION, text, Findings)
        return await count_tokens(asked, self._context.meter)

    async def _embedded(self, found: Sequence[Extraction]) -> list[Embedded]:
        """What says different things, with its vectors."""
        if not found:
            return []
        embedder = self._context.embedder
        texts = [each.content.text for each in found]
        vectors = await embedder.embed(texts, Purpose.DOCUMENT)
        return distinct(list(zip(found, vectors, strict=True)), embedder.model)

    async def _near(self, new: Embedded) -> list[Similar]:
        """What is shown of other passages and comes close, but for those that are read now."""
        extraction, vector = new
        found = await Extractions(self._context.database).nearest_alike(
            vector,
            extraction.type,
            CANDIDATES + len(self._line.replaced),
            least_similarity(self._context.embedder.model),
        )
        near = [(each.extraction, each.similarity) for each in found]
        return [each for each in near if each[0].extraction_id not in self._line.replaced]

    def _placed(self, new: Embedded, near: Sequence[Similar]) -> Embedded:
        """Show it, unless one that is shown says the same."""
        extraction, vector = new
        others = [*near, *similar(new, self._line.shown)]
        original = original_of(extraction, others, self._context.embedder.model)
        if original is None:
            self._counts["found"] += 1
            self._line.shown.append(new)
            return new
        self._counts["duplicates"] += 1
        return replace(extraction, duplicate_of=original.extraction_id), vector
