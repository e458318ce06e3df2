"""Embeds workspace documents that were too long to be embedded by the call that uploaded them.

Callers pass such documents to the tool `extract_key_info` in its argument `materials`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import raise_if_provider_fails
from shared.core.deferral import schedule_retry
from shared.core.errors import CarrelError
from shared.firestore.database import LeaseLost
from shared.index.embedding_space import EmbeddingSpace
from shared.runtime.capabilities import Capability
from shared.runtime.job import Failure, Job, Report
from shared.workspaces.embedding import RejectedPassage, embed_document
from shared.workspaces.model import DocumentStatus
from shared.workspaces.queue import WorkspaceQueue
from shared.workspaces.repository import DocumentErased

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget
    from shared.workspaces.model import WorkspaceDocument
    from shared.workspaces.repository import Workspace

PAGE_SIZE: Final = 10
"""The number of documents that one query reads from the queue."""
TURN_SECONDS: Final = 60.0
"""How long the job works on a document before the next document has its turn."""


async def ingest_materials(ctx: Context, budget: Budget) -> Report:
    """Embed waiting documents in turns. Each becomes `READY` when all its passages have vectors.

    The vectors of each part are one commit, and are not computed again. Therefore the next run
    continues where a killed run stopped. A document that fails is retried after increasingly long
    waits (see `schedule_retry`), and marked as failed when its attempts are used up, or immediately
    if the model rejects a passage. It never blocks other documents.

    Raises:
        Unavailable: The embedding provider or the database is down.
        CarrelError: The embedding provider is misconfigured, or the database is embedded with
            another model.
        LeaseLost: Another run has taken the lease.
    """
    report = Report()
    # Vectors of two models must never be mixed in one database.
    await EmbeddingSpace(ctx.database).claim(ctx.embedder)
    queue = WorkspaceQueue(ctx.database)
    while due := await queue.list_due(ctx.clock(), PAGE_SIZE):
        for workspace, document in due:
            if await _process(workspace, document, ctx, budget, report):
                budget.progress(1)
            if budget.spent:
                report.finished = False
                return report
    return report


async def _process(
    workspace: Workspace, document: WorkspaceDocument, ctx: Context, budget: Budget, report: Report
) -> bool:
    """Work on a document for one turn. Return whether this run is done with the document."""
    try:
        status = await _embed(workspace, document, ctx, budget, report)
    except RejectedPassage as rejection:
        _report_failed(document, rejection.message, report)
    except DocumentErased:
        report.counts["erased"] += 1
    except LeaseLost:
        raise
    except CarrelError as error:
        await _defer(workspace, document, error, ctx, report)
    else:
        if status is DocumentStatus.WAITING:
            # The turn is over, so the document goes to the end of the queue.
            await workspace.update(document, next_at=ctx.clock())
            return False
        report.counts[status.value] += 1
    return True


async def _embed(
    workspace: Workspace, document: WorkspaceDocument, ctx: Context, budget: Budget, report: Report
) -> DocumentStatus:
    """Embed as many parts as there is time for, and return the document's new status."""
    if document.profile.model != ctx.embedder.model:
        # The document was prepared for another model, so this run cannot embed it. As an upload
        # that is still arriving, it is no longer queued, and the next upload starts again.
        await workspace.update(document, status=DocumentStatus.ARRIVING, unpaid=False)
        return DocumentStatus.ARRIVING
    [parts] = await workspace.load_parts([document])
    turn_end = time.monotonic() + TURN_SECONDS
    embedded, embedded_parts = await embed_document(
        document,
        parts,
        workspace,
        ctx,
        lambda: not budget.spent and time.monotonic() < turn_end,
    )
    report.counts["embedded"] += sum(
        len(part.passages)
        for part, former in zip(embedded_parts, parts, strict=True)
        if part.vectors and not former.vectors
    )
    return embedded.status


async def _defer(
    workspace: Workspace,
    document: WorkspaceDocument,
    error: CarrelError,
    ctx: Context,
    report: Report,
) -> None:
    """Schedule the next attempt, or give the document up if no attempt is left.

    Raises:
        CarrelError: The provider fails for every text. That does not count as an attempt.
    """
    try:
        await raise_if_provider_fails(ctx.embedder, error)
    except CarrelError:
        # The document goes to the end of the queue, so that the next run begins with another.
        await workspace.update(document, next_at=ctx.clock())
        raise
    tries = document.tries + 1
    next_at = schedule_retry(tries, ctx.clock())
    if next_at is None:
        reason = "the text could not be embedded"
        await workspace.mark_failed(document, reason)
        _report_failed(document, reason, report)
        return
    report.failures.append(Failure.of(document.document_id, error))
    await workspace.update(document, next_at=next_at, tries=tries)


def _report_failed(document: WorkspaceDocument, reason: str, report: Report) -> None:
    report.counts[DocumentStatus.FAILED.value] += 1
    report.failures.append(Failure(document.document_id, reason))


async def count_waiting(ctx: Context) -> int:
    """Count the documents that are waiting to be embedded."""
    return await WorkspaceQueue(ctx.database).count_waiting()


JOB = Job(
    name="ingest_materials",
    title="Embed texts that were too long for one call",
    run=ingest_materials,
    total=count_waiting,
    schedule="*/5 * * * *",
    capabilities=frozenset({Capability.EMBEDDING}),
)
