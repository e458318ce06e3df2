"""Find the passages that answer a question in texts that the caller uploads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from functions.tools.workspaces.extract_key_info.arguments import (
    In,
    SearchScope,
    choose_workspace_id,
    make_argument_error,
    validate_request,
)
from functions.tools.workspaces.extract_key_info.corpus import WorkspaceCorpus
from functions.tools.workspaces.extract_key_info.ranking import rank_passages
from functions.tools.workspaces.extract_key_info.results import Out
from functions.tools.workspaces.extract_key_info.settlement import settle_answer, settle_pending
from functions.tools.workspaces.extract_key_info.upload import (
    get_current_document,
    get_current_profile,
    get_reusable_document,
    resume,
    upload,
)
from shared.core.caller import Tier
from shared.core.errors import NotFound, ToolFailure
from shared.runtime.capabilities import Capability
from shared.runtime.tool import Effect, Tool
from shared.workspaces.model import DocumentStatus

if TYPE_CHECKING:
    from functions.tools.workspaces.extract_key_info.arguments import ExtractionRequest
    from functions.tools.workspaces.extract_key_info.upload import RequestedDocument
    from shared.runtime.context import Context
    from shared.runtime.outcome import Outcome


async def extract_key_info(args: In, ctx: Context) -> Outcome[Out]:
    """Find the passages that answer a question.

    A stored document costs three round trips: for its record, its passages and the check of the
    embedding model. Scope task costs one more. A new document costs about seven round trips, and
    one for each 64 passages.

    Raises:
        InvalidInput: The arguments name no text, or one that cannot be embedded.
        NotFound: The document is not in the workspace, or the workspace is empty.
        Conflict: The document was erased during the call, too many texts of the user are unpaid, or
            the knowledge base is embedded with another model.
        Unavailable: The embedding model or the database is down.
    """
    request = validate_request(args, ctx)
    try:
        return await _answer(request, ctx)
    except ToolFailure as failure:
        failure.facts = {"scope": request.scope.value, **failure.facts}
        raise


async def _answer(request: ExtractionRequest, ctx: Context) -> Outcome[Out]:
    """Load what is stored or upload what is new, rank the passages, and settle the call."""
    requested = await _load_or_upload(request, ctx)
    if requested and requested.document.status is not DocumentStatus.READY:
        return await settle_pending(requested, request, ctx)
    if requested and request.scope is not SearchScope.TASK:
        corpus, note = WorkspaceCorpus([(requested.document, requested.parts)]), None
    else:
        corpus, note = await _load_whole_workspace(request, ctx)
    ranked = await rank_passages(request.query, corpus, request.top_k, ctx)
    return await settle_answer(ranked, note, requested, request, ctx)


async def _load_or_upload(request: ExtractionRequest, ctx: Context) -> RequestedDocument | None:
    """Return the document that was stored before or is uploaded now, or None if none is named."""
    if request.document_id is None:
        return None
    workspace = request.workspace
    record = await workspace.load_document(request.document_id)
    if request.text is not None and not get_reusable_document(record, ctx):
        return await upload(request.text, record, workspace, ctx)
    document = get_current_document(record, ctx)
    if document and document.status is DocumentStatus.FAILED:
        raise make_argument_error(
            "materials", document.reason or "the embedding model refuses the text"
        )
    if document is None or document.status is DocumentStatus.ARRIVING:
        problem = (
            f"is not in the workspace {request.workspace_id}: not uploaded completely, or erased"
        )
        message = f"The document {problem}. Send the text as materials, or the right task_id."
        raise NotFound(message, details={"document": problem})
    await workspace.touch(record.workspace, ctx.clock())
    return await resume(record, document, workspace, ctx)


async def _load_whole_workspace(
    request: ExtractionRequest, ctx: Context
) -> tuple[WorkspaceCorpus, str | None]:
    """Return the corpus of the workspace's latest documents, and a note on what it leaves out.

    Raises:
        NotFound: No document can be searched.
    """
    workspace = request.workspace
    record, searchable, waiting = await asyncio.gather(
        workspace.load(),
        workspace.list_searchable(get_current_profile(ctx)),
        workspace.count_waiting(),
    )
    documents = [] if record.erasing else searchable.documents
    embedding = f"Texts that are still being embedded: {waiting}." if waiting else ""
    if not documents:
        problem = f"the workspace {request.workspace_id} has no text that can be searched"
        advice = f"{embedding} Ask again in a minute." if waiting else "Send the text as materials."
        message = f"extract_key_info found nothing to search: {problem}. {advice}"
        raise NotFound(message, details={"task_id": problem})
    _, parts = await asyncio.gather(
        workspace.touch(record, ctx.clock()), workspace.load_parts(documents)
    )
    count = len(documents)
    omission = f"Only the latest {count} texts of the workspace were searched."
    note = f"{omission if searchable.truncated else ''} {embedding}".strip() or None
    return WorkspaceCorpus(zip(documents, parts, strict=True)), note


TOOL = Tool(
    name="extract_key_info",
    title="Find key passages in a text",
    description=(
        "Find the few passages of a long text you hold (document, transcript, log) that answer a"
        " question. Send it as materials; it stays in a private workspace, so later questions"
        " need only document, or scope task. If the answer is pending, call again as it says. For"
        " what the owner has read use search_kb."
    ),
    input=In,
    output=Out,
    run=extract_key_info,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    timeout=50.0,
    idempotent=True,
    task=choose_workspace_id,
    capabilities=frozenset({Capability.EMBEDDING}),
    settings=("extract_top_k", "extract_passage_characters", "extract_materials_characters"),
    memory=1024,
    concurrency=2,
)
