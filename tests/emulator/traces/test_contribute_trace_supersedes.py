"""`contribute_trace` with `supersedes` replaces an earlier trace.

A trace is a solved coding problem that users share. A user's own trace is hidden from search while
it has a successor. Another user's trace stays.
"""

from __future__ import annotations

from shared.runtime.context import App
from tests.support.tool_calls import ANONYMOUS, call_error, call_result, call_text
from tests.support.traces import SPAM, add_votes, contribute, make_sample_trace, search_trace_ids


async def withdraw(app: App, trace_id: str, *, withdrawn: bool = True) -> None:
    """Withdraw a trace; or restore it, if `withdrawn` is false."""
    await call_result(app, "withdraw_trace", trace_id=trace_id, withdrawn=withdrawn)


async def are_found(app: App, *trace_ids: str) -> list[bool]:
    """Return for each trace whether search finds it, by words and by tags alike."""
    ids_by_words = await search_trace_ids(app, query="oranges", limit=50)
    ids_by_tags = await search_trace_ids(app, tags=["orange"], limit=50)
    assert set(ids_by_words) == set(ids_by_tags)
    return [trace_id in ids_by_tags for trace_id in trace_ids]


async def contribute_chain(app: App, length: int) -> list[str]:
    trace_ids: list[str] = []
    for number in range(length):
        arguments = {"supersedes": trace_ids[-1]} if trace_ids else {}
        title = f"Oranges {make_sample_trace(number)['title']}"
        trace_ids.append(await contribute(app, number, title=title, tags=["orange"], **arguments))
    return trace_ids


async def test_superseded_trace_of_the_same_user_is_not_found(app: App) -> None:
    superseded_id, successor_id = await contribute_chain(app, 2)
    assert await are_found(app, superseded_id, successor_id) == [False, True]
    superseded = await call_result(app, "get_trace", ANONYMOUS, trace_id=superseded_id)
    assert superseded["superseded_by"] == successor_id
    successor = await call_result(app, "get_trace", ANONYMOUS, trace_id=successor_id)
    assert successor["supersedes"] == superseded_id

    await withdraw(app, successor_id)
    assert await are_found(app, superseded_id, successor_id) == [True, False]
    trace = await call_result(app, "get_trace", ANONYMOUS, trace_id=superseded_id)
    assert "superseded_by" not in trace
    await withdraw(app, successor_id, withdrawn=False)
    assert await are_found(app, superseded_id, successor_id) == [False, True]


async def test_only_the_last_of_a_chain_is_found(app: App) -> None:
    trace_ids = await contribute_chain(app, 3)
    _, middle, last = trace_ids
    assert await are_found(app, *trace_ids) == [False, False, True]
    await withdraw(app, middle)
    assert await are_found(app, *trace_ids) == [False, False, True]
    text = await call_text(app, "withdraw_trace", trace_id=middle, withdrawn=False)
    assert f"replaced by the trace {last}" in text
    assert await are_found(app, *trace_ids) == [False, False, True]
    await withdraw(app, last)
    assert await are_found(app, *trace_ids) == [False, True, False]
    await withdraw(app, middle)
    assert await are_found(app, *trace_ids) == [True, False, False]
    await withdraw(app, last, withdrawn=False)
    await withdraw(app, middle, withdrawn=False)
    assert await are_found(app, *trace_ids) == [False, False, True]


async def test_superseding_a_trace_again_names_its_successor(app: App) -> None:
    [superseded_id] = await contribute_chain(app, 1)
    successor_id = await contribute(
        app, 1, title="Oranges", tags=["orange"], supersedes=superseded_id
    )
    error = await call_error(
        app, "contribute_trace", **make_sample_trace(2, supersedes=superseded_id)
    )
    assert error.code == "CONFLICT"
    assert list(error.details) == ["supersedes"]
    assert f"is replaced by {successor_id}" in error.message


async def test_superseded_trace_of_another_user_stays(app: App) -> None:
    [superseded_id] = await contribute_chain(app, 1)
    successor_id = await contribute(
        app, 1, "ben", title="Oranges again", tags=["orange"], supersedes=superseded_id
    )
    assert await are_found(app, superseded_id, successor_id) == [True, True]
    superseded = await call_result(app, "get_trace", ANONYMOUS, trace_id=superseded_id)
    assert "superseded_by" not in superseded
    successor = await call_result(app, "get_trace", ANONYMOUS, trace_id=successor_id)
    assert successor["supersedes"] == superseded_id

    await call_result(app, "withdraw_trace", "ben", trace_id=successor_id)
    await call_result(app, "withdraw_trace", "ben", trace_id=successor_id, withdrawn=False)
    assert await are_found(app, superseded_id, successor_id) == [True, True]


async def test_trace_withdrawn_by_another_user_is_not_found(app: App) -> None:
    """The contributor learns that it is withdrawn."""
    [superseded_id] = await contribute_chain(app, 1)
    await withdraw(app, superseded_id)
    arguments = make_sample_trace(1, supersedes=superseded_id)
    error = await call_error(app, "contribute_trace", "ben", **arguments)
    assert error.code == "NOT_FOUND"
    error = await call_error(app, "contribute_trace", **arguments)
    assert error.code == "CONFLICT"
    assert "is withdrawn" in error.message


async def test_own_flagged_trace_cannot_be_superseded(app: App) -> None:
    [superseded_id] = await contribute_chain(app, 1)
    await add_votes(app, superseded_id, 2, **SPAM)
    error = await call_error(
        app, "contribute_trace", **make_sample_trace(1, supersedes=superseded_id)
    )
    assert error.code == "CONFLICT"
    assert "amend it" in error.message


async def test_restoring_a_successor_cannot_hide_a_flagged_trace(app: App) -> None:
    superseded_id, successor_id = await contribute_chain(app, 2)
    await withdraw(app, successor_id)
    await add_votes(app, superseded_id, 2, **SPAM)
    error = await call_error(app, "withdraw_trace", trace_id=successor_id, withdrawn=False)
    assert error.code == "CONFLICT"
    assert error.details == {"supersedes": superseded_id}


async def test_flagged_trace_cannot_be_copied_by_superseding(app: App) -> None:
    flagged_id = await contribute(app)
    other_id = await contribute(app, 1, "ben")
    await add_votes(app, flagged_id, 2, **SPAM)
    result = await call_result(app, "contribute_trace", **make_sample_trace(0, supersedes=other_id))
    assert result["duplicate"] is True
    assert result["trace_id"] == flagged_id
