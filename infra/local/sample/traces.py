"""Contributes the sample's traces, which are solved coding problems, as a user would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shared.runtime.capabilities import Capability
from shared.runtime.job import Job, Report
from shared.traces.corpus import build_index_entry
from shared.traces.model import Trace, TraceContent
from shared.traces.repository import Traces

if TYPE_CHECKING:
    from shared.runtime.context import Context
    from shared.runtime.job import Budget

PATH: Final = Path(__file__).with_name("traces.json")
CONTRIBUTOR: Final = "sample"
"""The contributor of the sample's traces, who cannot sign in, so that every user may vote."""


async def share_traces(ctx: Context, budget: Budget) -> Report:
    """Contribute the sample's traces that do not exist yet. Existing traces keep their votes."""
    report = Report()
    for trace in load_sample_traces(ctx):
        if not await Traces(ctx.database).get(trace.trace_id):
            writes = Traces(ctx.database).build_creation_writes(
                trace, await build_index_entry(trace, ctx)
            )
            await ctx.database.commit(writes)
            report.counts["shared"] += 1
        budget.progress(1)
    return report


def load_sample_traces(ctx: Context) -> list[Trace]:
    """Read the sample's traces, dated now."""
    now = ctx.clock()
    return [
        Trace(
            trace_id=f"sample-{row['id']}",
            content=TraceContent(
                title=row["title"],
                context_text=row["context_text"],
                solution_text=row["solution_text"],
                tags=tuple(row["tags"]),
            ),
            contributor=CONTRIBUTOR,
            created_at=now,
            updated_at=now,
        )
        for row in json.loads(PATH.read_text("utf-8"))
    ]


async def _count(ctx: Context) -> int:
    return len(load_sample_traces(ctx))


TRACES: Final = Job(
    name="sample-traces",
    title="Share the sample's solved problems",
    run=share_traces,
    total=_count,
    schedule="",
    capabilities=frozenset({Capability.EMBEDDING}),
)
"""`make run` runs this with the other jobs of the sample."""
