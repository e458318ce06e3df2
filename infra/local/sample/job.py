"""Adds to the ingested sample what a language model would, and the traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from infra.local.sample.extractions import add_extractions
from infra.local.sample.knowledge import add_knowledge
from infra.local.sample.traces import share_traces
from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

_PARTS: Final = (add_knowledge, add_extractions, share_traces)


async def _run(ctx: Context, budget: Budget) -> Report:
    report = Report()
    for add in _PARTS:
        report.counts += await add(ctx)
        budget.progress(1)
    return report


async def _count_parts(_: Context) -> int:
    return len(_PARTS)


SAMPLE: Final = Job(
    name="sample",
    title="Add the sample's cards, clusters, extractions and solved problems",
    run=_run,
    total=_count_parts,
    schedule="",
    capabilities=frozenset({Capability.EMBEDDING}),
)
"""`make run` runs this after the job `embed`."""
