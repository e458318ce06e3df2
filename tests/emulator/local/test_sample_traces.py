"""The sample's traces: valid contributions, and stored once."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.sample.traces import PATH, share_traces
from shared.runtime.job import Budget
from tests.support.tool_calls import call_result
from tests.support.traces import contribute, search_trace_ids, vote

if TYPE_CHECKING:
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

ROWS: list[dict[str, Any]] = json.loads(PATH.read_text("utf-8"))


def make_budget() -> Budget:
    return Budget(time.monotonic() + 600)


async def test_each_trace_passes_the_checks_of_contributions(app: App) -> None:
    """Nothing secret, no two of them alike, and tags as they are stored."""
    for row in ROWS:
        fields = {name: row[name] for name in ("title", "context_text", "solution_text", "tags")}
        answer = await call_result(app, "contribute_trace", **fields)
        assert (False, row["tags"]) == (answer["duplicate"], answer["tags"])


async def test_traces_are_searchable_and_stored_once(app: App, ctx: Context) -> None:
    assert len(ROWS) == (await share_traces(ctx, make_budget())).counts["shared"]
    [first, *_] = await search_trace_ids(app, query=ROWS[3]["context_text"][:200])
    assert first == f"sample-{ROWS[3]['id']}"
    await vote(app, first, "ben")
    assert (await share_traces(ctx, make_budget())).counts == {}
    assert (await call_result(app, "get_trace", trace_id=first))["upvotes"] == 1


async def test_every_user_may_vote_on_the_sample(app: App, ctx: Context) -> None:
    await share_traces(ctx, make_budget())
    trace_id = f"sample-{ROWS[0]['id']}"
    assert not (await call_result(app, "get_trace", "local", trace_id=trace_id))["yours"]
    assert (await vote(app, trace_id, "local"))["vote"] == "up"


async def test_traces_of_other_users_stay(app: App, ctx: Context) -> None:
    mine = await contribute(app, 0, title="Mine", context_text="My own.", solution_text="Yes.")
    await share_traces(ctx, make_budget())
    assert (await call_result(app, "get_trace", trace_id=mine))["title"] == "Mine"
