"""`contribute_trace` with `supersedes`: one trace in the place of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tool_calls import STRANGER, call_error, call_result, call_text
from tests.support.traces import SPAM, contribute, found, sample, stored, take_back, votes

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio


async def withdraw(app: App, trace_id: str, *, withdrawn: bool = True) -> None:
    await call_result(app, "withdraw_trace", trace_id=trace_id, withdrawn=withdrawn)


async def shown(app: App, *trace_ids: str) -> list[bool]:
    """Which of these are found: by words and by tags alike."""
    by_words = await found(app, query="oranges", limit=50)
    by_tags = await found(app, tags=["orange"], limit=50)
    assert set(by_words) == set(by_tags)
    return [each in by_tags for each in trace_ids]


async def chain(app: App, length: int) -> list[str]:
    """Traces of which each replaces the one before."""
    made: list[str] = []
    for number in range(length):
        more = {"supersedes": made[-1]} if made else {}
        title = f"Oranges {sample(number)['title']}"
        made.append(await contribute(app, number, title=title, tags=["orange"], **more))
    return made


async def test_what_one_replaces_of_one_s_own_is_no_longer_found(app: App) -> None:
    old, new = await chain(app, 2)
    assert [False, True] == await shown(app, old, new)
    assert old == (await call_result(app, "get_trace", STRANGER, trace_id=old))["trace_id"]


async def test_it_is_found_again_when_its_successor_is_withdrawn(app: App) -> None:
    old, new = await chain(app, 2)
    await withdraw(app, new)
    assert [True, False] == await shown(app, old, new)
    assert "superseded_by" not in await call_result(app, "get_trace", STRANGER, trace_id=old)
    await withdraw(app, new, withdrawn=False)
    assert [False, True] == await shown(app, old, new)


async def test_undoing_the_contribution_brings_it_back(app: App) -> None:
    [old] = await chain(app, 1)
    result = await call_result(
        app, "contribute_trace", **sample(1, tags=["orange"], supersedes=old)
    )
    assert old == result["supersedes"]
    await take_back(app, result)
    assert [True] == await shown(app, old)


async def test_of_a_chain_only_the_last_is_found(app: App) -> None:
    made = await chain(app, 3)
    assert [False, False, True] == await shown(app, *made)
    await withdraw(app, made[2])
    assert [False, True, False] == await shown(app, *made)
    await withdraw(app, made[1])
    assert [True, False, False] == await shown(app, *made)
    await withdraw(app, made[2], withdrawn=False)
    await withdraw(app, made[1], withdrawn=False)
    assert [False, False, True] == await shown(app, *made)


async def test_behind_one_that_is_replaced_itself_nothing_comes_back(app: App) -> None:
    made = await chain(app, 3)
    await withdraw(app, made[1])
    assert [False, False, True] == await shown(app, *made)
    text = await call_text(app, "withdraw_trace", trace_id=made[1], withdrawn=False)
    assert f"replaced by the trace {made[2]}" in text
    assert [False, False, True] == await shown(app, *made)


async def test_a_replaced_trace_names_its_successor_to_who_replaces_it(
    app: App,
) -> None:
    [old] = await chain(app, 1)
    new = await contribute(app, 1, title="Oranges", tags=["orange"], supersedes=old)
    error = await call_error(app, "contribute_trace", **sample(2, supersedes=old))
    assert ("CONFLICT", ["supersedes"]) == (error.code, list(error.details))
    assert f"is replaced by {new}" in error.message


async def test_somebody_else_s_stands_beside_it(app: App) -> None:
    [old] = await chain(app, 1)
    new = await contribute(app, 1, "ben", title="Oranges again", tags=["orange"], supersedes=old)
    assert [True, True] == await shown(app, old, new)
    assert "superseded_by" not in await call_result(app, "get_trace", STRANGER, trace_id=old)
    assert old == (await call_result(app, "get_trace", STRANGER, trace_id=new))["supersedes"]
    await call_result(app, "withdraw_trace", "ben", trace_id=new)
    await call_result(app, "withdraw_trace", "ben", trace_id=new, withdrawn=False)
    assert [True, True] == await shown(app, old, new)


async def test_what_does_not_exist_cannot_be_replaced(app: App) -> None:
    [only] = await chain(app, 1)
    error = await call_error(app, "contribute_trace", **sample(1, supersedes="missing"))
    assert ("NOT_FOUND", [only]) == (error.code, list(await stored(app, "traces")))
    assert "search_traces" in error.message


async def test_what_somebody_else_withdrew_does_not_exist(app: App) -> None:
    [old] = await chain(app, 1)
    await withdraw(app, old)
    error = await call_error(app, "contribute_trace", "ben", **sample(1, supersedes=old))
    assert "NOT_FOUND" == error.code


async def test_one_s_own_that_is_withdrawn_cannot_be_replaced(app: App) -> None:
    [old] = await chain(app, 1)
    await withdraw(app, old)
    error = await call_error(app, "contribute_trace", **sample(1, supersedes=old))
    assert "CONFLICT" == error.code
    assert "is withdrawn" in error.message


async def test_a_better_wording_of_one_s_own_trace_may_replace_it(app: App) -> None:
    """What says the same as the very trace that it replaces is no duplicate of it."""
    [old] = await chain(app, 1)
    better: dict[str, Any] = {"title": f"Oranges: {sample(0)['title']}", "tags": ["orange"]}
    new = await contribute(app, 0, **better, supersedes=old)
    assert [False, True] == await shown(app, old, new)


async def test_a_flagged_one_is_not_shed_by_replacing_it(app: App) -> None:
    [old] = await chain(app, 1)
    await votes(app, old, 2, **SPAM)
    error = await call_error(app, "contribute_trace", **sample(1, supersedes=old))
    assert ("CONFLICT", "amend it" in error.message) == (error.code, True)


async def test_a_flagged_one_is_not_shed_by_putting_its_successor_back(app: App) -> None:
    made = await chain(app, 2)
    await withdraw(app, made[1])
    await votes(app, made[0], 2, **SPAM)
    error = await call_error(app, "withdraw_trace", trace_id=made[1], withdrawn=False)
    assert ("CONFLICT", {"supersedes": made[0]}) == (error.code, error.details)


async def test_a_flagged_one_is_not_copied_by_naming_another(app: App) -> None:
    flagged, other = await contribute(app), await contribute(app, 1, "ben")
    await votes(app, flagged, 2, **SPAM)
    answer = await call_result(app, "contribute_trace", **sample(0, supersedes=other))
    assert (True, flagged) == (answer["duplicate"], answer["trace_id"])
