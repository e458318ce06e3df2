"""Those that are read at once, in the order in which they were begun."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from shared.ai.embedding import Vector
    from shared.extractions.model import Extraction
    from shared.knowledge.queue import PendingChunk


class Line:
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
