"""Settles a call: builds its answer, sets the price, and stores the answer for repeated calls."""

from __future__ import annotations

import math
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from functions.tools.workspaces.extract_key_info.results import (
    AnswerStatus,
    Out,
    to_passage_result,
)
from shared.firestore.database import WriteConflict
from shared.runtime.outcome import Outcome
from shared.runtime.pagination import compute_byte_budget, count_fitting
from shared.workspaces.model import DocumentStatus
from shared.workspaces.repository import DocumentErased

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.tools.workspaces.extract_key_info.arguments import ExtractionRequest
    from functions.tools.workspaces.extract_key_info.ranking import RankedPassage, RankedPassages
    from functions.tools.workspaces.extract_key_info.upload import RequestedDocument
    from shared.runtime.context import Context
    from shared.workspaces.model import WorkspaceDocument
    from shared.workspaces.repository import DocumentRecord

MIN_RETRY_SECONDS: Final = 10
"""The minimum time that a caller is asked to wait before asking again."""
MAX_RETRY_SECONDS: Final = 60
"""The maximum time that a caller is asked to wait. Every call continues the embedding."""


async def settle_answer(
    ranked: RankedPassages,
    note: str | None,
    requested: RequestedDocument | None,
    request: ExtractionRequest,
    ctx: Context,
) -> Outcome[Out]:
    """Return the outcome of a call that gets an answer.

    The call is free if an earlier call paid for the document without getting an answer. The answer
    is stored for repeated calls only if all quoted documents still exist.
    """
    passages = _fit_passages(ranked.passages, request.max_tokens)
    outcome = _build_answer(ranked, passages, note, requested, request)
    locations = [passage.location for passage in passages]
    by_id = {location.document.document_id: location.document for location in locations}
    quoted = list(by_id.values())
    if requested and requested.document.prepaid:
        free = replace(outcome, price=0)
        if await _spend_prepayment(requested, free, quoted, request, ctx):
            return free
    guard = ctx.idempotency
    if guard and guard.has_key and not await _try_commit(outcome, quoted, request, ctx):
        return replace(outcome, replayable=False)
    return outcome


def _build_answer(
    ranked: RankedPassages,
    passages: Sequence[RankedPassage],
    note: str | None,
    requested: RequestedDocument | None,
    request: ExtractionRequest,
) -> Outcome[Out]:
    """Build the outcome with the passages that fit, and with the facts for the audit."""
    omitted = len(ranked.passages) - len(passages)
    omission = f"max_tokens left out the last {omitted} of the passages." if omitted else None
    messages = [ranked.message, note, omission]
    document_id = requested.document.document_id if requested else None
    out = Out(
        status=AnswerStatus.READY,
        contexts=[passage.text for passage in passages],
        passages=[to_passage_result(passage) for passage in passages],
        matches=ranked.matches,
        task_id=request.workspace_id,
        document=document_id,
        considered=ranked.considered,
        known=requested.was_stored if requested else None,
        ask_again_after=None,
        message=" ".join(message for message in messages if message) or None,
    )
    facts: dict[str, Any] = {
        "passages": ranked.considered,
        "known": bool(out.known),
        "scores": [round(passage.hit.score, 4) for passage in passages],
    }
    if document_id:
        facts["document"] = document_id
    return _build_outcome(out, facts, request)


def _fit_passages(
    passages: Sequence[RankedPassage], max_tokens: int | None
) -> Sequence[RankedPassage]:
    """Return the first passages that fit into an answer of this length, but at least one."""
    if max_tokens is None:
        return passages
    sizes = [
        len(to_json(passage.text)) + len(to_json(to_passage_result(passage)))
        for passage in passages
    ]
    return passages[: max(count_fitting(sizes, compute_byte_budget(max_tokens)), 1)]


