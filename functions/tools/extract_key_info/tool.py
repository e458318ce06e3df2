"""Find the passages that answer a question in materials that the caller brings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, AliasChoices, Field, StringConstraints, model_validator

from functions.tools.extract_key_info.brought import brought_before, just_brought
from functions.tools.extract_key_info.invalid import invalid
from functions.tools.extract_key_info.ranked import ranked
from functions.tools.extract_key_info.results import Out, State, found
from functions.tools.extract_key_info.taking_in import go_on, making, take_in
from shared.caller import Tier
from shared.domain.material import Status, id_of
from shared.domain.names import safe_id
from shared.errors import NotFound
from shared.readable import is_blank, wrong
from shared.store.database import Stale
from shared.tool import Effect, Repeatable, Tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.tools.extract_key_info.brought import Brought
    from functions.tools.extract_key_info.taking_in import Taken
    from shared.deps import Deps
    from shared.domain.material import Material
    from shared.store.database import Write
    from shared.store.materials import Materials, Standing, TaskSeen

DEFAULT_TASK: Final = "default"
MOST_MATERIALS: Final = 32 * 1024 * 1024
"""Characters; no request holds more."""
SEARCHED: Final = 200
"""Materials of a task that are searched at once, the latest."""
SOON: Final = 10
"""Seconds after which asking again makes sense, at least."""
LATE: Final = 600
"""Seconds after which it makes sense in any case."""
_CROWDED: Final = f"The task holds more: only the latest {SEARCHED} materials were searched."


MaterialsId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$", max_length=32)]


class Scope(StrEnum):
    """In which materials to look."""

    MATERIALS = "materials"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked, and of what.

    Attributes:
        query: The question.
        top_k: How many passages at most.
        scope: In which materials to look.
        store: The task that they belong to.
    """

    query: str
    top_k: int
    scope: Scope
    store: Materials


@dataclass(frozen=True, slots=True)
class Origin:
    """The materials of a call.

    Attributes:
        material: What is known of them; None where none were named.
        known: Whether they had been brought before.
    """

    material: Material | None = None
    known: bool | None = None


def _has_words(text: str) -> str:
    if is_blank(text):
        raise wrong("must hold more than white space")
    return text


class In(Repeatable):
    """A question, and where to look for the answer."""

    query: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000),
        AfterValidator(_has_words),
    ] = Field(description="The question that the passages should answer, in plain words.")
    materials: Annotated[str, StringConstraints(max_length=MOST_MATERIALS)] | None = Field(
        default=None,
        description="The text to look in, as it is: pages, transcripts, logs, code. Passages are"
        " parted by blank lines. It is stored under the task, for you alone.",
    )
    document: MaterialsId | None = Field(
        default=None,
        description="In place of materials that were brought to this task before: document of that"
        " answer.",
    )
    top_k: int | None = Field(
        default=None,
        ge=1,
        description="How many passages at most: 5 by default, 20 at most, unless this server was"
        " set up otherwise.",
        validation_alias=AliasChoices("top_k", "topK"),
    )
    task_id: Annotated[str, StringConstraints(max_length=200)] | None = Field(
        default=None,
        description="What the materials are for, in a word or two; materials of one task are"
        " searched together with scope task. By default, what stands before the @ of your key, else"
        f" {DEFAULT_TASK}.",
    )
    scope: Scope = Field(
        default=Scope.MATERIALS,
        description="materials: look in these materials alone. task: in everything that was brought"
        " to the task; materials are then optional.",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, arguments: Any) -> Any:
        if isinstance(arguments, dict) and {"top_k", "topK"} <= arguments.keys():
            raise wrong("top_k and topK are one parameter: send one of them")
        return arguments


