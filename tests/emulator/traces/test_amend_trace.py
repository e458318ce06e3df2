"""`amend_trace` changes the texts or tags of a trace, and keeps the earlier revisions.

A trace is a solved coding problem that users share and vote on. `make_sample_trace(0)` etc. are the
arguments of numbered examples, which `contribute` stores.
"""

import asyncio
from typing import Any

from shared.runtime.context import App
from tests.support.clock import NOON, SettableClock
from tests.support.stored_documents import read_app_documents
from tests.support.tool_calls import ANONYMOUS, call, call_error, call_result
from tests.support.traces import FIELDS, add_votes, contribute, make_sample_trace, search_trace_ids


async def amend(app: App, trace_id: str, **fields: Any) -> dict[str, Any]:
    """Amend a trace as its contributor, and return the result."""
    return await call_result(app, "amend_trace", trace_id=trace_id, **fields)


async def read_content(app: App, trace_id: str) -> dict[str, Any]:
    trace = await call_result(app, "get_trace", ANONYMOUS, trace_id=trace_id)
    return {name: trace[name] for name in (*FIELDS, "revision")}


async def test_only_given_fields_change(app: App) -> None:
    trace_id = await contribute(app)
    expected = make_sample_trace(0)
    changes: list[dict[str, Any]] = [
        {"title": "Another title"},
        {"context_text": "Another problem."},
        {"solution_text": "Another solution."},
        {"tags": ["another", "python"]},
        {"tags": []},
        make_sample_trace(1),
    ]
    for revision, change in enumerate(changes, start=2):
        expected |= change
        result = await amend(app, trace_id, **change)
        assert sorted(result["changed"]) == sorted(change)
        assert await read_content(app, trace_id) == expected | {"revision": revision}


async def test_result_has_the_amended_trace(app: App) -> None:
    trace_id = await contribute(app)
    arguments: dict[str, Any] = {"title": "  New\ttitle ", "tags": ["Two Words"]}
    answer = await call(app, "amend_trace", trace_id=trace_id, **arguments)
    assert answer.result == {
        "trace_id": trace_id,
        "title": "New title",
        "tags": ["two-words"],
        "status": "pending",
        "revision": 2,
        "changed": ["title", "tags"],
        "undo": {"tool": "amend_trace", "arguments": {"trace_id": trace_id, "revision": 1}},
        "message": "Votes for the trace were reset. The undo restores its texts, not the votes.",
    }


async def test_earlier_revision_is_brought_back(app: App) -> None:
    trace_id = await contribute(app)
    await amend(app, trace_id, **make_sample_trace(1))
    await amend(app, trace_id, **make_sample_trace(2))
    for latest, (revision, sample_number) in enumerate(((2, 1), (1, 0), (3, 2)), start=4):
        result = await amend(app, trace_id, revision=revision)
        assert sorted(result["changed"]) == sorted(FIELDS)
        expected = make_sample_trace(sample_number) | {"revision": latest}
        assert await read_content(app, trace_id) == expected
    for missing in (6, 7, 99):  # the latest is not an earlier one
        error = await call_error(app, "amend_trace", trace_id=trace_id, revision=missing)
        assert error.code == "NOT_FOUND"
        assert set(error.details) == {"revision"}


async def test_same_content_changes_nothing(app: App) -> None:
    trace_id = await contribute(app)
    await add_votes(app, trace_id, 4)
    traces_before = await read_app_documents(app, "traces")
    for same_fields in (
        {"title": f"  {make_sample_trace(0)['title']} "},
        {"tags": ["PYTHON", "packaging", "pytest", "python", "src-layout"]},
        make_sample_trace(0),
    ):
        answer = await call(app, "amend_trace", trace_id=trace_id, **same_fields)
        assert answer.result
        assert answer.result["changed"] == []
        assert answer.result["revision"] == 1
        assert answer.result["status"] == "validated"
        assert "undo" not in answer.result
        assert "Nothing changed" in answer.result["message"]
    assert await read_app_documents(app, "traces") == traces_before


async def test_withdrawn_trace_must_be_restored_first(app: App) -> None:
    trace_id = await contribute(app)
    await call_result(app, "withdraw_trace", trace_id=trace_id)
    error = await call_error(app, "amend_trace", trace_id=trace_id, title="New")
    assert error.code == "CONFLICT"
    assert error.details == {"trace_id": trace_id}
    assert "withdraw_trace" in error.message


async def test_amendment_changes_the_date(app: App, clock: SettableClock) -> None:
    clock.now = NOON
    amended_id = await contribute(app, 0, tags=["x"])
    other_id = await contribute(app, 1, tags=["x"])
    clock.advance(days=3)
    await amend(app, amended_id, title="New")
    trace = await call_result(app, "get_trace", trace_id=amended_id)
    assert (trace["date"], trace["created_at"]) == ("2024-06-03", "2024-05-31")
    assert await search_trace_ids(app, tags=["x"]) == [amended_id, other_id]


async def test_concurrent_amendments_keep_every_revision(app: App) -> None:
    trace_id = await contribute(app)
    await asyncio.gather(*(amend(app, trace_id, title=f"Title {number}") for number in range(6)))
    revisions = await read_app_documents(app, f"traces/{trace_id}/revisions")
    trace = await read_content(app, trace_id)
    assert {str(number) for number in range(1, 7)} == revisions.keys()
    assert trace["revision"] == 7
    titles = {data["title"] for data in revisions.values()} | {trace["title"]}
    assert titles == {make_sample_trace(0)["title"], *(f"Title {number}" for number in range(6))}