async def _spend_prepayment(
    requested: RequestedDocument,
    outcome: Outcome[Out],
    quoted: Sequence[WorkspaceDocument],
    request: ExtractionRequest,
    ctx: Context,
) -> bool:
    """Commit a free answer. Return False if a quoted document was erased, or payment is spent."""
    record = requested.record

    async def attempt() -> bool:
        nonlocal record
        # The first attempt uses the loaded record. After a lost race, the record is read again.
        latest = record or await request.workspace.load_document(requested.document.document_id)
        record = None
        if not latest.document or latest.document.prepaid != requested.document.prepaid:
            return False
        return await _commit(outcome, quoted, request, ctx, prepaid=latest)

    return await ctx.database.retry_on_conflict(attempt)


async def _try_commit(
    outcome: Outcome[Out],
    quoted: Sequence[WorkspaceDocument],
    request: ExtractionRequest,
    ctx: Context,
) -> bool:
    """Commit an answer. Return False if a quoted document was erased."""
    return await ctx.database.retry_on_conflict(lambda: _commit(outcome, quoted, request, ctx))


async def _commit(
    outcome: Outcome[Out],
    quoted: Sequence[WorkspaceDocument],
    request: ExtractionRequest,
    ctx: Context,
    prepaid: DocumentRecord | None = None,
) -> bool:
    """Try to commit an answer. Return False if a quoted document was erased.

    Raises:
        WriteConflict: Another writer was faster.
    """
    workspace = request.workspace
    writes = [workspace.build_existence_guard(document) for document in quoted]
    if prepaid:
        writes.append(workspace.build_spend_prepayment_write(prepaid))
    try:
        await ctx.commit(writes, outcome)
    except WriteConflict:
        if await workspace.all_exist(quoted):
            raise
        return False
    return True


async def defer(
    requested: RequestedDocument, request: ExtractionRequest, ctx: Context
) -> Outcome[Out] | None:
    """Leave the remaining passages to a job. Return None if they are embedded by now.

    One commit marks the document as waiting, and records the payment. The call that defers the
    document pays, and one later answer is free. Calls that find the document deferred pay nothing.

    Raises:
        DocumentErased: The document was erased during the call.
    """
    outcome = _build_pending_outcome(requested, request)
    free = replace(outcome, price=0)
    if requested.was_stored:
        return free

    async def attempt() -> Outcome[Out] | None:
        record = await request.workspace.load_document(requested.document.document_id)
        document = record.document
        if document is None or document.upload_id != requested.document.upload_id:
            raise DocumentErased("The document was erased during its upload. Upload it again.")
        if document.status is DocumentStatus.READY:
            return None
        if document.status is DocumentStatus.WAITING:
            return free
        # An earlier call may have paid without receiving an answer.
        settled = free if document.prepaid else outcome
        payment = document.prepaid or secrets.token_hex(8)
        write = request.workspace.build_deferral_write(record, payment, ctx.clock())
        return await ctx.commit([write], settled)

    return await ctx.database.retry_on_conflict(attempt)


def _build_pending_outcome(
    requested: RequestedDocument, request: ExtractionRequest
) -> Outcome[Out]:
    """Return the outcome that tells the caller when to ask again."""
    document = requested.document
    seconds = MIN_RETRY_SECONDS + math.ceil(requested.seconds_left)
    out = Out(
        status=AnswerStatus.PENDING,
        contexts=[],
        passages=[],
        matches=None,
        task_id=request.workspace_id,
        document=document.document_id,
        considered=0,
        known=requested.was_stored,
        ask_again_after=min(seconds, MAX_RETRY_SECONDS),
        message=f"The text is stored, and its {document.passages:,} passages are being embedded. Do"
        " not send it again: after ask_again_after seconds, call with document and the same"
        " task_id.",
    )
    facts = {"pending": True, "passages": document.passages, "document": document.document_id}
    return _build_outcome(out, facts, request)


def _build_outcome(out: Out, facts: dict[str, Any], request: ExtractionRequest) -> Outcome[Out]:
    return Outcome(
        out,
        facts={"scope": request.scope.value} | facts,
        belongs_to=request.workspace.name,
    )
