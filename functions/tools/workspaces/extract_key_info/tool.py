"""Find the passages that answer a question in materials that the caller brings."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from functions.tools.workspaces.extract_key_info.arguments import (
    In,
    Scope,
    invalid,
    read_request,
    task_id_of,
)
from functions.tools.workspaces.extract_key_info.corpus import corpus_in_memory, stored_corpus
from functions.tools.workspaces.extract_key_info.intake import current_making, resume, take_in
from functions.tools.workspaces.extract_key_info.ranking import rank_passages
from functions.tools.workspaces.extract_key_info.results import Out
from functions.tools.workspaces.extract_key_info.settlement import (
    NamedMaterial,
    defer,
    pending_outcome,
    settle_answer,
)
from shared.core.caller import Tier
from shared.core.errors import NotFound, ToolFailure
from shared.runtime.capabilities import Capability
from shared.runtime.tool import Effect, Tool
from shared.text.passages import CUTTING
from shared.workspaces.model import Status, id_of

if TYPE_CHECKING:
    from functions.tools.workspaces.extract_key_info.arguments import Request
    from functions.tools.workspaces.extract_key_info.corpus import SearchedMaterials
    from shared.runtime.context import Context
    from shared.runtime.outcome import Outcome
    from shared.workspaces.model import Material
    from shared.workspaces.repository import MaterialRecord, TaskRecord

MAX_SEARCHED: Final = 200
"""The most materials of a task that one call searches: the latest."""
_TRUNCATED: Final = f"The task holds more: only the latest {MAX_SEARCHED} materials were searched."


async def extract_key_info(args: In, ctx: Context) -> Outcome[Out]:
    """Load what is stored, take in what is new, rank, and settle what it costs.

    Stored material takes two or three round trips: its record; its words and, beside them, the
    nearest passages; the text of passages that only words found. Scope task takes one or two more.
    New material takes about seven, and one for each 32 passages, most of them while passages are
    being embedded; it is ranked in memory.

    Raises:
        InvalidInput: There is nothing to look in, or no text in it.
        NotFound: The document was never brought to this task, or was erased.
        Conflict: The task was erased during the call, or the base is embedded with another model.
        Unavailable: The embedding model or the database is down.
    """
    request = read_request(args, ctx)
    try:
        if args.materials is not None:
            return await _from_text(args.materials, request, ctx)
        if args.document:
            return await _from_document(args.document, request, ctx)
        task = await request.store.task()
        return await _ranked(await _task_corpus(request, task, ctx), NamedMaterial(), request, ctx)
    except ToolFailure as failure:
        failure.facts = {"scope": args.scope.value, **failure.facts}
        raise


async def _from_text(text: str, request: Request, ctx: Context) -> Outcome[Out]:
    """Answer from materials that came with the call, stored or new."""
    record = await request.store.look(id_of(text))
    if _is_reusable(record.material, ctx) and (outcome := await _from_stored(record, request, ctx)):
        return outcome
    intake = await take_in(text, record, request.store, ctx)
    named = NamedMaterial(record, intake.material, known=False)
    if not intake.is_whole:
        deferred = await defer(intake, named, request, ctx)
        return deferred or await _from_document(intake.material.document_id, request, ctx)
    if request.scope is Scope.TASK:
        searched = await _task_corpus(request, await request.store.task(), ctx)
    else:
        searched = corpus_in_memory(intake.material, intake.parts, intake.texts, intake.vectors)
    return await _ranked(searched, named, request, ctx)


def _is_reusable(material: Material | None, ctx: Context) -> bool:
    """Whether the stored copy can be used. A failed one is retried, as the text is at hand."""
    if material is None or material.status is Status.FAILED:
        return False
    characters = ctx.settings.extract_passage_characters
    return (material.passage_characters, material.cutting) == (characters, CUTTING)


async def _from_document(document_id: str, request: Request, ctx: Context) -> Outcome[Out]:
    """Answer from materials that were brought before."""
    record = await request.store.look(document_id)
    if outcome := await _from_stored(record, request, ctx):
        return outcome
    problem = f"was not brought to the task {request.task_id}, or not completely, or was erased"
    message = f"The document {problem}. Send the text itself as materials, or name its task_id."
    raise NotFound(message, details={"document": problem})


async def _from_stored(
    record: MaterialRecord, request: Request, ctx: Context
) -> Outcome[Out] | None:
    """Answer from stored material, or report it pending; None if it is missing or out of date."""
    material = record.material
    if record.task.erasing or material is None or material.making != current_making(ctx):
        return None
    if material.status is Status.FAILED:
        raise invalid("materials", material.reason or "the embedding model refuses them")
    if material.status is Status.WAITING:
        intake = await resume(record, request.store, ctx)
        if intake.material.status is Status.WAITING:
            named = NamedMaterial(record, material, known=True)
            return replace(pending_outcome(intake, named, request), price=0)
        record = await request.store.look(material.document_id)
    elif material.status is not Status.READY:
        return None
    if request.scope is Scope.TASK:
        searched = await _task_corpus(request, record.task, ctx)
    else:
        searched = stored_corpus([material], request.store)
        await _mark_in_use(record.task, request, ctx)
    return await _ranked(searched, NamedMaterial(record, material, known=True), request, ctx)


async def _ranked(
    searched: SearchedMaterials, named: NamedMaterial, request: Request, ctx: Context
) -> Outcome[Out]:
    ranked = await rank_passages(request.query, searched, request.top_k, ctx)
    return await settle_answer(ranked, searched.note, named, request, ctx)


async def _mark_in_use(task: TaskRecord, request: Request, ctx: Context) -> None:
    """Note that the task is in use."""
    await ctx.database.commit_what_holds(request.store.touch(task, ctx.clock()))


async def _task_corpus(request: Request, task: TaskRecord, ctx: Context) -> SearchedMaterials:
    """Everything that was brought to the task, which is marked as in use."""
    materials, waiting = await asyncio.gather(
        request.store.ready(current_making(ctx), MAX_SEARCHED + 1), request.store.waiting()
    )
    if task.erasing:
        materials, waiting = [], 0
    waiting_note = f"{waiting} of its materials are still being taken in." if waiting else ""
    truncation_note = _TRUNCATED if len(materials) > MAX_SEARCHED else ""
    if not materials:
        problem = f"the task {request.task_id} has no materials that can be searched"
        advice = f"{waiting_note} Ask again in a minute." if waiting_note else "Send materials."
        message = f"extract_key_info found nothing to look in: {problem}. {advice}"
        raise NotFound(message, details={"task_id": problem})
    await _mark_in_use(task, request, ctx)
    note = " ".join(sentence for sentence in (truncation_note, waiting_note) if sentence) or None
    return stored_corpus(materials[:MAX_SEARCHED], request.store, note=note)


TOOL = Tool(
    name="extract_key_info",
    title="Find the key passages in materials",
    description=(
        "Find the few passages that answer a question in long materials that you hold: documents,"
        " transcripts, logs, search results. Send the question as query and the text as materials;"
        " contexts are the best passages word for word, passages say where each stands. The"
        " materials stay stored for you alone under task_id: to ask about them again send the"
        " document of the answer in place of the text, or ask everything that was brought to the"
        " task with scope task. A very long text is pending at first: then ask again as the answer"
        " says. For what the owner has read or written use search_kb instead."
    ),
    input=In,
    output=Out,
    run=extract_key_info,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    timeout=50.0,
    idempotent=True,
    task=task_id_of,
    capabilities=frozenset({Capability.EMBEDDING}),
    settings=(
        *("extract_top_k", "extract_top_k_limit", "extract_semantic_weight"),
        *("extract_passage_characters", "extract_materials_characters"),
    ),
    memory=1024,
    concurrency=2,
)
