"""Migrates the knowledge base to another embedding model, while search by words keeps working.

A migration is announced, and then waits until all calls and jobs have ended that may not have read
the announcement. It deletes all vectors, embeds everything again, and finally records the new
model. It works in small commits, so that each run continues where the run before stopped.
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
from shared.pipeline.embedding.online import embed_texts
from shared.runtime.job import Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Vector
    from shared.index.embedding_space import SpaceMigration
    from shared.pipeline.embedding.migration_repository import EmbeddedCorpus, UnembeddedDocument
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

PageStep = Callable[[str], Awaitable[str | None]]
"""Processes the page after a path. Returns the last path of the page, or None at the end."""

MAX_CALL_SECONDS: Final = 60.0
"""The maximum duration of a tool call, in seconds."""
QUIET_PERIOD: Final = timedelta(seconds=FRESH_SECONDS + MAX_CALL_SECONDS)
"""The time between the announcement and the start of a migration."""
POLL_SECONDS: Final = 1.0
"""The interval at which a run checks whether all work with the former model has ended."""


async def announce_migration(ctx: Context) -> SpaceMigration | None:
    """Announce a migration to the configured model, unless it is announced already.

    Returns:
        The migration, or None if the model is in use, or if nothing is embedded yet.

    Raises:
        WriteConflict: Another process changed the embedding space in the meantime.
    """
    space = EmbeddingSpace(ctx.database)
    state = await space.load_state()
    target = (ctx.embedder.model, ctx.embedder.dimension)
    if state.migration and state.migration.target == target:
        return state.migration
    if state.space is None or (state.space == target and not state.migration):
        return None
    return await space.start_migration(state, ctx.embedder, ctx.clock())


async def continue_migration(
    migration: SpaceMigration, ctx: Context, budget: Budget, report: Report
) -> None:
    """Continue a migration until it is complete or the time is up.

    Raises:
        CarrelError: The embedding provider or the database is down, or misconfigured.
    """
    run = _MigrationRun(migration, ctx, budget, report, ReembeddingStore(ctx.database))
    report.finished = await run.clear()
    if not report.finished:
        return
    await embed_chunks(ctx, budget, report)
    if report.finished:
        report.finished = await run.embed()
    if report.finished:
        await EmbeddingSpace(ctx.database).complete_migration(migration)
        report.note = f"The knowledge base is now embedded with {migration.target[0]}."


@dataclass(frozen=True, slots=True)
class _MigrationRun:
    """One run of a migration."""

    migration: SpaceMigration
    ctx: Context
    budget: Budget
    report: Report
    store: ReembeddingStore

    async def clear(self) -> bool:
        """Delete all old vectors, as soon as nothing stores such vectors any longer.

        Returns:
            Whether all are deleted.
        """
        if self.migration.cleared:
            return True
        if not await self._is_quiet():
            self.report.note = "Waiting for work with the former model to end."
            return False
        for corpus in CORPORA:
            if not await self._process_pages(
                f"clear_{corpus.name}", partial(self._clear_page, corpus)
            ):
                return False
        await EmbeddingSpace(self.ctx.database).mark_cleared()
        return True

    async def embed(self) -> bool:
        """Embed the documents that no other job embeds. Return whether all are embedded."""
        for corpus in CORPORA:
            step = partial(self._embed_page, corpus)
            if corpus.text_to_embed and not await self._process_pages(f"embed_{corpus.name}", step):
                return False
        return True

    async def _is_quiet(self) -> bool:
        """Wait until all calls and jobs that may not know of the migration have ended.

        Returns:
            Whether they have ended before the time is up.
        """
        while True:
            now = self.ctx.clock()
            is_announced_long_enough = now >= self.migration.since + QUIET_PERIOD
            if is_announced_long_enough and not await self.store.list_busy_jobs(now):
                return True
            if self.budget.deadline - time.monotonic() <= POLL_SECONDS:
                return False
            await asyncio.sleep(POLL_SECONDS)

    async def _process_pages(self, name: str, step: PageStep) -> bool:
        """Process all pages of a pass, and store the position after each.

        Returns:
            Whether the pass is complete.
        """
        position = self.migration.progress.get(name, "")
        while position is not None:
            if self.budget.spent:
                return False
            position = await step(position)
            await EmbeddingSpace(self.ctx.database).save_progress(name, position)
        return True

    async def _clear_page(self, corpus: EmbeddedCorpus, after: str) -> str | None:
        """Delete the old vectors of the page after a path, as a `PageStep`."""
        return await self.store.clear_page(corpus, after, self.migration, self.ctx.clock())

    async def _embed_page(self, corpus: EmbeddedCorpus, after: str) -> str | None:
        """Embed the documents without a vector of the page after a path, as a `PageStep`.

        The page is read again until none is left, because documents may be edited in the meantime.
        A document that the model rejects stays without a vector, so that only its words find it.
        """
        rejected: set[str] = set()
        while True:
            page, position = await self.store.load_unembedded_page(corpus, after)
            documents = [document for document in page if document.snapshot.id not in rejected]
            if not documents:
                return position
            rejected |= await self._embed(documents)

    async def _embed(self, documents: Sequence[UnembeddedDocument]) -> set[str]:
        """Embed documents, and return the ids of those that the model rejects."""
        outcomes = await embed_texts([document.text for document in documents], self.ctx)
        embedded: list[tuple[UnembeddedDocument, Vector]] = []
        rejected: set[str] = set()
        for document, outcome in zip(documents, outcomes, strict=True):
            if isinstance(outcome, CarrelError):
                path = document.snapshot.reference.path
                self.report.failures.append(Failure.of(path, outcome))
                rejected.add(document.snapshot.id)
            else:
                embedded.append((document, outcome))
        stored = await self.store.store_vectors(embedded, self.ctx.embedder.model)
        self.report.counts["embedded"] += stored
        self.budget.progress(stored)
        return rejected
