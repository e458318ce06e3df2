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
    from shared.runtime.context import Context
    from shared.workspaces.model import Material
    from shared.workspaces.repository import MaterialRecord

MIN_RETRY_SECONDS: Final = 10
"""The shortest wait to suggest before a caller asks again."""
MAX_RETRY_SECONDS: Final = 60
"""The longest wait to suggest. It is short, since each further call goes on with the embedding."""


@dataclass(frozen=True, slots=True)
class NamedMaterial:
    """The material that a call names, if it names one.

    Attributes:
        record: The record as it was stored when the call arrived.
        material: The material as it is by now.
        known: Whether it had been stored before this call. None if the call names no material.
    """

    record: MaterialRecord | None = None
    material: Material | None = None
    known: bool | None = None


async def settle_answer(
    ranked: Ranked, note: str | None, named: NamedMaterial, request: Request, ctx: Context
) -> Outcome[Out]:
    """The answer to a call.

    A caller who has already paid for the material is not charged, unless what the answer quotes was
    erased meanwhile.
    """
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
    return await _settle(outcome, ranked, named.record, request, ctx)


async def _settle(
    outcome: Outcome[Out],
    ranked: Ranked,
    record: MaterialRecord | None,
    request: Request,
    ctx: Context,
) -> Outcome[Out]:
    """Make a prepaid answer free, once. Store the answer only while the quoted materials exist."""
    quoted = {location.material.document_id: location.material for _, location, _ in ranked.hits}
    materials = list(quoted.values())
    if record and record.material and record.material.prepaid:
        free = replace(outcome, price=0)
        if await _try_commit(free, materials, request, ctx, prepaid=record):
            return free
    guard = ctx.idempotency
    if guard and guard.has_key and not await _try_commit(outcome, materials, request, ctx):
        return replace(outcome, repeatable=False)
    return outcome


async def _try_commit(
    outcome: Outcome[Out],
    quoted: Sequence[Material],
    request: Request,
    ctx: Context,
    prepaid: MaterialRecord | None = None,
) -> bool:
    """Commit an answer; False if a quoted material was erased, or the prepayment has been used."""
    store, latest = request.store, prepaid

    async def attempt() -> bool:
        nonlocal latest
        writes = [store.still_there(material) for material in quoted]
        if prepaid and prepaid.material:
            # The record at hand serves the first attempt; after a lost race it is read again.
            record = latest or await store.look(prepaid.material.document_id)
            latest = None
            if not record.material or record.material.prepaid != prepaid.material.prepaid:
                return False
            writes.append(store.answered(record))
        try:
            await ctx.commit(writes, outcome)
        except Stale:
            if await store.are_there(quoted):
                raise  # lost a race with another writer: try again
            return False
        return True

    return await ctx.database.until_it_holds(attempt)


async def defer(
    intake: Intake, named: NamedMaterial, request: Request, ctx: Context
) -> Outcome[Out] | None:
    """Hand the remaining passages to a background job; None if they are embedded already.

    One commit marks the material as waiting and records which call has paid. The call that hands
    it over pays, and one later answer is free. A call that brought the same material at the
    same time pays nothing.

    Raises:
        Erased: The material was erased during the call.
    """
    outcome = pending_outcome(intake, named, request)

    async def attempt() -> Outcome[Out] | None:
        record = await request.store.look(intake.material.document_id)
        material = record.material
        if material is None or material.arrival != intake.material.arrival:
            raise Erased("These materials were erased while they were brought. Bring them again.")
        if material.status is Status.READY:
            return None
        if material.status is Status.WAITING:
            return replace(outcome, price=0)
        # A caller may have paid before without having received an answer.
        settled = replace(outcome, price=0) if material.prepaid else outcome
        payment = material.prepaid or secrets.token_hex(8)
        return await ctx.commit(
            [request.store.left_to_a_job(record, payment, ctx.clock())], settled
        )

    return await ctx.database.until_it_holds(attempt)


def pending_outcome(intake: Intake, named: NamedMaterial, request: Request) -> Outcome[Out]:
    """The outcome that tells the caller when to ask again."""
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
        ask_again_after=min(MIN_RETRY_SECONDS + math.ceil(intake.seconds_left), MAX_RETRY_SECONDS),
        message=f"The materials are stored, {material.passages:,} passages. They are embedded by a"
        " job, and whenever somebody asks: send nothing more, but ask again with document, and with"
        " the same task_id.",
    )
    return _outcome(out, facts, request)


def _outcome(out: Out, facts: dict[str, Any], request: Request) -> Outcome[Out]:
    return Outcome(
        out,
        facts={"scope": request.scope.value} | facts,
        belongs_to=request.store.name,
    )
