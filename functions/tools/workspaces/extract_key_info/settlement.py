"""Builds the answer of a call, sets its price, and stores it for repeated calls."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from functions.tools.workspaces.extract_key_info.results import (
    AnswerStatus,
    Out,
    to_near_passage,
    to_passage_result,
)
from shared.firestore.database import WriteConflict
from shared.runtime.outcome import Outcome
from shared.runtime.pagination import compute_byte_budget, count_fitting
from shared.text.snippets import NEAR_LENGTH, SNIPPET_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from functions.tools.workspaces.extract_key_info.arguments import ExtractionRequest
    from functions.tools.workspaces.extract_key_info.ranking import RankedPassages
    from functions.tools.workspaces.extract_key_info.results import PassagePlace
    from functions.tools.workspaces.extract_key_info.upload import RequestedDocument
    from shared.firestore.writes import Write
    from shared.runtime.context import Context
    from shared.workspaces.model import WorkspaceDocument

MIN_RETRY_SECONDS: Final = 10
"""The minimum time that a caller is asked to wait before asking again."""
MAX_RETRY_SECONDS: Final = 60
"""The maximum time that a caller is asked to wait. Every call continues the embedding."""
PASSAGE_SECONDS: Final = 0.08
"""The assumed time to embed a passage: that of the local model."""


async def settle_answer(
    ranked: RankedPassages,
    note: str | None,
    requested: RequestedDocument | None,
    request: ExtractionRequest,
    ctx: Context,
) -> Outcome[Out]:
    """Return the outcome of a call that gets an answer, for the price of the tool."""
    document_id = requested.document.document_id if requested else None
    results = [to_passage_result(item, document_id) for item in ranked.passages]
    length = NEAR_LENGTH if results else SNIPPET_LENGTH
    near = [to_near_passage(item, document_id, length) for item in ranked.near]
    contexts = [item.passage.text for item in ranked.passages]
    fitting = _count_fitting(contexts, [*results, *near], request.max_tokens)
    fitting_passages = [*ranked.passages, *ranked.near][:fitting]
    omitted = len(results) + len(near) - len(fitting_passages)
    omission = f"max_tokens left out the last {omitted} of the passages." if omitted else None
    messages = [ranked.message, note, omission]
    out = Out(
        status=AnswerStatus.READY,
        contexts=contexts[:fitting],
        passages=results[:fitting],
        near=near[: max(0, fitting - len(results))] or None,
        matches=bool(results),
        task_id=request.workspace_id,
        document=document_id,
        considered=ranked.considered,
        known=requested.known if requested else None,
        ask_again_after=None,
        message=" ".join(message for message in messages if message) or None,
    )
    facts: dict[str, Any] = {
        "scope": request.scope.value,
        "passages": ranked.considered,
        "known": bool(out.known),
        "scores": [result.score for result in out.passages],
    }
    if document_id:
        facts["document"] = document_id
    outcome = Outcome(out, facts=facts, belongs_to=request.workspace.name)
    quoted = {item.document.document_id: item.document for item in fitting_passages}.values()
    payments = [request.workspace.build_payment(document) for document in quoted if document.unpaid]
    return await _store(outcome, quoted, payments, request, ctx)


async def settle_pending(
    requested: RequestedDocument, request: ExtractionRequest, ctx: Context
) -> Outcome[Out]:
    """Return the outcome of a call whose document is still being embedded, which is free."""
    document = requested.document
    remaining = sum(len(part.passages) for part in requested.parts if not part.vectors)
    seconds = MIN_RETRY_SECONDS + math.ceil(remaining * PASSAGE_SECONDS)
    out = Out(
        status=AnswerStatus.PENDING,
        contexts=[],
        passages=[],
        near=None,
        matches=None,
        task_id=request.workspace_id,
        document=document.document_id,
        considered=0,
        known=requested.known,
        ask_again_after=min(seconds, MAX_RETRY_SECONDS),
        message=f"The text is stored, and its {document.passages:,} passages are being embedded. Do"
        " not send it again: after ask_again_after seconds, call with document and the same"
        " task_id.",
    )
    facts = {
        "scope": request.scope.value,
        "pending": True,
        "passages": document.passages,
        "document": document.document_id,
    }
    outcome = Outcome(out, price=0, facts=facts, belongs_to=request.workspace.name)
    return await _store(outcome, [document], [], request, ctx)


def _count_fitting(
    contexts: Sequence[str], places: Sequence[PassagePlace], max_tokens: int | None
) -> int:
    """Return how many passages fit into an answer of this length. One is always kept."""
    if max_tokens is None:
        return len(places)
    sizes = [
        len(to_json(text)) + len(to_json(place))
        for text, place in zip_longest(contexts, places, fillvalue="")
    ]
    return max(count_fitting(sizes, compute_byte_budget(max_tokens)), 1)


async def _store(
    outcome: Outcome[Out],
    documents: Iterable[WorkspaceDocument],
    payments: Sequence[Write],
    request: ExtractionRequest,
    ctx: Context,
) -> Outcome[Out]:
    """Store an answer for repeated calls, unless a document was erased during the call.

    Costs one round trip, or none without payments and without an idempotency key.
    """
    if not payments and not (ctx.idempotency and ctx.idempotency.has_key):
        return outcome
    guards = [request.workspace.build_existence_guard(document) for document in documents]
    try:
        return await ctx.commit([*guards, *payments], outcome)
    except WriteConflict:
        return replace(outcome, replayable=False)
