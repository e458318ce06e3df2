"""Moving the base to another embedding model, while words still find everything.

A move is announced, and then waits until nobody works with what was known before it. It lets go of
all vectors, embeds everything anew, and ends by saying that the base is embedded with the new
model. It is one row of small commits, and each run goes on where the last one stopped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from shared.core.errors import CarrelError
from shared.index.embedding_space import FRESH_SECONDS, EmbeddingSpace
from shared.pipeline.embedding.chunks import embed_chunks
from shared.pipeline.embedding.migration_repository import CORPORA, ReembeddingStore
from shared.pipeline.embedding.online import vectors_of
from shared.runtime.job import Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.index.embedding_space import SpaceMove
    from shared.pipeline.embedding.migration_repository import EmbeddedCorpus, UnembeddedDocument
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

Step = Callable[[str], Awaitable[str | None]]
"""Does what is to do after a place; gives the place that it reached, None at the end."""

LONGEST_CALL: Final = 60.0
"""Seconds that a call of a tool may take."""
QUIET: Final = timedelta(seconds=FRESH_SECONDS + LONGEST_CALL)
"""How long after its announcement a move begins to work."""
POLL_SECONDS: Final = 1.0


async def announced(ctx: Context) -> SpaceMove | None:
    """Begin to move the base to the configured model; None where it is there already.

    Raises:
        WriteConflict: Somebody else changed what the base is embedded with.
    """
    space = EmbeddingSpace(ctx.database)
    standing = await space.standing()
    wanted = (ctx.embedder.model, ctx.embedder.dimension)
    if standing.move and standing.move.to == wanted:
        return standing.move
    if standing.space is None or (standing.space == wanted and not standing.move):
        return None
    return await space.announce(standing, ctx.embedder, ctx.clock())


async def carry_on(move: SpaceMove, ctx: Context, budget: Budget, report: Report) -> None:
    """Go on with a move until it is complete, or the time is over.

    Raises:
        CarrelError: The embedding provider or the database is down, or set up wrongly.
    """
    moving = _Moving(move, ctx, budget, report, ReembeddingStore(ctx.database))
    report.finished = await moving.cleared()
    if not report.finished:
        return
    await embed_chunks(ctx, budget, report)
    if report.finished:
        report.finished = await moving.embedded()
    if report.finished:
        await EmbeddingSpace(ctx.database).settle(move)
        report.note = f"The knowledge base is embedded with {move.to[0]} now."


@dataclass(frozen=True, slots=True)
class _Moving:
    """A move, and what a run needs to go on with it."""

    move: SpaceMove
    ctx: Context
    budget: Budget
    report: Report
    store: ReembeddingStore

    async def cleared(self) -> bool:
        """Let go of all old vectors, as soon as nobody stores such any more."""
        if self.move.cleared:
            return True
        if not await self._is_quiet():
            self.report.note = "What works with the former model has to end first."
            return False
        for corpus in CORPORA:
            if not await self._walk(f"clear_{corpus.name}", partial(self._clear_page, corpus)):
                return False
        await EmbeddingSpace(self.ctx.database).clear()
        return True

    async def embedded(self) -> bool:
        """Embed all that no other step embeds."""
        for corpus in CORPORA:
            step = partial(self._embed_page, corpus)
            if corpus.text and not await self._walk(f"embed_{corpus.name}", step):
                return False
        return True

    async def _is_quiet(self) -> bool:
        """Wait until calls and jobs have ended that may not know of the move."""
        while True:
            now = self.ctx.clock()
            if now >= self.move.since + QUIET and not await self.store.busy(now):
                return True
            if self.budget.deadline - time.monotonic() <= POLL_SECONDS:
                return False
            await asyncio.sleep(POLL_SECONDS)

    async def _walk(self, name: str, step: Step) -> bool:
        """Take steps until the end is reached, or the time is over; remember each."""
        place = self.move.places.get(name, "")
        while place is not None:
            if self.budget.spent:
                return False
            place = await step(place)
            await EmbeddingSpace(self.ctx.database).reach(name, place)
        return True

    async def _clear_page(self, corpus: EmbeddedCorpus, after: str) -> str | None:
        return await self.store.clear(corpus, after, self.move, self.ctx.clock())

    async def _embed_page(self, corpus: EmbeddedCorpus, after: str) -> str | None:
        """Embed what has no vector of a page; what changes meanwhile is looked at again.

        What the model refuses stays without one: only words find it.
        """
        refused: set[str] = set()
        while True:
            found, place = await self.store.unembedded(corpus, after)
            bare = [each for each in found if each.seen.id not in refused]
            if not bare:
                return place
            refused |= await self._embed(bare)

    async def _embed(self, bare: Sequence[UnembeddedDocument]) -> set[str]:
        """Embed documents; return those that are refused."""
        made = await vectors_of([each.text for each in bare], self.ctx)
        pairs = list(zip(bare, made, strict=True))
        vectors = [(each, one) for each, one in pairs if not isinstance(one, CarrelError)]
        errors = {each: one for each, one in pairs if isinstance(one, CarrelError)}
        for each, error in errors.items():
            self.report.failures.append(Failure.of(each.seen.reference.path, error))
        stored = await self.store.embedded(vectors, self.ctx.embedder.model)
        self.report.counts["embedded"] += stored
        self.budget.progress(stored)
        return {each.seen.id for each in errors}
