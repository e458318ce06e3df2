"""No tool for traces discloses who contributed a trace or voted on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.tool_calls import ANNA, ANONYMOUS, call, call_all_pages
from tests.support.traces import (
    DOWN,
    add_votes,
    collect_trace_ids,
    contribute,
    make_sample_trace,
    vote,
)

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio


async def test_contributors_and_voters_are_not_disclosed(app: App) -> None:
    superseded_id = await contribute(app, 0)
    trace_id = await contribute(app, 1, supersedes=superseded_id)
    await add_votes(app, trace_id, 2)
    await vote(app, trace_id, "carl.gauss@example.com", **DOWN, feedback_text="Not so.")

    answers = [
        await call(app, name, user, **arguments)
        for user in (ANONYMOUS, "ben", ANNA)
        for name, arguments in (
            ("search_traces", {"query": make_sample_trace(1)["title"]}),
            ("search_traces", {"tags": ["asyncio"]}),
            ("list_tags", {}),
            ("get_trace", {"trace_id": superseded_id}),
            ("get_trace", {"trace_id": trace_id}),
            ("get_trace", {"trace_id": "missing"}),
        )
    ]
    answers += [
        await call(app, "amend_trace", "ben", trace_id=trace_id, title="Mine"),
        await call(app, "withdraw_trace", "ben", trace_id=trace_id),
        await call(app, "vote_trace", "ben", trace_id=trace_id, vote_type="up"),
    ]
    answers += [
        await call(app, "vote_trace", ANNA, trace_id=trace_id, vote_type="up"),
        await call(app, "contribute_trace", ANNA, **make_sample_trace(2, supersedes=trace_id)),
    ]

    all_text = " ".join(answer.model_dump_json() for answer in answers).lower()
    for name in (ANNA, "lovelace", "voter0", "gauss"):
        assert name not in all_text


async def test_contributor_is_not_in_search_pages(app: App) -> None:
    for number in range(5):
        await contribute(app, number)
    pages = await call_all_pages(app, "search_traces", query="python pytest docker", limit=2)
    assert len(collect_trace_ids(pages)) > 2
    assert ANNA not in str(pages)
