"""Solved problems for tests: calls of the family's tools, as the gateway makes them."""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.traces.corpus import index_entry
from shared.traces.model import Trace, TraceContent
from shared.traces.repository import Traces
from tests.support.tool_calls import ANNA, STRANGER, call_result, request_of, tool_named
from tests.support.trace_set import trace_set

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from shared.core.dates import Clock
    from shared.runtime.context import App
    from shared.runtime.messages import CallRequest

FIELDS: Final = ("title", "context_text", "solution_text", "tags")

DOWN: Final[dict[str, Any]] = {"vote_type": "down", "feedback_tag": "wrong"}
SPAM: Final[dict[str, Any]] = {"vote_type": "down", "feedback_tag": "spam"}
NOTHING: Final = "No traces found matching your query."
"""How a search begins that finds nothing."""


def request_by(name: str, user: str | None, arguments: dict[str, Any]) -> CallRequest:
    """A call of a tool of the family, by a user or a stranger."""
    return request_of(tool_named(name), Caller.of(user) if user else Caller(), arguments)


def clock_at(moment: datetime) -> Clock:
    """A clock that stands."""
    return lambda: moment


@cache
def samples() -> list[dict[str, Any]]:
    """Solved problems of which no two say the same, as arguments of `contribute_trace`."""
    traces = trace_set()["traces"]
    return [{name: trace[name] for name in FIELDS} for trace in traces]


def sample(number: int, **other: Any) -> dict[str, Any]:
    """One of them, with other arguments in place of its own."""
    return samples()[number] | other


async def contribute(app: App, number: int = 0, user: str = ANNA, **other: Any) -> str:
    """Contribute a sample; return its id."""
    result = await call_result(app, "contribute_trace", user, **sample(number, **other))
    assert not result["duplicate"], result
    return str(result["trace_id"])


async def plant(app: App, title: str) -> str:
    """Store a trace past the search for duplicates."""
    ctx = app.context(Caller.of(ANNA), Meter())
    trace = Trace(
        trace_id=title.replace(" ", "-"),
        content=TraceContent(title=title, context_text="It jams.", solution_text="Oil it."),
        contributor=ANNA,
        created_at=ctx.clock(),
        updated_at=ctx.clock(),
    )
    entry = await index_entry(trace, ctx)
    await ctx.database.commit(Traces(ctx.database).create(trace, entry))
    return trace.trace_id


async def vote(app: App, trace_id: str, user: str, **how: Any) -> dict[str, Any]:
    """Vote, up unless said otherwise."""
    return await call_result(
        app, "vote_trace", user, trace_id=trace_id, **({"vote_type": "up"} | how)
    )


async def votes(app: App, trace_id: str, number: int, kind: str = "voter", **how: Any) -> None:
    """Vote as so many newcomers, one after the other."""
    for each in range(number):
        await vote(app, trace_id, f"{kind}{each}", **how)


async def found(app: App, user: str | None = STRANGER, /, **arguments: Any) -> list[str]:
    """The ids of a search's first page, if anything fits."""
    result = await call_result(app, "search_traces", user, **arguments)
    return ids([result]) if result["matches"] else []


async def walk(
    app: App, name: str, user: str | None = STRANGER, /, **arguments: Any
) -> list[dict[str, Any]]:
    """All pages of a call."""
    pages: list[dict[str, Any]] = []
    for _ in count():
        more = {"cursor": pages[-1]["next_cursor"]} if pages else {}
        pages.append(await call_result(app, name, user, **arguments, **more))
        if "next_cursor" not in pages[-1]:
            return pages
        assert len(pages) <= 200, "a walk that does not end"
    raise AssertionError


def ids(pages: Iterable[dict[str, Any]]) -> list[str]:
    """The trace ids of all pages of a search."""
    return [trace_hit["trace_id"] for page in pages for trace_hit in page["results"]]


async def tags(app: App, **arguments: Any) -> dict[str, int]:
    """The tags of all pages, with their counts."""
    pages = await walk(app, "list_tags", **arguments)
    return {tag["name"]: tag["count"] for page in pages for tag in page["tags"]}


async def take_back(app: App, result: dict[str, Any], user: str = ANNA) -> dict[str, Any]:
    """Make the call that takes back what another did."""
    return await call_result(app, result["undo"]["tool"], user, **result["undo"]["arguments"])


async def stored(app: App, collection: str) -> dict[str, dict[str, Any]]:
    """The fields of every document of a collection, by its id."""
    snapshots = app.connection.client.collection(collection).stream()
    return {snapshot.id: snapshot.to_dict() or {} async for snapshot in snapshots}
