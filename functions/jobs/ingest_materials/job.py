"""Embed the materials that were too long for the call that brought them."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from shared.ai.embedding import Purpose
from shared.core.errors import CarrelError
from shared.firestore.database import LeaseLost
from shared.index.embedding_space import EmbeddingSpace
from shared.runtime.capabilities import Capability
from shared.runtime.job import Failure, Job, Report
from shared.workspaces.embedding import RefusedPassage, embed_waiting
from shared.workspaces.model import Status, refusal
from shared.workspaces.queue import MaterialQueues
from shared.workspaces.repository import Erased

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget
    from shared.workspaces.model import Material
    from shared.workspaces.repository import Materials

PAGE: Final = 10
"""Materials that are read from the queue at once."""
TURN_SECONDS: Final = 60.0
"""How long to work on some materials while others wait too."""
MOST_TRIES: Final = 5
"""How often a job fails at materials before it gives them up."""
PROBE: Final = "carrel"
"""A text that every provider embeds, if it works at all."""


async def ingest_materials(ctx: Context, budget: Budget) -> Report:
    """Embed what waits, in turns, and let it be searched when it is whole.

    Each batch of vectors is a commit, and what has a vector is not embedded again: killed anywhere,
    the next run goes on with what is left. What fails is put off, each time for longer, and given
    up after five times; it never keeps others waiting.

    Raises:
        Unavailable: The embedding provider or the database is down.
        CarrelError: The embedding provider is set up wrongly.
    """
    report = Report()
    await EmbeddingSpace(ctx.database).claim(ctx.embedder)
    while waiting := await MaterialQueues(ctx.database).waiting(ctx.clock(), PAGE):
        for store, material in waiting:
            await _turn(store, material, ctx, budget, report)
            if budget.spent:
                report.finished = False
                return report
    return report


async def _turn(
    store: Materials, material: Material, ctx: Context, budget: Budget, report: Report
) -> None:
    """Work on some materials for a while; what somebody erases meanwhile is let go."""
    try:
        await _work(store, material, ctx, budget, report)
    except Erased:
        report.counts["erased"] += 1


async def _work(
    store: Materials, material: Material, ctx: Context, budget: Budget, report: Report
) -> None:
    try:
        status = await _embed(store, material, ctx, budget, report)
    except RefusedPassage as error:
        parts = await store.contents(material)
        await _give_up(store, material, refusal(parts, error.passage_id), report)
    except (Erased, LeaseLost):
        raise
    except CarrelError as error:
        await _put_off(store, material, error, ctx, report)
    else:
        if status is Status.WAITING:  # who asks for them embeds too, and may have finished them
            await store.change(material, next_at=ctx.clock(), tries=0)
            return
        await store.change(material, status=status.value)
        report.counts[status.value] += 1
        budget.progress(1)


async def _embed(
    store: Materials, material: Material, ctx: Context, budget: Budget, report: Report
) -> Status:
    """Embed what there is time for: how far the materials are then."""
    if material.making.model != ctx.embedder.model:
        return Status.ARRIVING  # who brings them again has them taken in by this model
    names = [name for part in await store.contents(material) for name in part.ids]
    over = time.monotonic() + TURN_SECONDS

    def goes_on(_left: int) -> bool:
        return not budget.spent and time.monotonic() < over

    def on_embedded(passages: int) -> None:
        report.counts["embedded"] += passages

    whole = await embed_waiting(
        names, material, store, ctx, goes_on=goes_on, on_embedded=on_embedded
    )
    return Status.READY if whole else Status.WAITING


async def _put_off(
    store: Materials, material: Material, error: CarrelError, ctx: Context, report: Report
) -> None:
    """Let others come first. Where the provider fails with any text, that is nobody's fault here.

    Raises:
        CarrelError: `error`, in that case.
    """
    try:
        await ctx.embedder.embed([PROBE], Purpose.DOCUMENT)
    except CarrelError:
        await store.change(material, next_at=ctx.clock())
        raise error from None
    tries = material.tries + 1
    if tries >= MOST_TRIES:
        await _give_up(store, material, "they could not be embedded", report)
        return
    report.failures.append(Failure(material.document_id, f"{error.code}: {error.message}"))
    next_at = ctx.clock() + timedelta(minutes=2**tries)
    await store.change(material, next_at=next_at, tries=tries)


async def _give_up(store: Materials, material: Material, reason: str, report: Report) -> None:
    """Say that they cannot be embedded, unless a call has embedded them meanwhile."""
    record = await store.look(material.document_id)
    present = record.material
    if present and present.arrival == material.arrival and present.status is Status.WAITING:
        await store.give_up(record, reason)
        report.counts[Status.FAILED.value] += 1
        report.failures.append(Failure(material.document_id, reason))


async def waiting(ctx: Context) -> int:
    """How many materials wait."""
    return await MaterialQueues(ctx.database).count_waiting()


JOB = Job(
    name="ingest_materials",
    title="Embed materials that were too long for one call",
    run=ingest_materials,
    total=waiting,
    schedule="*/5 * * * *",
    capabilities=frozenset({Capability.EMBEDDING}),
)