async def extract_key_info(args: In, deps: Deps) -> Out:
    """Take new materials in, and rank their passages: in memory, without a search, on first sight.

    Of known materials four round trips: what is known of them; their words, and beside these the
    nearest passages; those that only words found. Of new ones about six, most of them while
    passages are embedded. A task's past takes one more.

    Raises:
        InvalidInput: There is nothing to look in, or no text in it.
        NotFound: The document was never brought to this task, or was erased.
        Conflict: The task was erased meanwhile, or the base is embedded with another model.
        Unavailable: The embedding model or the database is down.
    """
    deps.task = _task(args, deps)
    wanted = Wanted(args.query, _top_k(args, deps), args.scope, _store(deps.task, deps))
    if deps.once:
        deps.once.about = wanted.store.name
    deps.note(scope=args.scope.value)
    if args.materials is not None:
        _require_nothing_else(args)
        return await _of_text(args.materials, wanted, deps)
    if args.document:
        return await _of_document(args.document, wanted, deps)
    if args.scope is Scope.TASK:
        task = await wanted.store.task()
        return await _answer(await _task_past(wanted, task, deps), wanted, Origin(), deps)
    raise invalid("materials", "required where there is no document, and scope is materials")


async def _of_text(text: str, wanted: Wanted, deps: Deps) -> Out:
    """Answer from materials that came with the call, known or new."""
    document_id = id_of(text)
    standing = await wanted.store.look(document_id)
    known, most = standing.material, deps.settings.extract_passage_characters
    same = known is not None and known.passage_characters == most
    if same and (answer := await _of_known(standing, wanted, deps)):
        return answer
    taken = await take_in(text, document_id, wanted.store, deps)
    origin = Origin(taken.material, known=False)
    if taken.material.status is Status.WAITING:
        return _pending(origin, taken, deps)
    if not taken.is_whole:  # somebody else was faster
        return await _of_document(document_id, wanted, deps)
    if wanted.scope is Scope.TASK:
        task = await wanted.store.task()
        return await _answer(await _task_past(wanted, task, deps), wanted, origin, deps)
    brought = just_brought(taken.material, taken.parts, taken.texts, taken.vectors)
    return await _answer(brought, wanted, origin, deps)


async def _of_document(document_id: str, wanted: Wanted, deps: Deps) -> Out:
    """Answer from materials that were brought before."""
    standing = await wanted.store.look(document_id)
    if answer := await _of_known(standing, wanted, deps):
        return answer
    told = f"is not among the materials of task {deps.task}, not whole, or erased"
    message = f"The document {told}. Send the text itself as materials, or name its task_id."
    raise NotFound(message, details={"document": told})


async def _of_known(standing: Standing, wanted: Wanted, deps: Deps) -> Out | None:
    """Answer from materials that are stored, or say that they wait; None where they are not."""
    material = standing.material
    if standing.task.erasing or material is None or material.making != making(deps):
        return None
    origin = Origin(material, known=True)
    if material.status is Status.FAILED:
        raise invalid("materials", material.reason or "the embedding model refuses them")
    if material.status is Status.WAITING:
        taken = await go_on(material, wanted.store, deps)
        if taken.material.status is Status.WAITING:
            return _pending(origin, taken, deps)
        standing = await wanted.store.look(material.document_id)
    elif material.status is not Status.READY:
        return None
    brought = brought_before([material], wanted.store)
    if wanted.scope is Scope.TASK:
        brought = await _task_past(wanted, standing.task, deps)
    else:
        await _touch(standing.task, wanted, deps)
    return await _answer(brought, wanted, origin, deps, prepaid=standing)


async def _touch(task: TaskSeen, wanted: Wanted, deps: Deps) -> None:
    """Note that the task is in use."""
    await deps.store.database.commit_what_holds(wanted.store.touch(task, deps.clock()))


async def _task_past(wanted: Wanted, task: TaskSeen, deps: Deps) -> Brought:
    """Everything that was brought to the task."""
    materials = [] if task.erasing else await wanted.store.ready(making(deps), SEARCHED + 1)
    if not materials:
        told = f"the task {deps.task} has no materials that can be searched yet"
        message = f"extract_key_info found nothing to look in: {told}. Send materials."
        raise NotFound(message, details={"task_id": told})
    await _touch(task, wanted, deps)
    return brought_before(materials[:SEARCHED], wanted.store, crowded=len(materials) > SEARCHED)


