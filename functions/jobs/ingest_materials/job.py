"""Embed the materials that were too long for the call that brought them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.domain.contents import refusal
from shared.domain.material import Status
from shared.job import Failure, Job, Report
from shared.materials.embedding import RefusedPassage, embed_passages
from shared.store.materials import Erased

if TYPE_CHECKING:
    from shared.deps import Deps
    from shared.domain.material import Material
    from shared.job import Budget
    from shared.store.materials import Materials

PAGE: Final = 10
"""Materials that are read from the queue at once."""
READ: Final = 320
"""Passages that are read at once."""


async def ingest_materials(deps: Deps, budget: Budget) -> Report:
    """Embed what waits, those that came first, and let it be searched when it is whole.

    Each batch of vectors is a commit, and what has a vector is not embedded again: killed anywhere,
    the next run goes on with what is left.

    Raises:
        Unavailable: The embedding provider or the database is down.
        Conflict: The base is embedded with another model.
    """
    report = Report()
    await deps.store.embedding_space.claim(deps.embedder)
    while waiting := await deps.store.material_queues.waiting(PAGE):
        for store, material in waiting:
            await _complete(store, material, deps, budget, report)
            if budget.spent:
                report.finished = False
                return report
    return report


async def _complete(
    store: Materials, material: Material, deps: Deps, budget: Budget, report: Report
) -> None:
    """Embed the rest of some materials; what somebody erases meanwhile is let go."""
    try:
        status, reason = await _embed(store, material, deps, budget, report)
        if status is Status.WAITING:
            return  # who asks for them embeds too, and may have finished meanwhile
        await store.change(material, status=status.value, reason=reason)
    except Erased:
        report.counts["erased"] += 1
        return
    if reason:
        report.failures.append(Failure(material.document_id, reason))
    report.counts[status.value] += 1
    budget.progress(1)


async def _embed(
    store: Materials, material: Material, deps: Deps, budget: Budget, report: Report
) -> tuple[Status, str | None]:
    """Embed what there is time for: how far the materials are then, and why if they failed."""
    if material.making.model != deps.embedder.model:
        return Status.ARRIVING, None  # who brings them again has them taken in by this model
    parts = (await store.parts([material]))[material.document_id]
    names = [name for part in parts for name in part.ids]
    for start in range(0, len(names), READ):
        texts = await store.without_vector(names[start : start + READ], material.making)
        try:
            made = await embed_passages(texts, material, store, deps, lambda _: not budget.spent)
        except RefusedPassage as error:
            return Status.FAILED, refusal(parts, error.passage_id)
        report.counts["embedded"] += len(made)
        if len(made) < len(texts):
            return Status.WAITING, None
    return Status.READY, None


async def waiting(deps: Deps) -> int:
    """How many materials wait."""
    return await deps.store.material_queues.count_waiting()


JOB = Job(
    name="ingest_materials",
    title="Embed materials that were too long for one call",
    run=ingest_materials,
    total=waiting,
    schedule="*/5 * * * *",
)
