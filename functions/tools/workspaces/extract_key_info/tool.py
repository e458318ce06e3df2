"""Find the passages that answer a question in texts that the caller uploads."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from functions.tools.workspaces.extract_key_info.arguments import (
    In,
    SearchScope,
    choose_workspace_id,
    make_argument_error,
    validate_request,
)
from functions.tools.workspaces.extract_key_info.corpus import (
    make_memory_corpus,
    make_stored_corpus,
)
from functions.tools.workspaces.extract_key_info.ranking import rank_passages
from functions.tools.workspaces.extract_key_info.results import Out
from functions.tools.workspaces.extract_key_info.settlement import defer, settle_answer
from functions.tools.workspaces.extract_key_info.upload import get_current_profile, resume, upload
from shared.core.caller import Tier
from shared.core.errors import NotFound, ToolFailure
from shared.runtime.capabilities import Capability
from shared.runtime.tool import Effect, Tool
from shared.workspaces.model import DocumentStatus

if TYPE_CHECKING:
    from functions.tools.workspaces.extract_key_info.arguments import ExtractionRequest
    from functions.tools.workspaces.extract_key_info.corpus import WorkspaceCorpus
    from functions.tools.workspaces.extract_key_info.upload import RequestedDocument
    from shared.runtime.context import Context
    from shared.runtime.outcome import Outcome
    from shared.workspaces.model import WorkspaceDocument
    from shared.workspaces.repository import DocumentRecord, WorkspaceRecord

MAX_DOCUMENTS: Final = 200
"""The maximum number of documents that a call searches: the latest in the workspace."""
_TRUNCATED: Final = f"Only the latest {MAX_DOCUMENTS} texts of the workspace were searched."


async def extract_key_info(args: In, ctx: Context) -> Outcome[Out]:
    """Find the passages that answer a question.

    A stored document costs two or three round trips: the first reads its record, the second its
    terms and the nearest passages, the third the texts of passages that only words found. Scope
    task costs one or two more. A new document is ranked in memory, and costs about seven round
    trips and one for each 32 passages, most of them during the embedding.

    Raises:
        InvalidInput: The arguments name no text, or one that cannot be embedded.
        NotFound: The document is not in the workspace, or the workspace is empty.
        Conflict: The document was erased during the call, or the knowledge base is embedded with
            another model.
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
    if requested and not requested.is_ready:
        pending = await defer(requested, request, ctx)
        return pending or await _answer(replace(request, text=None), ctx)
    corpus = await _load_corpus(requested, request, ctx)
    ranked = await rank_passages(request.query, corpus, request.top_k, ctx)
    return await settle_answer(ranked, corpus.note, requested, request, ctx)


async def _load_or_upload(request: ExtractionRequest, ctx: Context) -> RequestedDocument | None:
    """Return the document that was stored before or is uploaded now, or None if none is named."""
    if request.document_id is None:
        return None
    record = await request.workspace.load_document(request.document_id)
    document = _get_current_document(record, ctx)
    if request.text is not None and not _can_reuse(document, ctx):
        return await upload(request.text, record, request.workspace, ctx)
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
    return await resume(record, document, request.workspace, ctx)


def _get_current_document(record: DocumentRecord, ctx: Context) -> WorkspaceDocument | None:
    """Return the stored document, unless it is being erased or its vectors are outdated."""
    document = record.document
    if record.workspace.erasing or document is None or document.profile != get_current_profile(ctx):
        return None
    return document


def _can_reuse(document: WorkspaceDocument | None, ctx: Context) -> bool:
    """Return whether a stored document serves a call that sent its text.

    After a failed upload it does not, so that the upload is retried.
    """
    return (
        document is not None
        and document.status in {DocumentStatus.WAITING, DocumentStatus.READY}
        and document.passage_characters == ctx.settings.extract_passage_characters
    )


async def _load_corpus(
    requested: RequestedDocument | None, request: ExtractionRequest, ctx: Context
) -> WorkspaceCorpus:
    """Return the corpus of the requested document, or of the whole workspace."""
    record = requested.record if requested else None
    if requested is None or request.scope is SearchScope.TASK:
        workspace = record.workspace if record else await request.workspace.load()
        return await _load_whole_workspace(workspace, request, ctx)
    if contents := requested.contents:
        return make_memory_corpus(
            requested.document, contents.parts, contents.texts, contents.vectors
        )
    if record:
        await _touch(record.workspace, request, ctx)
    return make_stored_corpus([requested.document], request.workspace)


async def _load_whole_workspace(
    workspace: WorkspaceRecord, request: ExtractionRequest, ctx: Context
) -> WorkspaceCorpus:
    """Return the corpus of the workspace's latest documents, up to `MAX_DOCUMENTS`.

    Raises:
        NotFound: No document can be searched.
    """
    documents, waiting = await asyncio.gather(
        request.workspace.list_ready(get_current_profile(ctx), MAX_DOCUMENTS + 1),
        request.workspace.count_waiting(),
    )
    if workspace.erasing:
        documents = []
        waiting = 0
    embedding = f"Texts that are still being embedded: {waiting}." if waiting else ""
    if not documents:
        problem = f"the workspace {request.workspace_id} has no text that can be searched"
        advice = f"{embedding} Ask again in a minute." if waiting else "Send the text as materials."
        message = f"extract_key_info found nothing to search: {problem}. {advice}"
        raise NotFound(message, details={"task_id": problem})
    await _touch(workspace, request, ctx)
    truncated = _TRUNCATED if len(documents) > MAX_DOCUMENTS else ""
    note = f"{truncated} {embedding}".strip() or None
    return make_stored_corpus(documents[:MAX_DOCUMENTS], request.workspace, note=note)


async def _touch(workspace: WorkspaceRecord, request: ExtractionRequest, ctx: Context) -> None:
    """Record that the workspace is in use."""
    writes = request.workspace.build_touch_writes(workspace, ctx.clock())
    await ctx.database.commit_skipping_conflicts(writes)


TOOL = Tool(
    name="extract_key_info",
    title="Find key passages in a text",
    description=(
        "Find the few passages of a long text you hold (a document, transcript or log) that answer"
        " a question. Send it as materials; it stays in a private workspace, so later questions"
        " need only document, or scope task. If the answer is pending, call again as it says. For"
        " what the owner has read or written use search_kb."
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
