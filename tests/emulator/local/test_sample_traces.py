"""The traces of the sample are valid contributions, and are stored once.

A trace is a solved coding problem that is shared and voted on.
"""

from __future__ import annotations

import json
from typing import Any

from infra.local.sample.traces import PATH, share_traces
from shared.runtime.context import App, Context
from tests.support.jobs import make_ample_budget
from tests.support.tool_calls import call_result
from tests.support.traces import contribute, search_trace_ids, vote

ROWS: list[dict[str, Any]] = json.loads(PATH.read_text("utf-8"))


async def test_each_trace_of_the_sample_can_be_contributed(app: App) -> None:
    """None contains a secret, no two are alike, and the tags are written as they are stored."""
    for row in ROWS:
        fields = {name: row[name] for name in ("title", "context_text", "solution_text", "tags")}
        answer = await call_result(app, "contribute_trace", **fields)
        assert answer["duplicate"] is False
        assert answer["tags"] == row["tags"]


async def test_traces_are_searchable_and_stored_once(app: App, ctx: Context) -> None:
    assert (await share_traces(ctx, make_ample_budget())).counts["shared"] == len(ROWS)
    [first, *_] = await search_trace_ids(app, query=ROWS[3]["context_text"][:200])
    assert first == f"sample-{ROWS[3]['id']}"

    await vote(app, first, "ben")
    assert (await share_traces(ctx, make_ample_budget())).counts == {}
    assert (await call_result(app, "get_trace", trace_id=first))["upvotes"] == 1


async def test_every_user_may_vote_on_the_sample(app: App, ctx: Context) -> None:
    await share_traces(ctx, make_ample_budget())
    trace_id = f"sample-{ROWS[0]['id']}"
    assert not (await call_result(app, "get_trace", "local", trace_id=trace_id))["yours"]
    assert (await vote(app, trace_id, "local"))["vote"] == "up"


async def test_sharing_the_sample_keeps_traces_of_users(app: App, ctx: Context) -> None:
    trace_id = await contribute(app, 0, title="Mine", context_text="My own.", solution_text="Yes.")
    await share_traces(ctx, make_ample_budget())
    assert (await call_result(app, "get_trace", trace_id=trace_id))["title"] == "Mine"
