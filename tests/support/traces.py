"""Sample traces, and calls of the tools for traces as the gateway makes them.

A trace is a solved coding problem that users share and vote on.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import Any, Final

from shared.core.caller import Caller
from shared.core.dates import Clock
from shared.core.meter import Meter
from shared.runtime.context import App
from shared.traces.corpus import build_index_entry
from shared.traces.model import Trace, TraceContent
from shared.traces.repository import Traces
from shared.traces.trust import VoteTally
from tests.support.tool_calls import ANNA, ANONYMOUS, call_all_pages, call_result
from tests.support.trace_set import read_trace_set

FIELDS: Final = ("title", "context_text", "solution_text", "tags")
"""The fields of a trace that are arguments of `contribute_trace`."""
DOWN: Final[dict[str, Any]] = {"vote_type": "down", "feedback_tag": "wrong"}
"""The arguments of a vote that says that a trace is wrong."""
SPAM: Final[dict[str, Any]] = {"vote_type": "down", "feedback_tag": "spam"}
"""The arguments of a vote that says that a trace is spam."""
NO_MATCHES: Final = "No traces found matching your query."
"""The beginning of the message of a search without a match."""


def make_fixed_clock(moment: datetime) -> Clock:
    """Return a clock that always shows this time."""
    return lambda: moment


@cache
def read_sample_traces() -> list[dict[str, Any]]:
    """Return traces without duplicates, as arguments of `contribute_trace`."""
    traces = read_trace_set()["traces"]
    return [{name: trace[name] for name in FIELDS} for trace in traces]


def make_sample_trace(number: int, **changes: Any) -> dict[str, Any]:
    """Return the arguments that contribute a sample trace; `changes` override them."""
    return read_sample_traces()[number] | changes


async def contribute(app: App, number: int = 0, user: str = ANNA, **changes: Any) -> str:
    """Contribute a sample trace, and return its id; `changes` override its arguments."""
    result = await call_result(
        app, "contribute_trace", user, **make_sample_trace(number, **changes)
    )
    assert not result["duplicate"], result
    return str(result["trace_id"])


async def store_trace(
    app: App, title: str, *, tally: VoteTally | None = None, **content: Any
) -> str:
    """Store a trace without the check for duplicates, and return its id, the title with hyphens.

    Args:
        app: The app.
        title: The title of the trace.
        tally: The sum of its votes, which are not stored themselves.
        content: Further fields of the content.
    """
    ctx = app.context(Caller.of(ANNA), Meter())
    texts = {"context_text": "It jams.", "solution_text": "Oil it."} | content
    trace = Trace(
        trace_id=title.replace(" ", "-"),
        content=TraceContent(title=title, **texts),
        contributor=ANNA,
        created_at=ctx.clock(),
        updated_at=ctx.clock(),
        tally=tally or VoteTally(),
    )
    entry = await build_index_entry(trace, ctx)
    await ctx.database.commit(Traces(ctx.database).build_creation_writes(trace, entry))
    return trace.trace_id


async def vote(app: App, trace_id: str, user: str, **ballot: Any) -> dict[str, Any]:
    """Vote on a trace, by default up, and return the result of the call."""
    arguments = {"vote_type": "up"} | ballot
    return await call_result(app, "vote_trace", user, trace_id=trace_id, **arguments)


async def add_votes(
    app: App, trace_id: str, number: int, name: str = "voter", **ballot: Any
) -> None:
    """Vote as this many users, one after the other: `voter0`, `voter1` and so on."""
    for voter in range(number):
        await vote(app, trace_id, f"{name}{voter}", **ballot)


async def search_trace_ids(
    app: App, user: str | None = ANONYMOUS, /, **arguments: Any
) -> list[str]:
    """Return the trace ids of the first page of a search; none without a match."""
    result = await call_result(app, "search_traces", user, **arguments)
    return collect_trace_ids([result]) if result["matches"] else []


def collect_trace_ids(pages: Iterable[dict[str, Any]]) -> list[str]:
    """Return the trace ids of all pages of a search."""
    return [hit["trace_id"] for page in pages for hit in page["results"]]


async def read_tag_counts(app: App, **arguments: Any) -> dict[str, int]:
    """Return all tags with their counts."""
    pages = await call_all_pages(app, "list_tags", **arguments)
    return {tag: count for page in pages for tag, count in page["tags"].items()}
