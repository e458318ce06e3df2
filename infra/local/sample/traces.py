"""Contributes the sample's traces, which are solved coding problems, as a user would."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shared.traces.corpus import build_index_entry
from shared.traces.model import Trace, TraceContent
from shared.traces.repository import Traces

if TYPE_CHECKING:
    from shared.runtime.context import Context

PATH: Final = Path(__file__).with_name("traces.json")
CONTRIBUTOR: Final = "sample"
"""The contributor of the sample's traces, who cannot sign in, so that every user may vote."""


async def share_traces(ctx: Context) -> Counter[str]:
    """Contribute the sample's traces that do not exist yet. Existing traces keep their votes."""
    traces = Traces(ctx.database)
    new = [trace for trace in load_sample_traces(ctx) if not await traces.get(trace.trace_id)]
    for trace in new:
        entry = await build_index_entry(trace, ctx)
        await ctx.database.commit(traces.build_creation_writes(trace, entry))
    return +Counter(shared=len(new))


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
