"""From materials that can be searched to an answer, and to what it costs."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from functions.tools.workspaces.extract_key_info.ranked import ranked
from functions.tools.workspaces.extract_key_info.results import Out, State, found
from shared.firestore.database import Stale
from shared.workspaces.model import Status
from shared.workspaces.repository import Erased

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.tools.workspaces.extract_key_info.arguments import Wanted
    from functions.tools.workspaces.extract_key_info.brought import Brought
    from functions.tools.workspaces.extract_key_info.results import Ranked
    from functions.tools.workspaces.extract_key_info.taking_in import Taken
    from shared.runtime.context import Deps
    from shared.workspaces.model import Material
    from shared.workspaces.repository import Standing

SOON: Final = 10
"""Seconds after which asking again makes sense, at least."""
LATE: Final = 60
"""Seconds after which it makes sense in any case: who asks goes on with the work."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The materials of a call.

    Attributes:
        material: What is known of them; None where none were named.
        known: Whether they had been brought before.
    """

    material: Material | None = None
    known: bool | None = None


async def answer(
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
    notes = [result.message, brought.note]
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
    await _settle(out, result, wanted, deps, prepaid)
    return out


async def _settle(
    out: Out, result: Ranked, wanted: Wanted, deps: Deps, prepaid: Standing | None
) -> None:
    """Let an answer that was paid for cost nothing, once, and keep it where it may be asked for."""
    quoted = {source.material.document_id: source.material for _, source, _ in result.hits}
    materials = list(quoted.values())
    if prepaid and prepaid.material and prepaid.material.prepaid:
        deps.charge(0)
        if await _is_kept(out, materials, wanted, deps, prepaid.material):
            return
        deps.price = None  # another call was faster, and has had it for nothing
    if deps.once and deps.once.has_key and not await _is_kept(out, materials, wanted, deps):
        deps.once = None  # what it quotes was erased: no answer of it is kept


async def _is_kept(
    out: Out,
    quoted: Sequence[Material],
    wanted: Wanted,
    deps: Deps,
    prepaid: Material | None = None,
) -> bool:
    """Commit an answer; False if what it quotes was erased, or what was prepaid is spent."""

    async def attempt() -> bool:
        writes = [wanted.store.still_there(each) for each in quoted]
        if prepaid:
            standing = await wanted.store.look(prepaid.document_id)
            if not standing.material or standing.material.prepaid != prepaid.prepaid:
                return deps.once is not None and deps.once.is_kept
            writes.append(wanted.store.answered(standing))
        try:
            await deps.commit(writes, out)
        except Stale:
            if await wanted.store.are_there(quoted):
                raise  # only somebody else at the same time: again
            return False
        return True

    return await deps.database.until_it_holds(attempt)


async def left_to_a_job(taken: Taken, wanted: Wanted, origin: Origin, deps: Deps) -> Out | None:
    """Say in one commit that materials wait, and which call is paid for them; then when to ask.

    The call that leaves them pays; it is answered once for nothing. Another that brought them at
    the same time pays nothing. None where somebody has embedded them by now.

    Raises:
        Erased: They were, meanwhile.
    """
    out = pending(origin, taken, deps)

    async def attempt() -> Out | None:
        standing = await wanted.store.look(taken.material.document_id)
        material = standing.material
        if material is None or material.arrival != taken.material.arrival:
            raise Erased("These materials were erased while they were brought. Bring them again.")
        if material.status is Status.READY:
            return None
        deps.price = None
        if material.prepaid or material.status is Status.WAITING:
            deps.charge(0)  # somebody has paid for these, and was not answered yet
        if material.status is Status.WAITING:
            return out
        call = material.prepaid or secrets.token_hex(8)
        return await deps.commit([wanted.store.left_to_a_job(standing, call, deps.clock())], out)

    return await deps.database.until_it_holds(attempt)


def pending(origin: Origin, taken: Taken, deps: Deps) -> Out:
    """When to ask again."""
    material = taken.material
    deps.note(pending=True, passages=material.passages, document=material.document_id)
    return Out(
        status=State.PENDING,
        contexts=[],
        passages=[],
        matches=None,
        task_id=str(deps.task),
        document=material.document_id,
        considered=0,
        known=origin.known,
        ask_again_after=min(SOON + math.ceil(taken.seconds_left), LATE),
        message=f"The materials are stored, {material.passages:,} passages. They are embedded by a"
        " job, and whenever somebody asks: send nothing more, but ask again with document, and with"
        " the same task_id.",
    )
