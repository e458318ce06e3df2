"""Migrates the knowledge base to another embedding model, while keyword search keeps working.

A migration is announced, and then waits until all calls and jobs have ended that may not have read
the announcement. It replaces every vector by the pending step `embed`, performs that step, and
finally records the new model. Progress is kept in the documents only, so each run continues where
the last one stopped.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from shared.core.errors import CarrelError
from shared.extractions import repository as extraction_repository
from shared.extractions.groups import COLLECTION as EXTRACTIONS
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.values import DELETE_FIELD
from shared.firestore.writes import Write, put_if_unchanged
from shared.index.embedding_space import FRESH_SECONDS, EmbeddingSpace
from shared.index.stored_vector import NO_VECTOR, build_vector_fields
from shared.knowledge import chunk_repository
from shared.knowledge.queue import MAX_WRITES
from shared.pipeline.embedding.chunks import embed_chunks
from shared.pipeline.embedding.online import STEP, embed_texts
from shared.runtime.job import Failure
from shared.traces import repository as trace_repository
from shared.workspaces.model import DocumentStatus
from shared.workspaces.repository import DOCUMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from shared.index.embedding_space import Space, SpaceMigration
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

MAX_CALL_SECONDS: Final = 60.0
"""The maximum duration of a tool call, in seconds."""
QUIET_PERIOD: Final = timedelta(seconds=FRESH_SECONDS + MAX_CALL_SECONDS)
"""The time between the announcement and the start of a migration."""
POLL_SECONDS: Final = 1.0
"""The interval at which a run checks whether all work with the former model has ended."""
BLOCKED_JOBS: Final = ("cluster", "extract", "ingest_materials")
"""The names of the leases of other jobs that read or store vectors. During a migration, these jobs
do not start."""


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
    run = _MigrationRun(migration, ctx, budget, report)
    report.finished = await run.clear()
    if not report.finished:
        return
    await embed_chunks(ctx, budget, report)
    if report.finished:
        report.finished = await run.embed_traces_and_extractions()
    if report.finished:
        await EmbeddingSpace(ctx.database).complete_migration(migration)
        report.note = f"The knowledge base is now embedded with {migration.target[0]}."


async def count_documents_to_embed(ctx: Context) -> int:
    """Count the documents that a migration embeds: all but those of workspaces."""
    queries = [Query(name).order_by("__name__") for name in _COLLECTIONS]
    return sum(await asyncio.gather(*map(ctx.database.count, queries)))


@dataclass(frozen=True, slots=True)
class _MigrationRun:
    """One run of a migration."""

    migration: SpaceMigration
    ctx: Context
    budget: Budget
    report: Report

    async def clear(self) -> bool:
        """Delete all old vectors and queue their documents, once nothing stores such vectors.

        Returns:
            Whether all are deleted.
        """
        if self.migration.cleared:
            return True
        if not await self._is_quiet():
            self.report.note = "Waiting for work with the former model to end."
            return False
        for name in _COLLECTIONS:
            # A text that the former model rejected is parked, and tried again.
            for field in ("embedding_model", f"parked.{STEP}"):
                if not await self._clear_documents_with(field, name):
                    return False
        if not await self._queue_workspaces():
            return False
        await EmbeddingSpace(self.ctx.database).mark_cleared()
        return True

    async def embed_traces_and_extractions(self) -> bool:
        """Embed the pending traces and extractions. Return whether none is left.

        A document that the model rejects stays without a vector, so that only its words find it.
        """
        database = self.ctx.database
        for name in _TEXTS:
            query = Query(name).order_by(f"pending.{STEP}").limit(MAX_WRITES)
            while page := await database.find(query):
                if self.budget.spent:
                    return False
                await self._embed_page(name, page)
        return True

    async def _is_quiet(self) -> bool:
        """Wait until all calls and jobs that may not know of the migration have ended.

        Returns:
            Whether they have ended before the time is up.
        """
        database = self.ctx.database
        references = [Reference("leases", name) for name in BLOCKED_JOBS]
        while True:
            now = self.ctx.clock()
            if now >= self.migration.since + QUIET_PERIOD:
                leases = await database.get_all(references, ["expires_at"])
                if all(lease.get("expires_at") <= now for lease in leases):
                    return True
            if self.budget.deadline - time.monotonic() <= POLL_SECONDS:
                return False
            await asyncio.sleep(POLL_SECONDS)

    async def _clear_documents_with(self, field: str, collection: str) -> bool:
        """Make the step pending on the documents that have a field, which the update deletes.

        Returns:
            Whether none is left. A document that changed meanwhile is read again.
        """
        database = self.ctx.database
        query = Query(collection).order_by(field).select([field]).limit(MAX_WRITES)
        requeue = chunk_repository.build_step_pending(STEP, self.ctx.clock())
        update = NO_VECTOR | chunk_repository.build_step_done("cluster") | requeue
        while page := await database.find(query):
            if self.budget.spent:
                return False
            await database.commit_skipping_conflicts(
                [put_if_unchanged(document, update) for document in page]
            )
        return True

    async def _queue_workspaces(self) -> bool:
        """Queue the documents of workspaces for their own job. Return whether all are queued."""
        database = self.ctx.database
        query = Query(DOCUMENTS, in_group=True).order_by("__name__")
        query = query.select(["profile", "status"]).limit(MAX_WRITES)
        page_query = query
        while page := await database.find(page_query):
            if self.budget.spent:
                return False
            updates = [
                (document, _build_workspace_update(document.fields, self.migration.target))
                for document in page
            ]
            due = {"next_at": self.ctx.clock()}
            writes = [
                put_if_unchanged(document, update | due) for document, update in updates if update
            ]
            if await database.commit_skipping_conflicts(writes) == len(writes):
                page_query = query.start_after(page[-1])
        return True

    async def _embed_page(self, collection: str, page: Sequence[Document]) -> None:
        """Embed documents. The step also ends for those without a text, and those rejected."""
        texts = {
            document.id: text
            for document in page
            if (text := _TEXTS[collection](document.id, document.fields))
        }
        space = EmbeddingSpace(self.ctx.database)
        await space.record_languages(self.ctx.embedder, texts.values())
        outcomes = await embed_texts(list(texts.values()), self.ctx)
        by_id = dict(zip(texts, outcomes, strict=True))
        embedded: list[Write] = []
        ended: list[Write] = []
        for document in page:
            match by_id.get(document.id):
                case None:
                    ended.append(put_if_unchanged(document, _DONE))
                case CarrelError() as error:
                    failure = Failure.of(document.reference.path, error)
                    self.report.failures.append(failure)
                    dead_letter = {"parked": {STEP: failure.reason}}
                    ended.append(put_if_unchanged(document, _DONE | dead_letter))
                case vector:
                    fields = build_vector_fields(vector, self.ctx.embedder.model)
                    embedded.append(put_if_unchanged(document, _DONE | fields))
        stored = await self.ctx.database.commit_skipping_conflicts(embedded)
        await self.ctx.database.commit_skipping_conflicts(ended)
        self.report.counts["embedded"] += stored
        self.budget.progress(stored)


def _build_workspace_update(data: dict[str, Any], target: Space) -> dict[str, Any]:
    """Build the update that queues a complete document for new vectors, or {} if none is due.

    An incomplete document does not change, because its caller uploads it again.
    """
    model, dimension = target
    profile = data.get("profile", {})
    is_complete = data.get("status") in {DocumentStatus.READY, DocumentStatus.WAITING}
    if not is_complete or (profile.get("model"), profile.get("dimension")) == target:
        return {}
    return {
        "profile": {**profile, "model": model, "dimension": dimension},
        "status": DocumentStatus.WAITING.value,
        "tries": 0,
        "reason": None,
    }


def _get_trace_text(trace_id: str, data: dict[str, Any]) -> str | None:
    """Return the text to embed, or None if the trace was withdrawn while it waited."""
    trace = trace_repository.to_trace(trace_id, data)
    return trace.content.embedding_text if trace.is_listed else None


def _get_extraction_text(_extraction_id: str, data: dict[str, Any]) -> str | None:
    return extraction_repository.to_content(data).text


_TEXTS: Final[Mapping[str, Callable[[str, dict[str, Any]], str | None]]] = {
    trace_repository.COLLECTION: _get_trace_text,
    EXTRACTIONS: _get_extraction_text,
}
"""The functions that return the text to embed of a document, by collection. Chunks have a queue of
their own."""
_COLLECTIONS: Final = (chunk_repository.COLLECTION, *_TEXTS)
_DONE: Final = {"pending": DELETE_FIELD, "parked": DELETE_FIELD}
"""The update that ends the only step on which a trace or an extraction waits."""
