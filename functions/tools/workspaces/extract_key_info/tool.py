"""Find the passages that answer a question in materials that the caller brings."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from functions.tools.workspaces.extract_key_info.answering import (
    Origin,
    answer,
    left_to_a_job,
    pending,
)
from functions.tools.workspaces.extract_key_info.arguments import In, Scope, wanted
from functions.tools.workspaces.extract_key_info.brought import brought_before, just_brought
from functions.tools.workspaces.extract_key_info.invalid import invalid
from functions.tools.workspaces.extract_key_info.results import Out
from functions.tools.workspaces.extract_key_info.taking_in import go_on, making, take_in
from shared.core.caller import Tier
from shared.core.errors import NotFound
from shared.runtime.tool import Effect, Need, Tool
from shared.text.passages import CUTTING
from shared.workspaces.model import Status, id_of

if TYPE_CHECKING:
    from functions.tools.workspaces.extract_key_info.arguments import Wanted
    from functions.tools.workspaces.extract_key_info.brought import Brought
    from shared.runtime.context import Deps
    from shared.workspaces.repository import Standing, TaskSeen

SEARCHED: Final = 200
"""Materials of a task that are searched at once, the latest."""
_CROWDED: Final = f"The task holds more: only the latest {SEARCHED} materials were searched."


async def extract_key_info(args: In, deps: Deps) -> Out:
    """Take new materials in, and rank their passages: in memory, without a search, on first sight.

    Of known materials two or three round trips: what is known of them; their words, and beside
    these the nearest passages; those that only words found. A task's past takes one or two more. Of
    new ones about eight, and one for each 32 passages, most of them while passages are embedded.

    Raises:
        InvalidInput: There is nothing to look in, or no text in it.
        NotFound: The document was never brought to this task, or was erased.
        Conflict: The task was erased meanwhile, or the base is embedded with another model.
        Unavailable: The embedding model or the database is down.
    """
    asked = wanted(args, deps)
    if deps.once:
        deps.once.about = asked.store.name
    deps.note(scope=args.scope.value)
    if args.materials is not None:
        return await _of_text(args.materials, asked, deps)
    if args.document:
        return await _of_document(args.document, asked, deps)
    task = await asked.store.task()
    return await answer(await _task_past(asked, task, deps), asked, Origin(), deps)


async def _of_text(text: str, asked: Wanted, deps: Deps) -> Out:
    """Answer from materials that came with the call, known or new."""
    document_id = id_of(text)
    standing = await asked.store.look(document_id)
    known, most = standing.material, deps.settings.extract_passage_characters
    same = known is not None and (known.passage_characters, known.cutting) == (most, CUTTING)
    tries = known is not None and known.status is Status.FAILED  # anew, with the text at hand
    if same and not tries and (found := await _of_known(standing, asked, deps)):
        return found
    taken = await take_in(text, document_id, asked.store, deps)
    origin = Origin(taken.material, known=False)
    if not taken.is_whole:
        left = await left_to_a_job(taken, asked, origin, deps)
        return left or await _of_document(document_id, asked, deps)
    if asked.scope is Scope.TASK:
        task = await asked.store.task()
        return await answer(await _task_past(asked, task, deps), asked, origin, deps, standing)
    brought = just_brought(taken.material, taken.parts, taken.texts, taken.vectors)
    return await answer(brought, asked, origin, deps, standing)


async def _of_document(document_id: str, asked: Wanted, deps: Deps) -> Out:
    """Answer from materials that were brought before."""
    standing = await asked.store.look(document_id)
    if found := await _of_known(standing, asked, deps):
        return found
    told = f"was not brought to the task {deps.task}, or not completely, or was erased"
    message = f"The document {told}. Send the text itself as materials, or name its task_id."
    raise NotFound(message, details={"document": told})


async def _of_known(standing: Standing, asked: Wanted, deps: Deps) -> Out | None:
    """Answer from materials that are stored, or say that they wait; None where they are not."""
    material = standing.material
    if standing.task.erasing or material is None or material.making != making(deps):
        return None
    origin = Origin(material, known=True)
    if material.status is Status.FAILED:
        raise invalid("materials", material.reason or "the embedding model refuses them")
    if material.status is Status.WAITING:
        taken = await go_on(standing, asked.store, deps)
        if taken.material.status is Status.WAITING:
            deps.charge(0)
            return pending(origin, taken, deps)
        standing = await asked.store.look(material.document_id)
    elif material.status is not Status.READY:
        return None
    brought = brought_before([material], asked.store)
    if asked.scope is Scope.TASK:
        brought = await _task_past(asked, standing.task, deps)
    else:
        await _touch(standing.task, asked, deps)
    return await answer(brought, asked, origin, deps, prepaid=standing)


async def _touch(task: TaskSeen, asked: Wanted, deps: Deps) -> None:
    """Note that the task is in use."""
    await deps.database.commit_what_holds(asked.store.touch(task, deps.clock()))


async def _task_past(asked: Wanted, task: TaskSeen, deps: Deps) -> Brought:
    """Everything that was brought to the task."""
    materials, waiting = await asyncio.gather(
        asked.store.ready(making(deps), SEARCHED + 1), asked.store.waiting()
    )
    if task.erasing:
        materials, waiting = [], 0
    late = f"{waiting} of its materials are still being taken in." if waiting else ""
    crowded = _CROWDED if len(materials) > SEARCHED else ""
    if not materials:
        told = f"the task {deps.task} has no materials that can be searched"
        advice = f"{late} Ask again in a minute." if late else "Send materials."
        message = f"extract_key_info found nothing to look in: {told}. {advice}"
        raise NotFound(message, details={"task_id": told})
    await _touch(task, asked, deps)
    note = " ".join(each for each in (crowded, late) if each) or None
    return brought_before(materials[:SEARCHED], asked.store, note=note)


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
    needs=frozenset({Need.EMBEDDING}),
    settings=(
        *("extract_top_k", "extract_top_k_limit", "extract_semantic_weight"),
        *("extract_passage_characters", "extract_materials_characters"),
    ),
    memory=1024,
    concurrency=2,
)
