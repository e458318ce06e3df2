"""`search_traces` finds a good trace among many flagged ones, which are hidden.

A trace is flagged when its voters report it as spam or as dangerous.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.dates import utc_now
from shared.index.facets import Kind, make_named_facet
from shared.runtime.context import App, Context
from shared.traces.corpus import build_index_entry, make_trace_corpus
from shared.traces.model import Trace, TraceContent
from shared.traces.repository import Traces
from shared.traces.trust import TraceStatus, VoteTally
from tests.support.traces import search_trace_ids

FLAGGED_TALLY = VoteTally(downvotes=9, down=450, alarm=450)


async def store_trace(ctx: Context, name: str, text: str, tally: VoteTally) -> None:
    """Store a trace with this sum of its votes, without votes."""
    now = utc_now()
    trace = Trace(
        trace_id=name,
        content=TraceContent(title=text, context_text=text, solution_text=name, tags=("python",)),
        contributor="anna",
        created_at=now,
        updated_at=now,
    )
    trace_with_votes = replace(trace, tally=tally)
    entry = await build_index_entry(trace_with_votes, ctx)
    await ctx.database.commit(Traces(ctx.database).build_creation_writes(trace_with_votes, entry))


@pytest.mark.parametrize("tags", [[], ["python"]])
async def test_flagged_traces_do_not_hide_a_good_one(
    app: App, ctx: Context, tags: list[str]
) -> None:
    assert TraceStatus.FLAGGED is FLAGGED_TALLY.status
    for number in range(60):
        await store_trace(ctx, f"spam-{number}", "the tap drips and leaks", FLAGGED_TALLY)
    for number in range(75):
        await store_trace(ctx, f"other-{number}", f"something else {number}", VoteTally())
    await store_trace(ctx, "good", "a tap leaks", VoteTally())
    assert (await search_trace_ids(app, query="the tap drips and leaks", tags=tags))[0] == "good"


async def test_the_newest_traces_of_a_tag_are_loaded(ctx: Context) -> None:
    """A search by tags alone does so if a tag has more traces than its postings list."""
    for name in ("one", "two"):
        await store_trace(ctx, name, "a tap leaks", VoteTally())
    tag = make_named_facet(Kind.TAG, "python")
    loaded = await make_trace_corpus(ctx.database).documents.load_newest(5, [tag.id])
    assert {trace.id for trace in loaded} == {"one", "two"}
