"""The traces of the sample are valid contributions, and are stored once.

A trace is a solved coding problem that is shared and voted on.
"""

import json
from typing import Any

from infra.local.sample.traces import PATH, share_traces
from shared.runtime.context import App, Context
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
    """Every user may vote on them. Traces of users stay."""
    own = await contribute(app, 0, title="Mine", context_text="My own.", solution_text="Yes.")
    assert await share_traces(ctx) == {"shared": len(ROWS)}
    [first, *_] = await search_trace_ids(app, query=ROWS[3]["context_text"][:200])
    assert first == f"sample-{ROWS[3]['id']}"

    assert not (await call_result(app, "get_trace", "local", trace_id=first))["yours"]
    for user in ("ben", "local"):
        assert (await vote(app, first, user))["vote"] == "up"
    assert await share_traces(ctx) == {}
    assert (await call_result(app, "get_trace", trace_id=first))["upvotes"] == 2
    assert (await call_result(app, "get_trace", trace_id=own))["title"] == "Mine"
