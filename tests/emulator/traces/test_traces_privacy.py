"""Who contributed a trace, and who voted: told to nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.tool_calls import ANNA, STRANGER, call
from tests.support.traces import DOWN, contribute, ids, sample, vote, votes, walk

if TYPE_CHECKING:
    from shared.runtime.context import Backend

pytestmark = pytest.mark.anyio


async def test_who_contributed_is_told_to_nobody(backend: Backend) -> None:
    old = await contribute(backend, 0)
    trace_id = await contribute(backend, 1, supersedes=old)
    await votes(backend, trace_id, 2)
    await vote(backend, trace_id, "carl.gauss@example.com", **DOWN, feedback_text="Not so.")
    answers = [
        await call(backend, name, user, **arguments)
        for user in (STRANGER, "ben", ANNA)
        for name, arguments in (
            ("search_traces", {"query": sample(1)["title"]}),
            ("search_traces", {"tags": ["asyncio"]}),
            ("list_tags", {}),
            ("get_trace", {"trace_id": old}),
            ("get_trace", {"trace_id": trace_id}),
            ("get_trace", {"trace_id": "missing"}),
        )
    ]
    answers += [
        await call(backend, "amend_trace", "ben", trace_id=trace_id, title="Mine"),
        await call(backend, "withdraw_trace", "ben", trace_id=trace_id),
        await call(backend, "vote_trace", "ben", trace_id=trace_id, vote_type="up"),
    ]
    answers.append(await call(backend, "vote_trace", ANNA, trace_id=trace_id, vote_type="up"))
    answers.append(await call(backend, "contribute_trace", ANNA, **sample(2, supersedes=trace_id)))
    everything = " ".join(answer.model_dump_json() for answer in answers).lower()
    for name in (ANNA, "lovelace", "voter0", "gauss"):
        assert name not in everything


async def test_who_contributed_is_not_in_the_pages_of_a_walk(backend: Backend) -> None:
    for number in range(5):
        await contribute(backend, number)
    pages = await walk(backend, "search_traces", query="python pytest docker", limit=2)
    assert len(ids(pages)) > 2
    assert ANNA not in str(pages)