async def _answer(
    brought: Brought,
    wanted: Wanted,
    origin: Origin,
    deps: Deps,
    prepaid: Standing | None = None,
) -> Out:
    """Rank, and keep the answer; `prepaid` are materials that may have been paid for already."""
    result = await ranked(wanted.query, brought, wanted.top_k, deps)
    deps.note(
        passages=result.considered,
        known=bool(origin.known),
        scores=[round(hit.score, 4) for hit, _, _ in result.hits],
        **({"document": origin.material.document_id} if origin.material else {}),
    )
    notes = [result.message, _CROWDED if brought.crowded else None]
    out = Out(
        status=State.READY,
        contexts=[words for _, _, words in result.hits],
        passages=[found(hit, source) for hit, source, _ in result.hits],
        matches=result.matches,
        task_id=str(deps.task),
        document=origin.material.document_id if origin.material else None,
        considered=result.considered,
        known=origin.known,
        ask_again_after=None,
        message=" ".join(note for note in notes if note) or None,
    )
    quoted = {source.material.document_id: source.material for _, source, _ in result.hits}
    proofs = [wanted.store.still_there(each) for each in quoted.values()]
    if prepaid and prepaid.material and prepaid.material.prepaid:
        deps.charge(0)
        if await _is_kept(out, [wanted.store.answered(prepaid), *proofs], deps):
            return out
        deps.price = None  # another call was faster, and has had it for nothing
    if deps.once and deps.once.has_key and not await _is_kept(out, proofs, deps):
        deps.once = None  # what it quotes was erased: no answer of it is kept
    return out


async def _is_kept(out: Out, writes: Sequence[Write], deps: Deps) -> bool:
    """Commit an answer with these writes; False if one of them does not hold."""
    try:
        await deps.commit(writes, out)
    except Stale:
        return False
    return True


def _pending(origin: Origin, taken: Taken, deps: Deps) -> Out:
    """Say when to ask again. Only the call that left materials to a job pays, and once."""
    deps.once = None  # this answer is not kept: the same call, sent again, may be answered
    if not taken.is_left:
        deps.charge(0)
    material = origin.material
    deps.note(pending=True, document=material.document_id if material else "")
    return Out(
        status=State.PENDING,
        contexts=[],
        passages=[],
        matches=False,
        task_id=str(deps.task),
        document=material.document_id if material else None,
        considered=0,
        known=origin.known,
        ask_again_after=min(SOON + math.ceil(taken.seconds_left), LATE),
        message="The materials are stored, and a job embeds them. Nothing more needs to be sent:"
        " ask again with document, and with the same task_id.",
    )


def _task(args: In, deps: Deps) -> str:
    if args.task_id is None:
        return deps.caller.task or DEFAULT_TASK
    try:
        return safe_id(args.task_id)
    except ValueError:
        raise invalid("task_id", "must hold more than white space") from None


def _top_k(args: In, deps: Deps) -> int:
    most = deps.settings.extract_top_k_limit
    if args.top_k is None:
        return deps.settings.extract_top_k
    if args.top_k > most:
        raise invalid("top_k", f"must be at most {most}")
    return args.top_k


def _store(task: str, deps: Deps) -> Materials:
    return deps.store.materials(str(deps.caller.user_id), task)


def _require_nothing_else(args: In) -> None:
    if args.document:
        raise invalid("document", "stands in place of materials: send one of the two")
    if not str(args.materials).strip():
        raise invalid("materials", "must hold more than white space")


TOOL = Tool(
    name="extract_key_info",
    title="Find the key passages in materials",
    description=(
        "Find the few passages that answer a question in long materials that you hold: documents,"
        " transcripts, logs, search results. Send the question as query and the text as materials;"
        " contexts are the best passages word for word, passages say where each stands. The"
        " materials stay stored for you alone under task_id: to ask about them again send the"
        " document of the answer in place of the text, or ask everything that was brought to the"
        " task with scope task. For what the owner has read or written use search_kb instead."
    ),
    input=In,
    output=Out,
    run=extract_key_info,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    timeout=50.0,
    idempotent=True,
)
