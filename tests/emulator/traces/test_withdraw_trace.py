"""`withdraw_trace`, against the emulator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.traces.repository import Traces
from tests.support.fakes.embedder import WordEmbedder
from tests.support.tool_calls import ANNA, STRANGER, call, call_error, call_result, call_text
from tests.support.traces import (
    DOWN,
    contribute,
    found,
    sample,
    stored,
    tags,
    take_back,
    vote,
    votes,
)

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio

ASKED: tuple[dict[str, Any], ...] = (
    {"query": sample(0)["title"]},
    {"query": "editable", "tags": ["python"]},
    {"tags": ["src-layout"]},
)


async def withdraw(app: App, trace_id: str, **arguments: Any) -> dict[str, Any]:
    return await call_result(app, "withdraw_trace", trace_id=trace_id, **arguments)


async def test_nobody_finds_it_and_nobody_but_its_owner_reads_it(app: App) -> None:
    trace_id = await contribute(app)
    await contribute(app, 1)
    await withdraw(app, trace_id)
    for user in (STRANGER, "ben", ANNA):
        for asked in ASKED:
            assert trace_id not in await found(app, user, **asked, include_flagged=True)
    for user in (STRANGER, "ben"):
        error = await call_error(app, "get_trace", user, trace_id=trace_id)
        assert "NOT_FOUND" == error.code
    read = await call_result(app, "get_trace", ANNA, trace_id=trace_id)
    assert ("withdrawn", sample(0)["solution_text"]) == (read["status"], read["solution_text"])
    assert {"python": 1, "asyncio": 1} == await tags(app)


async def test_what_is_withdrawn_is_as_if_it_had_never_been(app: App) -> None:
    """To others the refusals of a withdrawn trace and of a missing one are the same."""
    trace_id = await contribute(app)
    await withdraw(app, trace_id)
    for name, more in (
        ("get_trace", {}),
        ("vote_trace", {"vote_type": "up"}),
        ("amend_trace", {"title": "Mine"}),
        ("withdraw_trace", {}),
    ):
        gone = await call_error(app, name, "ben", trace_id=trace_id, **more)
        never = await call_error(app, name, "ben", trace_id="f" * 16, **more)
        assert never.message.replace("f" * 16, trace_id) == gone.message


async def test_it_answers_with_the_status_and_the_way_back(app: App) -> None:
    trace_id = await contribute(app)
    told = {"trace_id": trace_id, "title": sample(0)["title"], "changed": True}
    back = {"tool": "withdraw_trace", "arguments": {"trace_id": trace_id, "withdrawn": False}}
    assert told | {"status": "withdrawn", "undo": back} == await withdraw(app, trace_id)
    again = {"tool": "withdraw_trace", "arguments": {"trace_id": trace_id, "withdrawn": True}}
    result = await withdraw(app, trace_id, withdrawn=False)
    assert told | {"status": "pending", "undo": again} == result


async def test_it_is_confirmed_in_words(app: App) -> None:
    trace_id = await contribute(app)
    text = await call_text(app, "withdraw_trace", trace_id=trace_id)
    assert all(part in text for part in (trace_id, sample(0)["title"], '"withdrawn": false'))
    text = await call_text(app, "withdraw_trace", trace_id=trace_id)
    assert "Nothing changed" in text


async def test_votes_survive(app: App) -> None:
    trace_id = await contribute(app)
    await votes(app, trace_id, 5)
    await vote(app, trace_id, "ben", **DOWN, feedback_text="Not on Windows.")
    before = await call_result(app, "get_trace", "ben", trace_id=trace_id)
    record = await stored(app, "contributors")
    await withdraw(app, trace_id)
    assert "validated" == (await withdraw(app, trace_id, withdrawn=False))["status"]
    assert before == await call_result(app, "get_trace", "ben", trace_id=trace_id)
    assert record == await stored(app, "contributors")


async def test_what_is_put_back_is_found_as_before(app: App) -> None:
    trace_id = await contribute(app)
    before = [await found(app, **asked) for asked in ASKED]
    await take_back(app, await withdraw(app, trace_id))
    assert [[trace_id]] * 3 == before == [await found(app, **asked) for asked in ASKED]


async def test_twice_is_as_good_as_once(app: App) -> None:
    trace_id = await contribute(app)
    for withdrawn in (True, False):
        await withdraw(app, trace_id, withdrawn=withdrawn)
        before = await stored(app, "trace_lexicon")
        again = await withdraw(app, trace_id, withdrawn=withdrawn)
        assert not again["changed"]
        assert "undo" not in again
        assert before == await stored(app, "trace_lexicon")


async def test_putting_back_what_is_there_changes_nothing(app: App) -> None:
    trace_id = await contribute(app)
    assert not (await withdraw(app, trace_id, withdrawn=False))["changed"]


async def test_only_its_owner_withdraws_it(app: App) -> None:
    trace_id = await contribute(app)
    error = await call_error(app, "withdraw_trace", "ben", trace_id=trace_id)
    assert ("FORBIDDEN", {"trace_id": trace_id}) == (error.code, error.details)
    await withdraw(app, trace_id)
    error = await call_error(app, "withdraw_trace", "ben", trace_id=trace_id, withdrawn=False)
    assert "NOT_FOUND" == error.code


async def test_withdrawn_at_once_by_many_calls_it_is_withdrawn_once(app: App) -> None:
    trace_id = await contribute(app)
    answers = await asyncio.gather(*(withdraw(app, trace_id) for _ in range(6)))
    assert 1 == sum(each["changed"] for each in answers)
    assert {} == await tags(app)
    totals = (await stored(app, "meta"))["trace_lexicon"]
    assert {"documents": 0, "length": 0} == totals


@pytest.mark.parametrize("embedder", [WordEmbedder()])
async def test_it_can_be_withdrawn_while_the_provider_is_down(
    app: App, embedder: WordEmbedder
) -> None:
    trace_id = await contribute(app)
    embedder.down = True
    await withdraw(app, trace_id)
    answer = await call(app, "withdraw_trace", trace_id=trace_id, withdrawn=False)
    embedder.down = False
    assert answer.error
    assert ("UNAVAILABLE", "nothing_done") == (answer.error.code, answer.error.details["outcome"])
    assert (await withdraw(app, trace_id, withdrawn=False))["changed"]


async def test_a_search_that_has_just_read_the_lists_does_not_show_it(app: App) -> None:
    """It may be withdrawn after the lists were read, and before its document is."""
    trace_id = await contribute(app)
    await withdraw(app, trace_id)
    traces = Traces(app.context(Caller(), Meter()).database)
    assert [] == await traces.get_all([trace_id])


async def test_it_costs_four_round_trips_at_most(app: App) -> None:
    old = await contribute(app)
    plain = await contribute(app, 2)
    new = await contribute(app, 1, supersedes=old)
    for trace_id, most in ((plain, 2), (new, 3)):
        answer = await call(app, "withdraw_trace", trace_id=trace_id)
        assert answer.receipt.round_trips <= most
    for trace_id in (plain, new):
        answer = await call(app, "withdraw_trace", trace_id=trace_id, withdrawn=False)
        assert answer.receipt.round_trips <= 4
