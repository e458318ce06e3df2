"""From materials that can be searched to an answer, and to what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from functions.tools.extract_key_info.ranked import ranked
from functions.tools.extract_key_info.results import Out, State, found
from shared.store.database import Stale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.tools.extract_key_info.arguments import Wanted
    from functions.tools.extract_key_info.brought import Brought
    from functions.tools.extract_key_info.results import Ranked
    from functions.tools.extract_key_info.taking_in import Taken
    from shared.deps import Deps
    from shared.domain.material import Material
    from shared.store.database import Write
    from shared.store.materials import Standing

SEARCHED: Final = 200
"""Materials of a task that are searched at once, the latest."""
SOON: Final = 10
"""Seconds after which asking again makes sense, at least."""
LATE: Final = 600
"""Seconds after which it makes sense in any case."""
_CROWDED: Final = f"The task holds more: only the latest {SEARCHED} materials were searched."


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
    await _settle(out, result, wanted, deps, prepaid)
    return out


async def _settle(
    out: Out, result: Ranked, wanted: Wanted, deps: Deps, prepaid: Standing | None
) -> None:
    """Let an answer that was paid for cost nothing, once, and keep it where it may be asked for."""
    quoted = {source.material.document_id: source.material for _, source, _ in result.hits}
    proofs = [wanted.store.still_there(each) for each in quoted.values()]
    if prepaid and prepaid.material and prepaid.material.prepaid:
        deps.charge(0)
        if await _is_kept(out, [wanted.store.answered(prepaid), *proofs], deps):
            return
        deps.price = None  # another call was faster, and has had it for nothing
    if deps.once and deps.once.has_key and not await _is_kept(out, proofs, deps):
        deps.once = None  # what it quotes was erased: no answer of it is kept


async def _is_kept(out: Out, writes: Sequence[Write], deps: Deps) -> bool:
    """Commit an answer with these writes; False if one of them does not hold."""
    try:
        await deps.commit(writes, out)
    except Stale:
        return False
    return True


def pending(origin: Origin, taken: Taken, deps: Deps) -> Out:
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
