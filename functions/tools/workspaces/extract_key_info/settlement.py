"""From ranked passages to an answer, what it costs, and whether it is stored."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from functions.tools.workspaces.extract_key_info.results import Out, State, found
from shared.firestore.database import Stale
from shared.runtime.outcome import Outcome
from shared.workspaces.model import Status
from shared.workspaces.repository import Erased

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.tools.workspaces.extract_key_info.arguments import Request
    from functions.tools.workspaces.extract_key_info.intake import Intake
    from functions.tools.workspaces.extract_key_info.results import Ranked
    from shared.runtime.context import Deps
    from shared.workspaces.model import Material
    from shared.workspaces.repository import MaterialRecord

SOON: Final = 10
"""Seconds after which asking again makes sense, at least."""
LATE: Final = 60
"""Seconds after which it makes sense in any case: who asks goes on with the work."""


@dataclass(frozen=True, slots=True)
class Named:
    """The materials that a call names.

    Attributes:
        record: What was stored of them when the call came; None where it names none.
        material: What is known of them by now.
        known: Whether they had been brought before.
    """

    record: MaterialRecord | None = None
    material: Material | None = None
    known: bool | None = None


async def answer(
    ranked: Ranked, note: str | None, named: Named, request: Request, deps: Deps
) -> Outcome[Out]:
    """The passages that were found. Who was already charged for these materials pays nothing."""
    messages = [ranked.message, note]
    document = named.material.document_id if named.material else None
    out = Out(
        status=State.READY,
        contexts=[words for _, _, words in ranked.hits],
        passages=[found(hit, location) for hit, location, _ in ranked.hits],
        matches=ranked.matches,
        task_id=request.task_id,
        document=document,
        considered=ranked.considered,
        known=named.known,
        ask_again_after=None,
        message=" ".join(message for message in messages if message) or None,
    )
    facts = {
        "passages": ranked.considered,
        "known": bool(named.known),
        "scores": [round(hit.score, 4) for hit, _, _ in ranked.hits],
    }
    outcome = _outcome(out, facts | ({"document": document} if document else {}), request)
    return await _settled(outcome, ranked, named.record, request, deps)


async def _settled(
    outcome: Outcome[Out],
    ranked: Ranked,
    record: MaterialRecord | None,
    request: Request,
    deps: Deps,
) -> Outcome[Out]:
    """Let an answer that was prepaid cost nothing, once; store it only while what it quotes is."""
    quoted = {location.material.document_id: location.material for _, location, _ in ranked.hits}
    materials = list(quoted.values())
    if record and record.material and record.material.prepaid:
        free = replace(outcome, price=0)
        if await _is_stored(free, materials, request, deps, prepaid=record):
            return free
    guard = deps.idempotency
    if guard and guard.has_key and not await _is_stored(outcome, materials, request, deps):
        return replace(outcome, repeatable=False)
    return outcome


async def _is_stored(
    outcome: Outcome[Out],
    quoted: Sequence[Material],
    request: Request,
    deps: Deps,
    prepaid: MaterialRecord | None = None,
) -> bool:
    """Commit an answer; False if what it quotes was erased, or what was prepaid is spent."""
    store, latest = request.store, prepaid

    async def attempt() -> bool:
        nonlocal latest
        writes = [store.still_there(material) for material in quoted]
        if prepaid and prepaid.material:
            record, latest = latest or await store.look(prepaid.material.document_id), None
            if not record.material or record.material.prepaid != prepaid.material.prepaid:
                return False
            writes.append(store.answered(record))
        try:
            await deps.commit(writes, outcome)
        except Stale:
            if await store.are_there(quoted):
                raise  # only somebody else at the same time: again
            return False
        return True

    return await deps.database.until_it_holds(attempt)


async def defer(intake: Intake, named: Named, request: Request, deps: Deps) -> Outcome[Out] | None:
    """Leave the rest to a job, and say when to ask again; None where it is embedded by now.

    One commit says that the materials wait, and which call is paid for them. The call that leaves
    them pays, and is answered once for nothing. Another that brought them at the same time pays
    nothing.

    Raises:
        Erased: They were, meanwhile.
    """
    outcome = pending(intake, named, request)

    async def attempt() -> Outcome[Out] | None:
        record = await request.store.look(intake.material.document_id)
        material = record.material
        if material is None or material.arrival != intake.material.arrival:
            raise Erased("These materials were erased while they were brought. Bring them again.")
        if material.status is Status.READY:
            return None
        if material.status is Status.WAITING:
            return replace(outcome, price=0)
        # Somebody may have paid for these before, and not have been answered yet.
        settled = replace(outcome, price=0) if material.prepaid else outcome
        call = material.prepaid or secrets.token_hex(8)
        return await deps.commit([request.store.left_to_a_job(record, call, deps.clock())], settled)

    return await deps.database.until_it_holds(attempt)


def pending(intake: Intake, named: Named, request: Request) -> Outcome[Out]:
    """When to ask again."""
    material = intake.material
    facts = {"pending": True, "passages": material.passages, "document": material.document_id}
    out = Out(
        status=State.PENDING,
        contexts=[],
        passages=[],
        matches=None,
        task_id=request.task_id,
        document=material.document_id,
        considered=0,
        known=named.known,
        ask_again_after=min(SOON + math.ceil(intake.seconds_left), LATE),
        message=f"The materials are stored, {material.passages:,} passages. They are embedded by a"
        " job, and whenever somebody asks: send nothing more, but ask again with document, and with"
        " the same task_id.",
    )
    return _outcome(out, facts, request)


def _outcome(out: Out, facts: dict[str, Any], request: Request) -> Outcome[Out]:
    return Outcome(
        out,
        facts={"scope": request.scope.value} | facts,
        task=request.task_id,
        belongs_to=request.store.name,
    )
